"""The start of the service: data folder, keys, ports, store, then the workers.

Errors are found before a worker serves, and reported in one line.
"""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import uvloop

from autopush.admission import OpenConnections
from autopush.bridges.discovery import configured_routers
from autopush.clock import ServiceClock
from autopush.console.session import ACT, ConsoleTokens
from autopush.delivery.megaphone import Megaphone, PollError
from autopush.hosts import url_host
from autopush.keys import ServiceKeys, save_keys, service_keys
from autopush.net.node_auth import new_instance
from autopush.net.siblings import PREDECESSOR, add_successors, socket_pairs
from autopush.service.app import ServiceContext
from autopush.service.certificates import Certificates
from autopush.service.data_folder import prepare_data_folder
from autopush.service.hand_over import HAND_OVER_TIMEOUT
from autopush.service.listeners import PUBLIC, bind, close, port_of
from autopush.service.own_certificate import keep_certificate, prepare_certificate
from autopush.service.reload import Reloading
from autopush.service.sharing import StoreSharing
from autopush.service.storage import check_keys, divide, report_damage, report_empty_file, try_store
from autopush.service.supervisor import Companion, Supervisor, Watchdog, WorkerSlot
from autopush.service.systemd import ServiceManager, passed_sockets
from autopush.service.upgrade import Predecessor, ServiceUpgrade
from autopush.service.worker import SERVE_AGAIN, serve
from autopush.settings import STARTUP_FAILED, Settings, StartupError
from autopush.settings.addresses import ALL_INTERFACES
from autopush.telemetry import logs
from autopush.telemetry.metric_table import METRICS, WORKER_HEARTBEAT
from autopush.telemetry.metrics import SharedMetrics
from keytables.clock_guard import read_clocks

T = TypeVar("T")

_log = logs.get(__name__)


class StartStopped(SystemExit):
    """SIGTERM came during the start. Event loops let a SystemExit pass."""


class StopSignal:
    """SIGTERM during the start.

    While an event loop runs, the handler only cancels the step: an exception raised in the callback
    of a weak reference, of which a loop has many, or in a `__del__` is lost. Elsewhere the handler
    raises; if that is lost, the next step notices the signal.
    """

    def __init__(self) -> None:
        self._is_received = False
        self._cancel: Callable[[], object] | None = None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signal, until the service does so itself."""
        previous = signal.signal(signal.SIGTERM, self._on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)

    def check(self) -> None:
        """:raises StartStopped: the signal has come"""
        if self._is_received:
            raise StartStopped

    def run(
        self,
        step: Coroutine[Any, Any, T],
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> T:
        """As `asyncio.run`.

        :raises StartStopped: the signal has come, or comes meanwhile
        """
        try:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                return runner.run(self._cancellable(step))
        except asyncio.CancelledError:
            self.check()
            raise

    async def _cancellable(self, step: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(step)
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if self._is_received:
            task.cancel()
        try:
            return await task
        finally:
            self._cancel = None

    def _on_signal(self, *_: object) -> None:
        self._is_received = True
        if self._cancel is None:
            raise StartStopped
        self._cancel()


def run(settings: Settings, read: Callable[[], Settings]) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code. `read`: the settings again, checked.

    :raises StartupError: the start failed
    """
    stop = StopSignal()
    try:
        with stop.handled():
            return _run(settings, read, stop)
    except StartStopped:
        _log.info("Stopped during the start")
        return 0


def _run(settings: Settings, read: Callable[[], Settings], stop: StopSignal) -> int:
    started = settings
    if settings.domain:
        prepare_certificate(settings)
    certificates = Certificates(settings)
    if settings.no_aws:
        os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    if settings.needs_data_folder:
        prepare_data_folder(settings.data)
    keys = service_keys(
        settings.crypto_key, settings.auth_key, settings.data, auth_needed=settings.has_endpoint
    )
    predecessor = Predecessor()
    passed = passed_sockets()
    settings, sockets = bind(settings, predecessor.listeners, passed, predecessor.managed)
    of_manager = {each.sock for each in passed}
    managed = predecessor.managed or [
        purpose for each in sockets for purpose, sock in each.items() if sock in of_manager
    ]
    predecessor.close_unused(sockets)
    announce_addresses(settings)
    if settings.has_endpoint and (routers := configured_routers(settings)):
        _log.info("Bridges in service", routers=sorted(routers))
    report_empty_file(settings)
    report_damage(settings)
    divide(settings)
    clock = ServiceClock()
    stop.run(try_store(settings, clock))
    clock.first_reading = read_clocks(clock)
    sharing = predecessor.sharing
    if sharing is None and settings.store_file is not None:
        sharing = StoreSharing.begin(settings.store_file)
    metrics = SharedMetrics(METRICS, settings.workers)
    broadcasts = read_broadcasts(settings, stop)
    keys = _saved(settings, keys, stop)
    for path in keys.made:
        _log.info("Created a new key; keep a copy in a safe place", file=str(path))
    siblings = socket_pairs(settings.workers)
    successors = add_successors(siblings)
    for own, to_predecessor in zip(siblings, predecessor.siblings, strict=False):
        own[PREDECESSOR] = to_predecessor
    service = ServiceContext(
        settings,
        keys,
        certificates,
        sockets,
        metrics,
        broadcasts,
        clock,
        siblings=siblings,
        node_urls=[
            settings.node_url(port_of(each["router"])) for each in sockets if "router" in each
        ],
        sharing=sharing,
        managed=managed,
        instances=predecessor.instances or [new_instance() for _ in sockets],
        successors=successors,
        account_connections=OpenConnections(settings.workers),
    )
    with closing(ServiceManager()) as manager:
        reloading = Reloading(settings, started, read)
        return _serve(service, manager, predecessor, reloading, stop)


def _saved(settings: Settings, keys: ServiceKeys, stop: StopSignal) -> ServiceKeys:
    """The keys in their files, recorded in the store.

    Of processes that start at the same time on a new store, the first to create the files decides.
    It records its key after creating the file: if the store knows another key and there is a file
    now, they are from such a process.
    """
    if keys.made:
        try:
            stop.run(check_keys(settings, keys, time.time, note=False))
        except StartupError:
            if not any(path.exists() for path in keys.made):
                raise
    keys = save_keys(keys)
    stop.run(check_keys(settings, keys, time.time))
    return keys


def _serve(
    service: ServiceContext,
    manager: ServiceManager,
    predecessor: Predecessor,
    reloading: Reloading,
    stop: StopSignal,
) -> int:
    settings = service.settings
    metrics = service.metrics
    instances, successors = list(service.instances), list(service.successors)
    service = replace(service, instances=instances, successors=successors)

    def on_ended(index: int) -> None:
        metrics.clear_gauges(index)
        if service.account_connections is not None:
            service.account_connections.clear(index)
        instances[index] = new_instance()

    def present() -> ServiceContext:
        """With the settings of the last reload, for a worker that begins after it."""
        now = reloading.settings
        broadcasts = service.broadcasts if now.has_broadcasts_of(settings) else {}
        return replace(service, settings=now, broadcasts=broadcasts)

    def renew_successors() -> None:
        successors[:] = add_successors(service.siblings)

    def on_upgrade_failed() -> None:
        manager.report_return(time.monotonic())
        if settings.is_supervised:  # else the worker of this process still uses the former ones
            renew_successors()

    upgrade = ServiceUpgrade(
        service.sockets,
        manager.report_successor,
        on_upgrade_failed,
        successors=successors,
        instances=instances,
        sharing=service.sharing,
        managed=service.managed,
    )

    def on_all_ready() -> None:
        announce(settings)
        predecessor.report_ready()

    if not settings.is_supervised:

        def on_ready() -> None:
            on_all_ready()
            manager.report_from(asyncio.get_running_loop())

        logs.start_background()
        with closing(upgrade):
            while True:
                serving = serve(present(), 0, on_ready, reloads=reloading, upgrade=upgrade)
                code = stop.run(serving, uvloop.new_event_loop)
                if code != SERVE_AGAIN:
                    return code
                on_ended(0)
                service.siblings[0].pop(PREDECESSOR, None)  # closed with the former worker
                renew_successors()

    def start(slot: WorkerSlot) -> int:
        _close_unused(service, slot.index)
        try:
            serving = serve(
                present(),
                slot.index,
                slot.report_ready,
                parent_pipe=slot.parent_pipe,
                reloads=slot.messages,
                has_reloaded=slot.has_reloaded,
            )
            return stop.run(serving, uvloop.new_event_loop)
        except StartupError as error:
            logs.print_error(str(error))
            return STARTUP_FAILED

    stop.check()
    supervisor = Supervisor(
        start,
        settings.workers,
        on_ready=on_all_ready,
        on_ended=on_ended,
        watchdog=Watchdog(settings.watchdog_timeout, lambda: metrics.per_worker(WORKER_HEARTBEAT)),
        manager=manager,
        reloading=reloading,
        upgrade=upgrade,
        drain=HAND_OVER_TIMEOUT + settings.upgrade_drain,
        companion=(
            Companion("process of the certificate", partial(keep_certificate, service))
            if settings.domain
            else None
        ),
    )
    # Workers share these objects as long as nobody writes to their pages, which a collection does.
    gc.collect()
    gc.freeze()
    with closing(upgrade):
        return supervisor.run()


def read_broadcasts(settings: Settings, stop: StopSignal) -> dict[str, str]:
    """The broadcasts and their versions, none without a source in the settings.

    :raises StartupError: the source cannot be read
    """
    url = settings.megaphone_api_url
    if not (url and settings.has_sockets):
        return {}
    if not settings.ping_interval:
        _log.warning(
            "auto_ping_interval is 0: user agents are not sent the broadcasts that change while "
            "they are connected"
        )
    try:
        return stop.run(Megaphone(url, settings.megaphone_api_token).fetch())
    except PollError as error:
        raise StartupError(f"megaphone_api_url: {url}: {error}") from None


def announce(settings: Settings) -> None:
    """Print the line that says the service is ready, whatever the log settings."""
    page = f"start page {settings.public_endpoint_url}/"
    websocket = f"WebSocket {settings.public_websocket_url}"
    node_api = f"node API {settings.node_host}:{settings.router_port}"
    http = f"HTTP{'S' * settings.has_tls} {url_host(settings.host)}:{settings.port}"
    if settings.unix_socket:
        http = f"HTTP {settings.host}"
    store = f"store {settings.store_place}"
    match settings.command:
        case "connection":
            words = ["autopush connection ready: " + websocket, node_api, store]
        case "endpoint":
            words = ["autopush endpoint ready: " + page, http, store]
        case _:
            if settings.store_is_in_data_folder:
                store = f"data {settings.data}"
            words = ["autopush ready: " + page, websocket, node_api, store]
    workers = "" if settings.workers == 1 else f" workers={settings.workers}"
    print(" · ".join(words) + workers, flush=True)
    if settings.console:
        announce_console(settings)


def announce_console(settings: Settings) -> None:
    """Print where the console is. The first start on a terminal makes its token and shows it: what
    is no terminal may be a log, which must not have it.
    """
    tokens, words = ConsoleTokens(settings.data), ""
    try:
        if not tokens.hashes():
            words = " · `autopush console-token` makes the token to log in with"
            if sys.stdout.isatty():
                words = f" · token {tokens.make(ACT)} (shown this once)"
    except OSError as error:
        words = f" · its tokens cannot be kept: {error.filename}: {error.strerror}"
    print(f"console {settings.console_url}{words}", flush=True)


def announce_addresses(settings: Settings) -> None:
    """Log where the ports listen."""
    ports: dict[str, str | int] = {"host": settings.host}
    ports |= {
        purpose: getattr(settings, name)
        for purpose, name in settings.listeners.items()
        if not (settings.unix_socket and name == "port")
    }
    router = ""
    if settings.has_sockets:
        where = _where(settings.router_address)
        router = f"; port {settings.router_port}, on {where}, must not be public"
        ports["router_host"] = settings.router_address
    _log.info(f"Listening on {_where(settings.host)}{router}", **ports)


def _where(host: str) -> str:
    return "every interface" if host in ALL_INTERFACES else host


def _close_unused(service: ServiceContext, index: int) -> None:
    """Close what this worker has inherited and does not use."""
    for number, pairs in enumerate(service.siblings):
        if number != index:
            close(pairs)
    close(dict(enumerate(service.successors)))  # of the main process, for the next version
    for number, sockets in enumerate(service.sockets):
        if number == index:
            close({name: each for name, each in sockets.items() if name == "http"})
        elif number == (index + 1) % service.settings.workers:
            close({name: each for name, each in sockets.items() if name not in PUBLIC})
        else:
            close(sockets)
