"""One worker: the nodes of its command, in one process and on one event loop."""

import asyncio
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import uvloop

from autopush.api.memory_usage import memory_usage
from autopush.clock import Clock
from autopush.net.http_server import HttpServer
from autopush.net.listener import Listener
from autopush.service.certificates import Certificates
from autopush.service.context import ServiceContext, WorkerContext
from autopush.service.listeners import BACKLOG
from autopush.service.maintenance import Maintenance
from autopush.service.nodes import ConnectionService, EndpointService, PagesService
from autopush.service.open_files import raise_limit
from autopush.service.stop_signal import StopSignal
from autopush.service.storage import open_store, rotate_monthly
from autopush.service.store_watch import StoreWatch
from autopush.store.failures import StoreFailures
from autopush.telemetry import logs
from autopush.telemetry.descriptors import DescriptorShortage, is_shortage
from autopush.telemetry.metric_table import REQUESTS_IN_FLIGHT
from autopush.telemetry.metrics import Metric
from autopush.telemetry.process import ProcessMetrics

SHUTDOWN_TIMEOUT: Final = 28.0
"""Seconds after which a shutdown is cut short: it takes longer only if the store does not answer. A
supervisor would kill the worker two seconds later.
"""
SHUTDOWN_CUT_SHORT: Final = 1
"""Exit code then."""
CHECKS_TIMEOUT: Final = 5.0
"""Seconds in which a shutdown repeats pending checks of unresponsive nodes."""
TLS_SHUTDOWN_TIMEOUT: Final = 5.0
"""Seconds a client has to answer the end of a TLS connection before TCP is closed."""

_log = logs.get(__name__)


def run_worker(
    service: ServiceContext,
    index: int,
    start: StopSignal,
    *,
    on_ready: Callable[[], None],
    parent_pipe: int | None = None,
    reload: bool = False,
) -> int:
    """Serve as the worker of that index until SIGTERM, SIGINT or the end of `parent_pipe`; returns
    the exit code. `start`: what SIGTERM does until the store is open.

    SIGHUP has the files read again that can be replaced while it serves; `reload` has it done
    before anything is served.
    """
    raise_limit()
    serving = _serve(service, index, on_ready, parent_pipe, reload)
    return start.run(serving, uvloop.new_event_loop)


async def _serve(
    service: ServiceContext,
    index: int,
    on_ready: Callable[[], None],
    parent_pipe: int | None,
    reload: bool,
) -> int:
    loop = asyncio.get_running_loop()
    shortage = DescriptorShortage()
    loop.set_exception_handler(loop_error_handler(shortage))
    hangup = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    # One that came before is delivered now: it was blocked since the start of the program.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])
    clock = time.time
    metrics = service.metrics.of_worker(index)
    failures = StoreFailures(metrics)
    store = await open_store(service.settings, clock, metrics, failures.note, service.first_reading)
    # From here on there is something to finish; a signal that comes before ends the process.
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent_pipe is not None:
        loop.add_reader(parent_pipe, stop.set)
    if reload:
        await _reload(service.certificates, clock)
    worker = Worker(WorkerContext(service, index, metrics, store, clock), shortage)
    await worker.start()
    watch = StoreWatch(store, failures, service.settings, reports_disk=index == 0)
    watching = loop.create_task(watch.run())
    reloads = loop.create_task(_reload_at(hangup, service.certificates, clock))
    # What exists now lives until the end: the garbage collector need not scan it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    worker.process.set_ready(True)  # before the service is announced
    on_ready()
    await stop.wait()
    _end_process_after(SHUTDOWN_TIMEOUT)
    worker.process.set_ready(False)
    reloads.cancel()
    watching.cancel()
    await worker.stop()
    await store.close()
    return 0


async def _reload_at(hangup: asyncio.Event, certificates: Certificates, clock: Clock) -> None:
    while True:
        await hangup.wait()
        hangup.clear()
        await _reload(certificates, clock)


async def _reload(certificates: Certificates, clock: Clock) -> None:
    """Read what can be replaced while the service runs; log what is wrong with it."""
    logs.reopen()
    await asyncio.to_thread(certificates.reload, clock())


class Worker:
    """The nodes of one worker, listening from `start` to `stop`."""

    def __init__(self, shared: WorkerContext, shortage: DescriptorShortage | None = None) -> None:
        self._shared = shared
        settings, sockets = shared.settings, shared.sockets
        # In the order of shutdown: what the endpoint still delivers, the connection node saves.
        self._services: list[EndpointService | ConnectionService | PagesService] = []
        sampled: list[tuple[Metric, Callable[[], float]]] = []
        if settings.has_endpoint:
            endpoint = EndpointService(shared)
            self._services.append(endpoint)
            sampled.append((REQUESTS_IN_FLIGHT, lambda: endpoint.app.in_progress))
        if settings.has_sockets:
            self._services.append(ConnectionService(shared))
        for purpose, pages in (("metrics", shared.internal_pages), ("memory", memory_usage)):
            if purpose in sockets:
                self._services.append(PagesService(shared, purpose, pages))
        self._tls = {sock: shared.certificates.of(purpose) for purpose, sock in sockets.items()}
        self.process = ProcessMetrics(
            shared.metrics, asyncio.get_running_loop(), sampled, shortage=shortage
        )
        self._servers: list[asyncio.Server | Listener] = []
        self._rotation: asyncio.Task[None] | None = None
        self._maintenance: Maintenance | None = None
        if settings.maintains and settings.has_sockets:
            self._maintenance = Maintenance(
                shared.store,
                shared.metrics,
                shared.clock,
                first_reading=shared.first_reading,
                key_hash=settings.key_hash,
            )

    async def start(self) -> None:
        """Accept connections on all ports."""
        loop = asyncio.get_running_loop()
        self.process.start()
        if self._shared.exporter is not None:
            self._shared.exporter.start()
        self._rotation = loop.create_task(rotate_monthly(self._shared.store.rotate))
        if self._maintenance is not None:
            self._maintenance.start()
        for service in self._services:
            for http, sock in service.servers:
                if self._tls[sock] is None:
                    self._servers.append(
                        await loop.create_server(http.protocol, sock=sock, backlog=BACKLOG)
                    )
                else:
                    self._listen(http, sock, proxied=False)
            if isinstance(service, EndpointService) and service.proxied is not None:
                self._listen(*service.proxied, proxied=True)

    def _listen(self, http: HttpServer, sock: socket.socket, *, proxied: bool) -> None:
        settings, tls = self._shared.settings, self._tls[sock]
        listener = Listener(
            sock,
            http.protocol,
            self._shared.wheel,
            tls=tls.context if tls else None,
            proxied=proxied,
            handshake_timeout=settings.open_handshake_timeout,
            shutdown_timeout=TLS_SHUTDOWN_TIMEOUT,
            limits=http.connection_limits,
            on_refused=_log_proxy_refused,
        )
        listener.start()
        self._servers.append(listener)

    async def stop(self) -> None:
        """Stop accepting, answer what is in progress, close the sockets, save what is unacked."""
        for server in self._servers:
            server.close()
        if self._rotation is not None:
            self._rotation.cancel()
        if self._maintenance is not None:
            await self._maintenance.stop()
        for service in self._services:
            await service.shutdown()
        await self._shared.nodes.finish(CHECKS_TIMEOUT)
        if self._shared.exporter is not None:
            await self._shared.exporter.stop()
        self._shared.close()
        self.process.close()


def _end_process_after(seconds: float) -> None:
    """End this process if it still exists then, whatever it waits for.

    The interpreter does not end before its threads, and one of the store may wait for a disk that
    does not answer, or the loop itself.
    """
    timer = threading.Timer(seconds, _end_process)
    timer.daemon = True
    timer.start()


def _end_process() -> None:
    _log.error("The shutdown did not end in time and is cut short", seconds=SHUTDOWN_TIMEOUT)
    logs.shutdown()
    os._exit(SHUTDOWN_CUT_SHORT)


def _log_proxy_refused(proxy: str, reason: str, number: int) -> None:
    _log.warning("Connections without PROXY header", proxy=proxy, reason=reason, number=number)


def loop_error_handler(
    shortage: DescriptorShortage,
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """What logs the errors that reach an event loop.

    asyncio's own handler would show callbacks with their arguments: user agents, rows, messages.
    """

    def log_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and is_shortage(error):
            shortage.note(error)
        elif error is not None:
            _log.exception("Unhandled error on the event loop", error=error)
        else:
            _log.error("Error reported by the event loop", reason=context.get("message", ""))

    return log_error
