"""The parts of a worker, each made once: from the settings, and from an `IO` that says what they
use of the world outside. The worker gives them a real one; tests give them one that they control.

A worker is a connection node, which holds WebSockets and answers other nodes; an endpoint node,
which accepts messages from application servers; or both. Neither refers to the other: a message
reaches a user agent of the same worker through the registry.
"""

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from autopush.admission import AccountLimits, OpenConnections
from autopush.api.app import CommonHeaders, EndpointApp, ListedClients
from autopush.api.forwarding import ENDPOINT, ForwardedRequest, Forwarding
from autopush.api.matrix import MatrixGateway
from autopush.api.node_ports import NodePort, UpgradeHandler
from autopush.api.pages import Pages
from autopush.api.push import DeleteHandler, Intake, PushHandler, PushMetrics, SimplePushHandler
from autopush.api.receipts import ReceiptHandler
from autopush.api.registration import RegistrationHandler
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.api.senders import SENDERS, SenderCounts, SendersPage
from autopush.api.status_pages import Dockerflow, InternalPages, LogCheck
from autopush.bridges.discovery import load_routers, router_states
from autopush.bridges.udp_wake import UdpWaker, load_waker
from autopush.clock import Clock
from autopush.console.overview import MAX_SENDERS_ASKED, SHARES, WorkerShare
from autopush.delivery.answering import Answering
from autopush.delivery.bridge_contract import Router
from autopush.delivery.bridged import Bridges
from autopush.delivery.connected import Registry
from autopush.delivery.moving import Movers
from autopush.delivery.node import ConnectionNode
from autopush.delivery.peers import NODE, RELAY, Nodes
from autopush.delivery.placement import Placement
from autopush.delivery.router import NodeCache, UserAgentRouter
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
from autopush.net.client_limits import BufferedBytes, ConnectionLimits, TrustedProxies
from autopush.net.node_auth import ANY_INSTANCE, Sessions, instance_url, new_instance
from autopush.net.siblings import PREDECESSOR, SUCCESSOR, Port, PortHandler, Siblings
from autopush.net.timers import TimerWheel
from autopush.net.tls import ClientTls
from autopush.protocol.broadcasts import Broadcasts
from autopush.protocol.messages import WEBSOCKET_ANCHOR
from autopush.protocol.session import SessionSettings
from autopush.service.hand_over import ADMISSION, HandOver, answer_admission
from autopush.service.listeners import connections_allowed
from autopush.settings import Settings
from autopush.store import PushStore
from autopush.store.accounts import Account
from autopush.store.push_store import UNUSED_UAID
from autopush.telemetry.metric_table import LIMIT_REFUSED, NODE_TIMEOUT
from autopush.telemetry.metrics import Metrics
from autopush.webpush.tokens import EndpointTokens, KeyRing, RegistrationSecrets
from autopush.webpush.vapid import Verifier

CACHED_TOKENS: Final = 8192


@dataclass(eq=False, kw_only=True)
class IO:
    """What the parts of one worker use of the world outside.

    `clock`: epoch seconds; `monotonic`: seconds, as `wheel` has them. `index`: of the worker.
    `instance`, `node_url`: end and beginning of its node ID, see `node_auth`; without WebSockets
    there is none, and every node is another one. `sibling_urls`: the beginning of the node IDs of
    other workers, to their index among the `siblings`. `broadcasts`: versions at the start.
    `certificate`: what `/health` says of that of the public ports; None without TLS.
    `read_accounts`: None for those in the store. `is_alone`: see `StoreSharing`; None if it is not
    known.
    """

    store: PushStore
    metrics: Metrics
    keys: ServiceKeys
    wheel: TimerWheel
    clock: Clock
    monotonic: Clock = time.monotonic
    uniform: Callable[[float, float], float] = random.uniform
    index: int = 0
    instance: str = field(default_factory=new_instance)
    node_url: str = ""
    node_tls: ClientTls = field(default_factory=ClientTls)
    siblings: Siblings = field(default_factory=Siblings)
    sibling_urls: Mapping[str, int] = field(default_factory=dict)
    broadcasts: Mapping[str, str] = field(default_factory=dict)
    account_connections: OpenConnections | None = None
    certificate: Callable[[], Mapping[str, object] | None] = lambda: None
    is_alone: Callable[[], bool] | None = None
    read_accounts: Callable[[], Awaitable[Mapping[str, Account]]] | None = None
    make_nodes: Callable[..., Nodes] = Nodes
    make_routers: Callable[[Settings, Clock], Mapping[str, Router]] = load_routers


class Parts:
    """What a connection node and an endpoint share, and then themselves."""

    def __init__(self, settings: Settings, io: IO, registry: Registry | None = None) -> None:
        """`registry`: of the connection node whose user agents an endpoint made apart reaches."""
        self.settings, self.io = settings, io
        store, metrics = io.store, io.metrics
        self.ring = KeyRing(io.keys.crypto)
        self.tokens = EndpointTokens(self.ring, settings.public_endpoint_url, CACHED_TOKENS)
        self.placement = Placement(store, io.index, settings.workers, self._node_ids(), io.is_alone)

        # Limits
        self.refusals = LimitRefusals(metrics, monotonic=io.monotonic)
        self.proxies = TrustedProxies()
        self.connection_limits = ConnectionLimits(self.proxies, on_refused=self.refusals.add)
        """Of the connections to all public ports together."""
        self.buffered = BufferedBytes(on_given_up=partial(self.refusals.add, "buffered_bytes"))
        """What all public ports hold of unfinished messages."""
        self.new_user_agents = TokenBuckets(monotonic=io.monotonic)
        """For every way in which a client can create a record of a user agent."""
        self.gone = GoneLimits(self.refusals, monotonic=io.monotonic)
        self.accounts: AccountLimits | None = None
        if settings.accounts_required:
            read = io.read_accounts or store.accounts.read
            self.accounts = AccountLimits(
                self.refusals, read, io.account_connections, io.index, io.clock
            )

        # What HTTP callers see
        self.errors = ErrorResponses(settings.errors_page)
        self.clients = ListedClients(settings.client_certs) if settings.client_certs else None
        self.requests = RequestLog(
            self.tokens,
            self.errors,
            store.uaid_hash,
            metrics,
            ami_id=settings.ami_id,
            certificate_fields=self.clients.log_fields if self.clients else None,
            monotonic=io.monotonic,
        )
        self.dockerflow = Dockerflow(
            store,
            metrics.shared,
            unused_uaid=self.placement.unused_uaid(),
            certificate=io.certificate,
            clock=io.monotonic,
        )
        self.log_check = LogCheck(self.errors, self.requests, TokenBuckets(), self.refusals)
        senders = SendersPage(self.gone, io.siblings) if settings.has_endpoint else None
        self.sender_counts = SenderCounts() if settings.console else None
        self.internal_pages = InternalPages(self.dockerflow, metrics.shared, self.errors, senders)

        # Other nodes, workers and versions
        self.registry = registry or Registry(io.clock)
        self.answering = Answering(self.registry, self.ring, OtherVersions(io.siblings))
        self.node_keys = node_keys(io.keys.crypto)
        self.nodes = io.make_nodes(
            self._own_id,
            self.answering,
            io.wheel,
            metrics,
            keys=self.node_keys,
            connect_timeout=settings.connection_timeout,
            request_timeout=settings.request_timeout,
            tls=io.node_tls,
            siblings=io.siblings,
            sibling_urls=io.sibling_urls,
        )
        self.movers = Movers(io.siblings)
        self.sibling_ports: dict[Port[Any, Any], PortHandler] = {}
        """What answers the calls of siblings."""
        if senders is not None:
            self.sibling_ports[SENDERS] = senders.own
        if settings.console:
            self.sibling_ports[SHARES] = self.share

        self.endpoint = EndpointParts(self) if settings.has_endpoint else None
        self.websockets = NodeParts(self) if settings.has_sockets else None
        if self.endpoint and self.websockets and settings.has_one_address:
            self.endpoint.app.websockets = self.websockets.upgrades
        self.hand_over = HandOver(
            io.siblings,
            self.placement,
            self.nodes,
            self.websockets.node if self.websockets else None,
            self.movers,
        )
        self.apply(settings)

    def apply(self, settings: Settings) -> None:
        """Set what a reload may change (`Option.reloads`), besides what `Worker.reload` loads.

        Rule: whatever the settings, this does not fail.
        """
        self.settings = settings
        self.proxies.set(settings.trusted_networks)
        self.connection_limits.max_connections = connections_allowed(settings.max_tcp_connections)
        self.connection_limits.max_per_address = settings.max_connections_per_address
        self.buffered.limit = settings.max_buffered_bytes
        self.new_user_agents.set_rate(settings.new_user_agents_rate)
        self.gone.set_rate(settings.gone_rate)
        self.log_check.rates.set_rate(settings.log_check_rate)
        if self.clients is not None and settings.client_certs:
            self.clients.set(settings.client_certs)
        if self.endpoint is not None:
            self.endpoint.apply(settings)
        if self.websockets is not None:
            self.websockets.apply(settings)

    def share(self, _asked: None = None) -> WorkerShare:
        """What the console asks each worker for."""
        circuits = self.endpoint.bridges.circuits() if self.endpoint is not None else []
        counts = self.sender_counts
        return WorkerShare(circuits, counts.most(MAX_SENDERS_ASKED) if counts is not None else {})

    @property
    def _own_id(self) -> str:
        has_sockets = self.settings.has_sockets
        return instance_url(self.io.node_url, self.io.instance) if has_sockets else ""

    def _node_ids(self) -> Sequence[str]:
        """Of the workers, if all nodes are workers of this service, and each connection can be
        moved to the worker that owns its user.
        """
        settings, io = self.settings, self.io
        if not (settings.is_only_node and settings.has_sockets and settings.has_endpoint):
            return ()
        if settings.workers > 1 and settings.has_tls:
            return ()
        ids = {index: instance_url(url, ANY_INSTANCE) for url, index in io.sibling_urls.items()}
        ids[io.index] = self._own_id
        return [ids[index] for index in range(settings.workers)]


class EndpointParts:
    """What accepts messages from application servers."""

    def __init__(self, parts: Parts) -> None:
        settings, io = parts.settings, parts.io
        store, metrics, tokens = io.store, io.metrics, parts.tokens
        self.headers = headers = CommonHeaders(
            cors=not settings.no_cors, hsts_max_age=settings.hsts_max_age
        )
        self.bridges = Bridges(io.make_routers(settings, io.clock), store, metrics)
        self.waker: UdpWaker | None = load_waker(settings)
        self._stored_limits = StoredLimits(parts.refusals, monotonic=io.monotonic)
        self.router = UserAgentRouter(
            store,
            parts.registry,
            parts.nodes,
            parts.placement,
            self.bridges,
            metrics,
            store_first=settings.store_first,
            limits=self._stored_limits,
            wake=self.waker.wake if self.waker is not None else None,
            cache=NodeCache(monotonic=io.monotonic),
        )
        self.limits = limits = PushLimits(parts.refusals)
        intake = Intake(
            tokens=tokens,
            limits=limits,
            router=self.router,
            clock=io.clock,
            metrics=PushMetrics(metrics),
            requests=parts.requests,
            max_data=settings.max_data,
        )
        self.receipts = ReceiptHandler(
            store,
            tokens,
            io.clock,
            parts.refusals,
            parts.connection_limits,
            is_offered=settings.receipts,
        )
        forwarding = None
        if settings.workers > 1 and io.siblings:
            forwarding = Forwarding(
                parts.placement, io.siblings, tokens, parts.ring, metrics.counter(NODE_TIMEOUT)
            )
        self._matrix = MatrixGateway(metrics, max_data=settings.max_data)
        self._dockerflow = parts.dockerflow
        self.app = EndpointApp(
            push=PushHandler(
                intake=intake,
                verifier=Verifier(settings.public_endpoint_url),
                gone=parts.gone,
                senders=parts.sender_counts,
                receipts=self.receipts,
                block=headers.push,
            ),
            simplepush=SimplePushHandler(intake=intake, block=headers.simplepush),
            receipts=self.receipts,
            delete=DeleteHandler(store, limits, parts.ring, headers.delete),
            registration=RegistrationHandler(
                routers=self.bridges.routers,
                store=store,
                nodes=parts.nodes,
                placement=parts.placement,
                tokens=tokens,
                secrets=RegistrationSecrets(io.keys.auth),
                metrics=metrics,
                proxies=parts.proxies,
                new_user_agents=parts.new_user_agents,
                refusals=parts.refusals,
                accounts=parts.accounts,
            ),
            dockerflow=parts.dockerflow,
            log_check=parts.log_check,
            pages=Pages(
                endpoint_url=settings.public_endpoint_url,
                websocket_url=settings.public_websocket_url,
                accounts_required=settings.accounts_required,
            ),
            requests=parts.requests,
            headers=headers,
            clients=parts.clients,
            websocket_url=settings.public_websocket_url,
            forwarding=forwarding,
        )
        parts.sibling_ports[ENDPOINT] = self._answer

    def apply(self, settings: Settings) -> None:
        self.limits.set(
            settings.endpoint_rate,
            settings.sender_rate,
            settings.vapid_required,
            settings.allowed_senders,
        )
        self._stored_limits.set(settings.max_stored_messages, settings.max_stored_bytes)
        self.receipts.senders.set_rate(settings.receipt_rate)
        self.app.push.max_ttl = settings.max_notification_ttl
        self.app.max_requests = settings.max_requests
        self.app.registration.changes.set_rate(settings.registration_rate)
        self.app.matrix = self._matrix if settings.has_matrix_gateway else None
        self.bridges.max_under_way = max(1, settings.max_requests // 2)
        self._dockerflow.routers = router_states(settings)

    def _answer(self, forwarded: ForwardedRequest) -> Any:
        return self.app.respond_here(forwarded.request())


class NodeParts:
    """What holds WebSockets, and answers other nodes."""

    def __init__(self, parts: Parts) -> None:
        settings, io = parts.settings, parts.io
        self.broadcasts = Broadcasts(
            io.broadcasts, refused=io.metrics.counter(LIMIT_REFUSED, limit="broadcasts")
        )
        self.new_connections = TokenBuckets(monotonic=io.monotonic)
        limits = UserAgentLimits(parts.refusals, parts.new_user_agents, monotonic=io.monotonic)
        self.node = ConnectionNode(
            store=io.store,
            metrics=io.metrics,
            nodes=parts.nodes,
            registry=parts.registry,
            tokens=parts.tokens,
            session_settings=SessionSettings(),
            limits=limits,
            wheel=io.wheel,
            clock=io.clock,
            connection_limits=parts.connection_limits,
            buffered=parts.buffered,
            placement=parts.placement,
            accounts=parts.accounts,
            broadcasts=self.broadcasts,
            move_with_hello=parts.movers.move_with_hello,
            record_check_interval=settings.record_check_interval,
            # The embedded store cannot be out of reach.
            probe=None if settings.is_embedded else partial(io.store.users.get, UNUSED_UAID),
            monotonic=io.monotonic,
            uniform=io.uniform,
        )
        self.upgrades = UpgradeHandler(
            self.node,
            parts.dockerflow,
            parts.log_check,
            parts.errors,
            parts.refusals,
            self.new_connections,
            settings.public_websocket_url,
            f"{settings.public_endpoint_url}/",
        )
        self.node_port = NodePort(
            parts.answering,
            parts.nodes,
            parts.placement,
            Sessions(parts.node_keys, io.instance),
            parts.internal_pages,
            parts.errors,
        )
        self.adopt = partial(parts.movers.adopt, self.node)
        parts.sibling_ports |= {
            NODE: parts.nodes.answer_sibling,
            RELAY: parts.nodes.relay,
            ADMISSION: partial(answer_admission, self.node),
        }
        for port, direction in ((OLDER, PREDECESSOR), (NEWER, SUCCESSOR)):
            others = OtherVersions(io.siblings, (direction,))
            parts.sibling_ports[port] = Answering(parts.registry, parts.ring, others)

    def apply(self, settings: Settings) -> None:
        self.new_connections.set_rate(settings.connection_rate)
        self.broadcasts.max_names = settings.max_broadcasts
        self.node.max_connections = settings.max_connections
        self.node.limits.set_rates(settings.message_rate, settings.registration_rate)
        # Sessions that are open keep theirs, except for the times of pings.
        self.node.session_settings = SessionSettings(
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


def compose(settings: Settings, io: IO, registry: Registry | None = None) -> Parts:
    """Make the parts of a worker; nothing runs yet.

    :raises StartupError: a bridge, or its configuration, is missing or wrong
    """
    return Parts(settings, io, registry)
