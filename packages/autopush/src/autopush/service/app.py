"""The parts of a worker, each made once from the settings.

A worker is a connection node, which holds WebSockets and answers other nodes; an endpoint node,
which accepts messages from application servers; or both. Neither refers to the other: a message
reaches a user agent of the same worker through the registry.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from autopush.admission import AccountLimits, OpenConnections
from autopush.api.app import CommonHeaders, EndpointApp, ListedClients
from autopush.api.forwarding import ENDPOINT, Forwarding
from autopush.api.matrix import MAX_BODY as MAX_MATRIX_BODY
from autopush.api.matrix import PATH as MATRIX_PATH
from autopush.api.matrix import MatrixGateway
from autopush.api.memory_usage import memory_usage
from autopush.api.node_ports import NodeApi, NodePort, SiblingPort, UpgradeHandler
from autopush.api.pages import Pages
from autopush.api.push import DeleteHandler, PushHandler, PushMetrics, SimplePushHandler
from autopush.api.receipts import ReceiptHandler
from autopush.api.registration import RegistrationHandler
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.api.senders import SENDERS, SendersPage
from autopush.api.status_pages import Dockerflow, InternalPages, LogCheck
from autopush.bridges.discovery import load_routers, router_states
from autopush.bridges.udp_wake import load_waker
from autopush.clock import Clock
from autopush.delivery.bridged import Bridges
from autopush.delivery.connected import Registry
from autopush.delivery.megaphone import BroadcastPoller, Megaphone
from autopush.delivery.moving import ADMISSION, HAND_OVER_TIMEOUT, Movers, answer_admission
from autopush.delivery.node import ConnectionNode
from autopush.delivery.peers import NODE, RELAY, Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.router import UserAgentRouter
from autopush.delivery.versions import NEWER, OLDER, OtherVersions
from autopush.keys import ServiceKeys, node_keys
from autopush.limits import (
    GoneLimits,
    LimitRefusals,
    PushLimits,
    StoredLimits,
    TokenBuckets,
    UserAgentLimits,
)
from autopush.net.client_limits import TrustedProxies
from autopush.net.http_messages import Limits
from autopush.net.http_server import HttpServer
from autopush.net.node_auth import Sessions, instance_url, new_instance
from autopush.net.siblings import (
    PREDECESSOR,
    REFUSED,
    SILENT_AFTER,
    SUCCESSOR,
    Adopting,
    Answering,
    Siblings,
)
from autopush.net.timers import TimerWheel
from autopush.protocol.broadcasts import Broadcasts
from autopush.protocol.messages import WEBSOCKET_ANCHOR
from autopush.protocol.session import Rules
from autopush.service.certificates import Certificates
from autopush.service.datadog import Datadog
from autopush.service.listeners import Sockets
from autopush.service.maintenance import Maintenance
from autopush.service.ports import Ports
from autopush.service.store_watch import rotate_monthly
from autopush.settings import Settings
from autopush.store import PushStore
from autopush.store.push_store import UNUSED_UAID
from autopush.telemetry.exporters import Exporter, Sender, Statsd
from autopush.telemetry.metric_table import LIMIT_REFUSED, NODE_TIMEOUT, REQUESTS_IN_FLIGHT
from autopush.telemetry.metrics import Metric, Metrics, SharedMetrics
from autopush.telemetry.process import DescriptorShortage, ProcessMetrics
from autopush.webpush.identifiers import IdFactory
from autopush.webpush.tokens import EndpointTokens, KeyRing, RegistrationSecrets
from autopush.webpush.vapid import Verifier
from keytables import KeytablesError
from keytables.clock_guard import ClockReading

CACHED_TOKENS: Final = 8192
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

    `sockets`: of each worker. `broadcasts`: versions at the start. `first_reading`: of the clocks,
    at the start of the service, so that a restarted worker notices a clock that was set meanwhile.
    `clock_ahead`: of `ServiceClock`, then.
    `siblings`: of each worker its sockets to the others and to other versions. `node_urls`: the
    base of its node ID. `instances`: the end of its node ID. `successors`: of each worker the other
    end of its socket to the next version.
    """

    settings: Settings
    keys: ServiceKeys
    certificates: Certificates
    sockets: Sequence[Sockets]
    metrics: SharedMetrics
    broadcasts: Mapping[str, str]
    first_reading: ClockReading
    clock_ahead: float = 0.0
    siblings: Sequence[dict[int, socket.socket]] = ()
    node_urls: Sequence[str] = ()
    instances: Sequence[str] = ()
    successors: Sequence[socket.socket] = ()
    account_connections: OpenConnections | None = None


class Worker:
    """All parts of one worker, which accepts connections from `start` to `stop`."""

    def __init__(
        self,
        service: ServiceContext,
        index: int,
        metrics: Metrics,
        store: PushStore,
        clock: Clock,
        shortage: DescriptorShortage | None = None,
    ) -> None:
        self._service = service
        self._settings = settings = service.settings
        self._metrics, self._store, self._clock = metrics, store, clock
        self._background: list[Callable[[], Coroutine[Any, Any, None]]] = []
        """Run from `start` until cancelled."""
        self._tasks: list[asyncio.Task[None]] = []
        self._retirements: list[Callable[[float], Awaitable[None]]] = []
        """Have user agents and clients connect to the next version, each over that many seconds."""
        self._shutdowns: list[Callable[[], Awaitable[None]]] = []
        """In order: what the endpoint still delivers, the connection node saves."""
        sampled: list[tuple[Metric, Callable[[], float]]] = []

        self._exporter = _exporter(settings, metrics)  # before histograms are looked up
        self._wheel = TimerWheel(asyncio.get_running_loop())
        self._ring = KeyRing(service.keys.crypto)
        self._tokens = EndpointTokens(self._ring, settings.public_endpoint_url, CACHED_TOKENS)

        # Limits
        self._refusals = LimitRefusals(metrics)
        self._proxies = TrustedProxies(settings.trusted_networks)
        self._new_user_agents = TokenBuckets(settings.new_user_agents_rate)
        """For every way in which a client can create a record of a user agent."""
        self._accounts: AccountLimits | None = None
        if settings.accounts_required:
            self._accounts = AccountLimits(
                self._refusals, store.accounts.read, service.account_connections, index
            )
            self._background.append(self._accounts.run)

        # What HTTP callers see
        self._errors = ErrorResponses(settings.errors_page)
        self._listed = ListedClients(settings.client_certs) if settings.client_certs else None
        self._requests = RequestLog(
            self._tokens,
            self._errors,
            store.uaid_hash,
            ami_id=settings.ami_id,
            certificate_fields=self._listed.log_fields if self._listed else None,
        )
        self._ports = Ports(
            settings,
            service.certificates,
            service.sockets[index],
            service.sockets[(index + 1) % settings.workers],
            self._wheel,
            self._proxies,
            self._refusals,
            error_response=self._errors.of_protocol,
            on_crash=self._requests.failed,
        )
        self._retirements.append(self._ports.retire)

        # Other workers and nodes
        self._placement = Placement(store, index, settings.workers)
        self._siblings: Siblings | None = None
        if service.siblings:
            self._siblings = Siblings(service.siblings[index], self._wheel)
        self._sibling_ports: dict[str, Answering] = {}
        self._adopt: Adopting = _refuse_connection
        self._registry = Registry(clock)
        self._instance = service.instances[index] if service.instances else new_instance()
        self._node_keys = node_keys(service.keys.crypto)
        own_id = ""  # without user agents, every node is another one
        if settings.has_sockets:
            base = settings.node_url(self._ports.port_of("router"))
            own_id = instance_url(base, self._instance)
        self._nodes = Nodes(
            own_id,
            self._registry,
            self._wheel,
            metrics,
            keys=self._node_keys,
            connect_timeout=settings.connection_timeout,
            request_timeout=settings.request_timeout,
            tls=service.certificates.nodes,
            siblings=self._siblings,
            others=OtherVersions(self._siblings),
            sibling_urls={url: each for each, url in enumerate(service.node_urls) if each != index},
        )

        # Pages that several ports have
        routers = router_states(settings) if settings.has_endpoint else None
        self._dockerflow = Dockerflow(
            store, metrics.shared, routers=routers, unused_uaid=self._placement.unused_uaid()
        )
        self._log_check = LogCheck(
            self._errors, self._requests, TokenBuckets(settings.log_check_rate), self._refusals
        )
        self._gone = GoneLimits(self._refusals, settings.gone_rate)
        senders = None
        if settings.has_endpoint:
            others = [each for each in range(settings.workers) if each != index]
            senders = SendersPage(self._gone, self._siblings, others)
            self._sibling_ports[SENDERS] = senders.respond_to_sibling
        self._pages = InternalPages(self._dockerflow, metrics.shared, self._errors, senders)

        if settings.has_endpoint:
            app = self._add_endpoint()
            sampled.append((REQUESTS_IN_FLIGHT, lambda: app.in_progress))
        if settings.has_sockets:
            self._add_connection_node()
        for purpose, pages in (("metrics", self._pages), ("memory", memory_usage)):
            if purpose in self._ports:
                server = self._ports.serve(purpose, pages, Limits(max_body=MAX_PAGE_BODY))
                self._shutdowns.append(partial(server.shutdown, REQUESTS_TIMEOUT))

        self._background.append(partial(rotate_monthly, store.rotate))
        if settings.maintains and settings.has_sockets:
            maintenance = Maintenance(
                store,
                metrics,
                clock,
                first_reading=service.first_reading,
                key_hash=settings.key_hash,
            )
            self._background.append(maintenance.run)
        self.process = ProcessMetrics(
            metrics,
            asyncio.get_running_loop(),
            sampled,
            shortage=shortage or DescriptorShortage(),
        )

    def _add_endpoint(self) -> EndpointApp:
        settings, store = self._settings, self._store
        headers = CommonHeaders(cors=not settings.no_cors, hsts_max_age=settings.hsts_max_age)
        bridges = Bridges(
            load_routers(settings, self._clock),
            store,
            self._metrics,
            max_under_way=max(1, settings.max_requests // 2),
        )
        waker = load_waker(settings)
        router = UserAgentRouter(
            store,
            self._registry,
            self._nodes,
            bridges,
            self._metrics,
            store_first=settings.store_first,
            limits=StoredLimits(
                self._refusals,
                max_messages=settings.max_stored_messages,
                max_bytes=settings.max_stored_bytes,
            ),
            wake=waker.wake if waker is not None else None,
        )
        forwarding = None
        if self._siblings is not None and settings.workers > 1:
            forwarding = Forwarding(
                self._placement,
                self._siblings,
                self._tokens,
                self._ring,
                self._metrics.counter(NODE_TIMEOUT),
            )
        receipts = ReceiptHandler(
            store,
            self._tokens,
            self._clock,
            self._refusals,
            self._ports.limits,
            rate=settings.receipt_rate,
        )
        push_metrics = PushMetrics(self._metrics)
        push_limits = PushLimits(
            self._refusals,
            endpoint_rate=settings.endpoint_rate,
            sender_rate=settings.sender_rate,
            vapid_required=settings.vapid_required,
            allowed_senders=settings.allowed_senders,
        )
        pushes = PushHandler(
            tokens=self._tokens,
            verifier=Verifier(settings.public_endpoint_url),
            router=router,
            bridges=bridges,
            limits=push_limits,
            gone=self._gone,
            ring=self._ring,
            ids=IdFactory(self._clock),
            clock=self._clock,
            metrics=push_metrics,
            requests=self._requests,
            max_ttl=settings.max_notification_ttl,
            max_data=settings.max_data,
            block=headers.push,
            receipts=receipts,
        )
        simplepushes = SimplePushHandler(
            tokens=self._tokens,
            limits=push_limits,
            router=router,
            clock=self._clock,
            metrics=push_metrics,
            requests=self._requests,
            max_data=settings.max_data,
            block=headers.simplepush,
        )
        registration = RegistrationHandler(
            routers=bridges.routers,
            store=store,
            nodes=self._nodes,
            placement=self._placement,
            tokens=self._tokens,
            secrets=RegistrationSecrets(self._service.keys.auth),
            metrics=self._metrics,
            proxies=self._proxies,
            new_user_agents=self._new_user_agents,
            changes_rate=settings.registration_rate,
            refusals=self._refusals,
            accounts=self._accounts,
        )
        pages = Pages(
            endpoint_url=settings.public_endpoint_url,
            websocket_url=settings.public_websocket_url,
            accounts_required=settings.accounts_required,
        )
        matrix = None
        limits = Limits(max_body=max(65_536, 2 * settings.max_data))
        if settings.has_matrix_gateway:
            matrix = MatrixGateway(self._metrics, max_data=settings.max_data)
            larger_bodies = {"/" + "/".join(MATRIX_PATH): MAX_MATRIX_BODY}
            limits = replace(limits, larger_bodies=larger_bodies)
        app = EndpointApp(
            push=pushes,
            simplepush=simplepushes,
            receipts=receipts,
            delete=DeleteHandler(store, push_limits, self._ring, headers.delete),
            registration=registration,
            dockerflow=self._dockerflow,
            log_check=self._log_check,
            pages=pages,
            requests=self._requests,
            headers=headers,
            clients=self._listed,
            websocket_url=settings.public_websocket_url,
            max_requests=settings.max_requests,
            forwarding=forwarding,
            matrix=matrix,
        )
        self._sibling_ports[ENDPOINT] = app.respond_here
        server = self._ports.serve("endpoint", app, limits, block=headers.other)
        self._shutdowns += [
            receipts.end_waits,
            partial(server.shutdown, REQUESTS_TIMEOUT),
            bridges.close,
        ]
        if waker is not None:
            self._shutdowns.append(waker.close)
        return app

    def _add_connection_node(self) -> None:
        settings, registry = self._settings, self._registry
        broadcasts = Broadcasts(
            self._service.broadcasts,
            max_names=settings.max_broadcasts,
            refused=self._metrics.counter(LIMIT_REFUSED, limit="broadcasts"),
        )
        rules = Rules(
            max_unacked=settings.max_unacked,
            msg_limit=settings.msg_limit,
            unacked_timeout=settings.unacked_timeout,
            hello_timeout=settings.hello_timeout,
            auto_ping_interval=settings.ping_interval,
            auto_ping_timeout=settings.auto_ping_timeout,
            close_timeout=settings.close_handshake_timeout,
            env=settings.env,
            simplepush=not settings.disable_simplepush,
            wake_timeout=settings.wake_timeout,
            more_info=f"{settings.errors_page}#{WEBSOCKET_ANCHOR}",
        )
        limits = UserAgentLimits(
            self._refusals,
            self._new_user_agents,
            message_rate=settings.message_rate,
            registration_rate=settings.registration_rate,
        )
        node = ConnectionNode(
            store=self._store,
            metrics=self._metrics,
            nodes=self._nodes,
            registry=registry,
            tokens=self._tokens,
            rules=rules,
            limits=limits,
            wheel=self._wheel,
            clock=self._clock,
            max_connections=settings.max_connections,
            connection_limits=self._ports.limits,
            buffered=self._ports.buffered,
            placement=self._placement,
            accounts=self._accounts,
            broadcasts=broadcasts,
            record_check_interval=settings.record_check_interval,
            # The embedded store cannot be out of reach.
            probe=None if settings.is_embedded else partial(self._store.users.get, UNUSED_UAID),
        )
        if self._siblings is not None:
            movers = Movers(self._siblings)
            node.move_with_hello = movers.move_with_hello
            self._adopt = partial(movers.adopt, node)
            self._sibling_ports[ADMISSION] = partial(answer_admission, node)
            self._retirements.append(partial(movers.retire, node))
            self._shutdowns.append(movers.finish)
        upgrades = UpgradeHandler(
            node,
            self._dockerflow,
            self._log_check,
            self._errors,
            self._refusals,
            settings.public_websocket_url,
            f"{settings.public_endpoint_url}/",
        )

        def left() -> int:
            return settings.max_connections + PAGES_MARGIN - len(registry.sockets)

        websockets = self._ports.serve(
            "websocket",
            upgrades,
            Limits(max_body=MAX_PAGE_BODY),
            left if settings.max_connections else None,
        )
        websockets.connection_rate = TokenBuckets(settings.connection_rate).take
        upgrades.connection_rate = websockets.connection_rate
        node_api = self._add_node_api()
        self._shutdowns += [
            partial(node.shutdown, SOCKETS_TIMEOUT),
            partial(websockets.shutdown, 0),
            partial(node_api.shutdown, REQUESTS_TIMEOUT),
        ]
        self._background.append(node.presence.run)
        if settings.megaphone_api_url:
            source = Megaphone(settings.megaphone_api_url, settings.megaphone_api_token)
            interval = settings.megaphone_poll_interval
            poller = BroadcastPoller(source, broadcasts, self._metrics, interval)
            self._background.append(poller.run)

    def _add_node_api(self) -> HttpServer:
        """Answer calls of other nodes, workers and versions."""
        api = NodeApi(self._registry, self._ring, OtherVersions(self._siblings))
        self._sibling_ports[NODE] = SiblingPort(api, instance_url("", self._instance))
        self._sibling_ports[RELAY] = self._nodes.relay
        for port, direction in ((OLDER, PREDECESSOR), (NEWER, SUCCESSOR)):
            others = OtherVersions(self._siblings, (direction,))
            of_version = NodeApi(self._registry, self._ring, others)
            self._sibling_ports[port] = SiblingPort(of_version)
        sessions = Sessions(self._node_keys, self._instance)
        return self._ports.serve(
            "router",
            NodePort(api, sessions, self._pages, self._errors),
            Limits(max_body=MAX_NODE_BODY, idle_timeout=NODE_IDLE_TIMEOUT),
        )

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.process.start()
        if self._exporter is not None:
            self._exporter.start()
        if self._accounts is not None:
            with suppress(KeytablesError):  # it is tried again, and until then clients get 503
                await self._accounts.load()
        self._tasks = [loop.create_task(part()) for part in self._background]
        if self._siblings is not None:
            self._siblings.start(self._sibling_ports, self._adopt)
            # From the first request on, it is asked for the user agents that it has.
            await self._siblings.wait_for(PREDECESSOR, SILENT_AFTER)
        await self._ports.open()

    async def retire(self, seconds: float) -> None:
        """Stop accepting, and have clients connect to the next version over that time."""
        self._ports.stop_accepting()
        self._placement.retire()
        self._nodes.retire()
        retiring: list[Awaitable[None]] = [retire(seconds) for retire in self._retirements]
        if self._settings.workers > 1:
            # Others may learn of it later, and pass requests on until then.
            retiring.append(asyncio.sleep(SILENT_AFTER))
        if self._siblings is not None:
            # The one before knows the next version through this one only.
            longest = seconds + HAND_OVER_TIMEOUT
            retiring.append(self._siblings.wait_for_end(PREDECESSOR, longest))
        await asyncio.gather(*retiring)

    async def stop(self, *, keep_sockets: bool = False) -> None:
        """Stop accepting, answer requests in progress, close WebSockets, save unacked messages.

        `keep_sockets`: clients can still connect, and wait until somebody accepts them.
        """
        self._ports.close(keep_sockets=keep_sockets)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for shutdown in self._shutdowns:
            await shutdown()
        await self._nodes.finish(CHECKS_TIMEOUT)
        if self._exporter is not None:
            await self._exporter.stop()
        self._nodes.close()
        if self._siblings is not None:
            self._siblings.close()
        self._wheel.close()
        self.process.close()


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


def _refuse_connection(sock: socket.socket, _state: bytes) -> int:
    """Of a worker without WebSockets."""
    sock.close()
    return REFUSED
