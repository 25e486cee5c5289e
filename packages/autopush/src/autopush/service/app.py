"""One worker: its parts, the ports they answer at, and the order in which all begin and end."""

import asyncio
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from autopush.admission import OpenConnections
from autopush.api.matrix import MAX_BODY as MAX_MATRIX_BODY
from autopush.api.matrix import PATH as MATRIX_PATH
from autopush.api.memory_usage import memory_usage
from autopush.bridges.discovery import configured_routers
from autopush.clock import Clock, ServiceClock
from autopush.console.audit import AuditLog
from autopush.console.following import FollowedPushes
from autopush.console.handlers import Console
from autopush.console.lookup import LookUp
from autopush.console.overview import Overview
from autopush.console.report import LOGGED, LoggedErrors, Report, report_command
from autopush.console.session import ConsoleSessions, ConsoleTokens
from autopush.console.users import AccountPages
from autopush.delivery.bridge_contract import Router
from autopush.delivery.megaphone import BroadcastPoller, Megaphone, PollError
from autopush.keys import ServiceKeys
from autopush.net.http_messages import Limits
from autopush.net.http_server import HttpServer
from autopush.net.node_auth import new_instance
from autopush.net.siblings import PREDECESSOR, SILENT_AFTER, Adoption, Siblings
from autopush.net.timers import TimerWheel
from autopush.service.certificates import Certificates
from autopush.service.compose import IO, EndpointParts, NodeParts, compose
from autopush.service.datadog import Datadog
from autopush.service.listeners import Sockets
from autopush.service.maintenance import Maintenance
from autopush.service.ports import Ports
from autopush.service.sharing import StoreSharing
from autopush.service.store_watch import rotate_monthly
from autopush.settings import Settings, StartupError
from autopush.store import PushStore
from autopush.store.inspection import count_messages
from autopush.telemetry import logs
from autopush.telemetry.exporters import Exporter, Sender, Statsd
from autopush.telemetry.metric_table import REQUESTS_IN_FLIGHT
from autopush.telemetry.metrics import Metric, Metrics, SharedMetrics
from autopush.telemetry.process import DescriptorShortage, ProcessMetrics
from autopush.webpush.tokens import derive_key
from keytables import KeytablesError

MAX_NODE_BODY: Final = 512 * 1024
MAX_PAGE_BODY: Final = 4096
NODE_IDLE_TIMEOUT: Final = 3600.0
"""Seconds after which an idle connection of another node is closed."""
PAGES_MARGIN: Final = 16
"""Connections to the WebSocket port beyond `max_connections`, so that its pages stay reachable."""
SOCKETS_TIMEOUT: Final = 15.0
"""Seconds in which a shutdown closes all WebSockets and saves unacked messages."""
REQUESTS_TIMEOUT: Final = 5.0
"""Seconds in which a shutdown answers the requests in progress, per port."""
CHECKS_TIMEOUT: Final = 5.0
"""Seconds in which a shutdown repeats pending calls to unresponsive nodes."""


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """What the start of the service has prepared for its workers.

    `sockets`: of each worker. `broadcasts`: versions at the start.
    `siblings`: of each worker its sockets to the others and to other versions. `node_urls`: the
    base of its node ID. `instances`: the end of its node ID. `successors`: of each worker the other
    end of its socket to the next version. `managed`: the purposes of those sockets that are of the
    service manager.
    """

    settings: Settings
    keys: ServiceKeys
    certificates: Certificates
    sockets: Sequence[Sockets]
    metrics: SharedMetrics
    broadcasts: Mapping[str, str]
    clock: ServiceClock
    siblings: Sequence[dict[int, socket.socket]] = ()
    node_urls: Sequence[str] = ()
    instances: Sequence[str] = ()
    successors: Sequence[socket.socket] = ()
    account_connections: OpenConnections | None = None
    sharing: StoreSharing | None = None
    managed: Sequence[str] = ()


class Worker:
    """All of one worker, which accepts connections from `start` to `stop`."""

    def __init__(
        self,
        service: ServiceContext,
        index: int,
        metrics: Metrics,
        store: PushStore,
        clock: Clock,
        shortage: DescriptorShortage | None = None,
    ) -> None:
        settings, sockets = service.settings, service.sockets[index]
        self._settings, self._certificates = settings, service.certificates
        self._exporter = _exporter(settings, metrics)  # before histograms are looked up
        self._wheel = TimerWheel(asyncio.get_running_loop())
        self._siblings = Siblings()
        if service.siblings:
            self._siblings = Siblings.on(service.siblings[index], self._wheel)
        self._sharing = service.sharing
        has_sockets = settings.has_sockets
        self._parts = parts = compose(
            settings,
            IO(
                store=store,
                metrics=metrics,
                keys=service.keys,
                wheel=self._wheel,
                clock=clock,
                index=index,
                instance=service.instances[index] if service.instances else new_instance(),
                node_url=service.node_urls[index] if has_sockets else "",
                node_tls=service.certificates.nodes,
                siblings=self._siblings,
                sibling_urls={
                    url: each for each, url in enumerate(service.node_urls) if each != index
                },
                broadcasts=service.broadcasts,
                account_connections=service.account_connections,
                certificate=lambda: service.certificates.health(clock()),
                is_alone=self._is_alone,
            ),
        )
        self._ports = Ports(
            settings,
            service.certificates,
            sockets,
            service.sockets[(index + 1) % settings.workers],
            self._wheel,
            parts.proxies,
            parts.refusals,
            parts.connection_limits,
            parts.buffered,
            error_response=parts.errors.of_protocol,
            on_crash=parts.requests.failed,
        )
        self._background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Run from `start` until cancelled."""
        self._tasks: list[asyncio.Task[None]] = []
        self._polling: asyncio.Task[None] | None = None
        if parts.accounts is not None:
            self._background.append(parts.accounts.run)
        self._background.append(partial(rotate_monthly, store.rotate))
        watch = partial(service.certificates.watch, metrics, clock, reports=index == 0)
        self._background.append(watch)
        sampled: list[tuple[Metric, Callable[[], float]]] = []
        if (endpoint := parts.endpoint) is not None:
            self._endpoint_server = self._serve_endpoint(endpoint)
            sampled.append((REQUESTS_IN_FLIGHT, lambda: endpoint.app.in_progress))
        self._websocket_server: HttpServer | None = None
        if parts.websockets is not None:
            self._serve_node(parts.websockets)
        self._page_servers = [
            self._ports.serve(purpose, pages, Limits(max_body=MAX_PAGE_BODY))
            for purpose, pages in (("metrics", parts.internal_pages), ("memory", memory_usage))
            if purpose in self._ports
        ]
        self._logged: LoggedErrors | None = None
        if settings.console:
            self._logged = LoggedErrors()
            parts.sibling_ports[LOGGED] = self._logged.kinds
        self._console: Console | None = None
        if self._logged is not None and index == 0:
            self._console = self._add_console(service, self._logged)
        if settings.maintains and has_sockets:
            maintenance = Maintenance(
                store,
                metrics,
                clock,
                first_reading=service.clock.first_reading,
                key_hash=settings.key_hash,
            )
            self._background.append(maintenance.run)
        self.process = ProcessMetrics(
            metrics, asyncio.get_running_loop(), sampled, shortage=shortage or DescriptorShortage()
        )

    def _is_alone(self) -> bool:
        """Whether all that use the embedded store are workers that can be asked for their users."""
        predecessor = self._siblings.get(PREDECESSOR)
        has_foreign = predecessor is not None and predecessor.is_foreign
        return self._sharing is not None and not has_foreign and self._sharing.is_alone()

    def _serve_endpoint(self, endpoint: EndpointParts) -> HttpServer:
        limits = Limits(max_body=max(65_536, 2 * self._settings.max_data))
        # Also where there is no gateway: a reload may bring one.
        larger_bodies = {"/" + "/".join(MATRIX_PATH): MAX_MATRIX_BODY}
        limits = replace(limits, larger_bodies=larger_bodies)
        return self._ports.serve("endpoint", endpoint.app, limits, block=endpoint.headers.other)

    def _serve_websockets(self, websockets: NodeParts) -> HttpServer:
        node = websockets.node

        def left() -> int:
            most = node.max_connections or sys.maxsize
            return most + PAGES_MARGIN - len(node.registry.sockets)

        return self._ports.serve(
            "websocket", websockets.upgrades, Limits(max_body=MAX_PAGE_BODY), left
        )

    def _serve_node(self, websockets: NodeParts) -> None:
        if "websocket" in self._ports:
            self._websocket_server = self._serve_websockets(websockets)
        self._node_server = self._ports.serve(
            "router",
            websockets.node_port,
            Limits(max_body=MAX_NODE_BODY, idle_timeout=NODE_IDLE_TIMEOUT),
        )
        self._background.append(websockets.node.presence.run)

    def _add_console(self, service: ServiceContext, logged: LoggedErrors) -> Console:
        parts, data, endpoint = self._parts, self._settings.data, self._parts.endpoint
        io, clock = parts.io, parts.io.clock
        key = derive_key(service.keys.crypto[0], "console sessions")
        count = partial(count_messages, io.store.engine, io.store.plan)
        overview = Overview(
            io.metrics.shared,
            self._settings,
            io.siblings,
            parts.internal_pages.senders,
            parts.share,
            io.certificate,
            None if self._settings.is_on_dynamodb else count,
            clock,
        )
        look_up = LookUp(
            io.store,
            parts.tokens,
            parts.nodes,
            parts.placement,
            lambda: configured_routers(self._settings),
            self._settings.key_hash,
            clock,
        )
        followed = FollowedPushes(
            look_up,
            parts.ring,
            endpoint.app.push if endpoint is not None else None,
            endpoint.receipts if endpoint is not None else None,
        )
        console = Console(
            ConsoleSessions(ConsoleTokens(data), key, clock, io.monotonic),
            overview,
            look_up,
            followed,
            AccountPages(
                io.store.accounts,
                self._settings.public_websocket_url,
                self._settings.accounts_required,
                clock,
            ),
            Report(report_command(self._settings.command), logged, io.siblings),
            AuditLog(data, clock),
            self._ports.limits_of("console" if "console" in self._ports else "router"),
        )
        if "console" in self._ports:
            limits = Limits(max_body=MAX_PAGE_BODY)
            self._page_servers.append(self._ports.serve("console", console, limits))
        elif parts.websockets is not None:
            parts.websockets.node_port.console = console
        self._background.append(overview.run)
        return console

    def _poll_broadcasts(self, websockets: NodeParts, source: Megaphone | None) -> None:
        if self._polling is not None:
            self._polling.cancel()
            self._polling = None
        if source is not None:
            interval = self._settings.megaphone_poll_interval
            metrics = self._parts.io.metrics
            poller = BroadcastPoller(source, websockets.broadcasts, metrics, interval)
            self._polling = asyncio.get_running_loop().create_task(poller.run())

    async def reload(self, settings: Settings) -> list[str]:
        """Take settings of which only options that reload differ from the present ones, and read
        certificates and accounts again. Returns what could not be read; the former stays in use.

        :raises StartupError: a setting cannot be used; none is
        """
        parts, endpoint, websockets = self._parts, self._parts.endpoint, self._parts.websockets
        # In threads what reads files.
        problems = await asyncio.to_thread(self._certificates.reload, parts.io.clock())
        # Then what may fail.
        routers: Mapping[str, Router] = {}
        if endpoint is not None:
            routers = await asyncio.to_thread(parts.io.make_routers, settings, parts.io.clock)
        source, versions = None, None
        has_other_source = not settings.has_broadcasts_of(self._settings)
        if has_other_source and settings.megaphone_api_url and websockets is not None:
            source = await asyncio.to_thread(_megaphone, settings)
            try:
                versions = await source.fetch()
            except PollError as error:
                raise StartupError(f"megaphone_api_url: {error}") from None
        if parts.accounts is not None:
            try:
                await parts.accounts.load()
            except KeytablesError as error:
                problems.append(f"the accounts could not be read: {error}")
        # From here on nothing fails.
        self._settings = settings
        logs.set_level(settings.effective_log_level)
        parts.apply(settings)
        if endpoint is not None:
            endpoint.bridges.replace(routers)
        if websockets is not None and has_other_source:
            websockets.broadcasts.replace(versions or {})
            self._poll_broadcasts(websockets, source)
        return problems

    async def start(self) -> None:
        loop, parts = asyncio.get_running_loop(), self._parts
        self.process.start()
        if self._exporter is not None:
            self._exporter.start()
        if parts.accounts is not None:
            with suppress(KeytablesError):  # it is tried again, and until then clients get 503
                await parts.accounts.load()
        self._tasks = [loop.create_task(run()) for run in self._background]
        if parts.websockets is not None and self._settings.megaphone_api_url:
            self._poll_broadcasts(parts.websockets, _megaphone(self._settings))
        adopt = parts.websockets.adopt if parts.websockets is not None else _refuse_connection
        self._siblings.start(parts.sibling_ports, adopt)
        if (predecessor := self._siblings.get(PREDECESSOR)) is not None:
            # From the first request on, it is asked for the user agents that it has.
            await predecessor.wait_until_known(SILENT_AFTER)
        await self._ports.open()

    async def hand_over(self, seconds: float) -> None:
        """Stop accepting, and have the next version go on, over that time: see `HandOver`."""
        if self._console is not None:
            self._console.close()
        await self._parts.hand_over.run(seconds, self._ports.stop_accepting, self._ports.drain)

    async def stop(self, *, keep_sockets: bool = False) -> None:
        """Stop accepting, answer requests in progress, close WebSockets, save unacked messages.

        `keep_sockets`: clients can still connect, and wait until somebody accepts them.
        """
        parts = self._parts
        self._ports.close(keep_sockets=keep_sockets)
        if self._console is not None:
            self._console.close()
        if self._polling is not None:
            self._tasks.append(self._polling)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        # In this order: what the endpoint still delivers, the connection node saves.
        if (endpoint := parts.endpoint) is not None:
            await endpoint.receipts.end_waits()
            await self._endpoint_server.shutdown(REQUESTS_TIMEOUT)
            await endpoint.bridges.close()
            if endpoint.waker is not None:
                await endpoint.waker.close()
        if parts.websockets is not None:
            await parts.movers.finish()
            await parts.websockets.node.shutdown(SOCKETS_TIMEOUT)
            if self._websocket_server is not None:
                await self._websocket_server.shutdown(0)
            await self._node_server.shutdown(REQUESTS_TIMEOUT)
        for server in self._page_servers:
            await server.shutdown(REQUESTS_TIMEOUT)
        await parts.nodes.finish(CHECKS_TIMEOUT)
        if self._exporter is not None:
            await self._exporter.stop()
        parts.nodes.close()
        self._siblings.close()
        if self._logged is not None:
            self._logged.close()
        self._wheel.close()
        self.process.close()


def _megaphone(settings: Settings) -> Megaphone:
    return Megaphone(settings.megaphone_api_url, settings.megaphone_api_token)


def _exporter(settings: Settings, metrics: Metrics) -> Exporter | None:
    sender: Sender
    if settings.datadog_api_key:
        sender = Datadog(
            settings.datadog_url,
            settings.datadog_api_key,
            host=settings.reachable_host,
            interval=settings.datadog_flush_interval,
        )
    elif settings.statsd_server:
        sender = Statsd(settings.statsd_server, settings.statsd_port)
    else:
        return None
    return Exporter(metrics, sender)


def _refuse_connection(sock: socket.socket, _state: bytes) -> Adoption:
    """Of a worker without WebSockets."""
    sock.close()
    return Adoption.REFUSED
