"""What the parts of a service have in common: all its workers, and the nodes of one worker."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from autopush.api.client_certificates import ListedClients
from autopush.api.dockerflow import Dockerflow
from autopush.api.internal_pages import InternalPages
from autopush.api.log_check import LogCheck
from autopush.api.request_log import RequestLog
from autopush.api.responses import ErrorResponses
from autopush.bridges.discovery import router_states
from autopush.clock import Clock
from autopush.delivery.connected import Registry
from autopush.delivery.peers import Nodes
from autopush.keys import ServiceKeys
from autopush.net.client_limits import BufferedBytes, ConnectionLimits, TrustedProxies
from autopush.net.http_messages import Handler, Limits
from autopush.net.http_server import HttpServer
from autopush.net.node_auth import instance_url, new_instance
from autopush.net.timers import TimerWheel
from autopush.rates import TokenBuckets
from autopush.service.certificates import Certificates
from autopush.service.listeners import Sockets
from autopush.service.open_files import connections_allowed, internal_connections_allowed
from autopush.settings import Settings
from autopush.store import PushStore
from autopush.telemetry.exporters import Datadog, Exporter, Sender, Statsd
from autopush.telemetry.limit_refusals import LimitRefusals
from autopush.telemetry.metrics import Metrics, SharedMetrics
from autopush.webpush.endpoint_token import EndpointTokens
from autopush.webpush.keyring import KeyRing, derive_key
from keytables.clock_guard import ClockReading

CACHED_TOKENS: Final = 8192
NODE_CALLS: Final = "node calls"
"""What the keys are for by which nodes know each other."""


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """What the start of the service has prepared for its workers."""

    settings: Settings
    keys: ServiceKeys
    certificates: Certificates
    sockets: Sequence[Sockets]
    """Of each worker."""
    metrics: SharedMetrics
    broadcasts: Mapping[str, str]
    """Their versions at the start."""
    first_reading: ClockReading
    """Of the clocks, at the start: a worker that is restarted compares with it, and so does not
    believe a clock that was set while the service ran.
    """


class WorkerContext:
    """What the nodes of one worker share. `index`: which of the workers it is; `clock`: epoch
    seconds.
    """

    def __init__(
        self,
        service: ServiceContext,
        index: int,
        metrics: Metrics,
        store: PushStore,
        clock: Clock,
    ) -> None:
        self.settings = settings = service.settings
        self.keys = service.keys
        self.certificates = service.certificates
        self.broadcasts = service.broadcasts
        self.first_reading = service.first_reading
        self.sockets = service.sockets[index]
        self.metrics = metrics
        self.exporter = new_exporter(settings, metrics)
        self.store = store
        self.clock = clock
        self.wheel = TimerWheel(asyncio.get_running_loop())
        self.registry = Registry()
        self.instance = new_instance()
        self.node_keys = node_keys(service.keys.crypto)
        own_id = ""  # where it holds no user agents; then every node is another one
        if settings.has_sockets:
            base = settings.node_url(self.sockets["router"].getsockname()[1])
            own_id = instance_url(base, self.instance)
        self.nodes = Nodes(
            own_id,
            self.registry,
            self.wheel,
            metrics,
            keys=self.node_keys,
            connect_timeout=settings.connection_timeout,
            request_timeout=settings.request_timeout,
            tls=service.certificates.nodes,
        )
        self.ring = KeyRing(service.keys.crypto)
        self.tokens = EndpointTokens(self.ring, settings.public_endpoint_url, CACHED_TOKENS)
        self.errors = ErrorResponses(settings.errors_page)
        self.clients = ListedClients(settings.client_certs) if settings.client_certs else None
        self.requests = RequestLog(
            self.tokens,
            self.errors,
            store.uaid_hash,
            ami_id=settings.ami_id,
            certificate_fields=self.clients.log_fields if self.clients else None,
        )
        routers = router_states(settings) if settings.has_endpoint else None
        self.dockerflow = Dockerflow(store, metrics.shared, routers=routers)
        self.refusals = LimitRefusals(metrics)
        self.log_check = LogCheck(
            self.errors, self.requests, TokenBuckets(settings.log_check_rate), self.refusals
        )
        self.internal_pages = InternalPages(self.dockerflow, metrics.shared, self.errors)
        self.proxies = TrustedProxies(settings.trusted_networks)
        self.new_user_agents = TokenBuckets(settings.new_user_agents_rate)
        """For every way in which a stranger makes a record of a user agent."""

        self.connection_limits = ConnectionLimits(
            self.proxies,
            max_connections=connections_allowed(settings.max_tcp_connections),
            max_per_address=settings.max_connections_per_address,
            on_refused=self.refusals.add,
        )
        """For the ports that strangers reach, all of them together."""
        self._internal_limits = ConnectionLimits(
            max_connections=internal_connections_allowed(),
            on_refused=lambda _, address: self.refusals.add("internal_connections", address),
        )
        self.buffered = BufferedBytes(
            settings.max_buffered_bytes, partial(self.refusals.add, "buffered_bytes")
        )

    def public_http(
        self, handler: Handler, limits: Limits, max_connections: Callable[[], int] | None = None
    ) -> HttpServer:
        """A server for a port that strangers reach. `max_connections`: as for `HttpServer`."""
        return self._http(handler, limits, self.connection_limits, self.buffered, max_connections)

    def internal_http(self, handler: Handler, limits: Limits) -> HttpServer:
        """A server for a port of other nodes or of the operator."""
        return self._http(handler, limits, self._internal_limits)

    def _http(
        self,
        handler: Handler,
        limits: Limits,
        connection_limits: ConnectionLimits,
        buffered: BufferedBytes | None = None,
        max_connections: Callable[[], int] | None = None,
    ) -> HttpServer:
        return HttpServer(
            handler,
            limits=replace(limits, head_timeout=self.settings.open_handshake_timeout),
            wheel=self.wheel,
            error_response=self.errors.of_protocol,
            on_crash=self.requests.log_failure,
            proxies=self.proxies,
            connection_limits=connection_limits,
            buffered=buffered,
            max_connections=max_connections,
        )

    def close(self) -> None:
        """Close what is left when all nodes are shut down."""
        self.nodes.close()
        self.wheel.close()


def node_keys(crypto_keys: Sequence[str]) -> tuple[bytes, ...]:
    """The keys by which nodes know each other: one for each crypto key."""
    return tuple(derive_key(key, NODE_CALLS) for key in crypto_keys)


def new_exporter(settings: Settings, metrics: Metrics) -> Exporter | None:
    """What sends the metrics of a worker: to Datadog if there is a key, else to a statsd server if
    there is one.
    """
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
