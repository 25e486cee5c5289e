"""The two kinds of node that a worker can hold, put together from the settings.

The connection node holds WebSockets and answers other nodes; the endpoint node takes messages from
application servers. Rule: what they share is passed in, and neither knows of the other: a message
reaches a user agent of the same worker through the registry, any other as from any node.
"""

import asyncio
from functools import partial
from typing import Final

from autopush.api.app import CommonHeaders, EndpointApp
from autopush.api.client_certificates import ClientCertificates
from autopush.api.errors_page import ErrorsPage
from autopush.api.node_ports import NodeApi, NodePort, UpgradeHandler
from autopush.api.push import DeleteHandler, PushHandler
from autopush.api.push_limits import PushLimits
from autopush.api.push_metrics import PushMetrics
from autopush.api.registration import RegistrationHandler
from autopush.api.simplepush import SimplePushHandler
from autopush.api.start_page import StartPage
from autopush.bridges.discovery import load_routers, load_waker
from autopush.delivery.bridged import Bridges
from autopush.delivery.limits import UserAgentLimits
from autopush.delivery.megaphone import BroadcastPoller, Megaphone
from autopush.delivery.node import ConnectionNode
from autopush.delivery.outage import OutageRecovery
from autopush.delivery.router import UserAgentRouter
from autopush.delivery.stored_limits import StoredLimits
from autopush.net.http_messages import Handler, Limits
from autopush.net.node_auth import Sessions
from autopush.protocol.broadcasts import Broadcasts
from autopush.protocol.messages import WEBSOCKET_ANCHOR
from autopush.protocol.rules import Rules
from autopush.service.context import WorkerContext
from autopush.store.push_store import UNUSED_UAID
from autopush.telemetry.metric_table import LIMIT_REFUSED
from autopush.webpush.identifiers import IdFactory
from autopush.webpush.registration_secret import RegistrationSecrets
from autopush.webpush.vapid import Verifier

SOCKETS_TIMEOUT: Final = 15.0
"""Seconds in which a shutdown closes all WebSockets and saves what is unacked."""
REQUESTS_TIMEOUT: Final = 5.0
"""Seconds in which a shutdown answers the requests in progress, on each port."""
MAX_NODE_BODY: Final = 512 * 1024
PAGES_MARGIN: Final = 16
"""Connections to the WebSocket port beyond `max_connections`, so that its pages are still read."""


class ConnectionService:
    """A connection node with its two ports: WebSockets, and requests of other nodes."""

    def __init__(self, shared: WorkerContext) -> None:
        settings, sockets = shared.settings, shared.sockets
        broadcasts = Broadcasts(
            shared.broadcasts,
            max_names=settings.max_broadcasts,
            refused=shared.metrics.counter(LIMIT_REFUSED, limit="broadcasts"),
        )
        self._connections = ConnectionNode(
            store=shared.store,
            metrics=shared.metrics,
            nodes=shared.nodes,
            registry=shared.registry,
            tokens=shared.tokens,
            rules=Rules(
                max_unacked=settings.max_unacked,
                msg_limit=settings.msg_limit,
                auto_ping_interval=settings.ping_interval,
                env=settings.env,
                simplepush=not settings.disable_simplepush,
                wake_timeout=settings.wake_timeout,
                more_info=f"{settings.errors_page}#{WEBSOCKET_ANCHOR}",
            ),
            limits=UserAgentLimits(
                shared.refusals,
                shared.new_user_agents,
                message_rate=settings.message_rate,
                registration_rate=settings.registration_rate,
            ),
            wheel=shared.wheel,
            clock=shared.clock,
            hello_timeout=settings.hello_timeout,
            auto_ping_timeout=settings.auto_ping_timeout,
            close_timeout=settings.close_handshake_timeout,
            max_connections=settings.max_connections,
            connection_limits=shared.connection_limits,
            buffered=shared.buffered,
            broadcasts=broadcasts,
        )
        upgrades = UpgradeHandler(
            self._connections,
            shared.dockerflow,
            shared.log_check,
            shared.errors,
            shared.refusals,
            settings.public_websocket_url,
            f"{settings.public_endpoint_url}/",
        )
        connected = shared.registry.sockets
        max_connections = settings.max_connections
        self._websocket_http = shared.public_http(
            upgrades,
            Limits(max_body=4096),
            (lambda: max_connections + PAGES_MARGIN - len(connected)) if max_connections else None,
        )
        self._node_api = shared.internal_http(
            NodePort(
                NodeApi(shared.registry, self._connections.background, shared.ring),
                Sessions(shared.node_keys, shared.instance),
                shared.internal_pages,
                shared.errors,
            ),
            Limits(max_body=MAX_NODE_BODY, idle_timeout=3600),
        )
        self.servers = [
            (self._websocket_http, sockets["websocket"]),
            (self._node_api, sockets["router"]),
        ]
        """What is served on which listening socket."""
        # The embedded store cannot be out of reach.
        probe = None if settings.is_embedded else partial(shared.store.users.get, UNUSED_UAID)
        self._tasks = [asyncio.ensure_future(OutageRecovery(shared.registry, probe).run())]
        if settings.megaphone_api_url:
            source = Megaphone(settings.megaphone_api_url, settings.megaphone_api_token)
            interval = settings.megaphone_poll_interval
            poller = BroadcastPoller(source, broadcasts, shared.metrics, interval)
            self._tasks.append(asyncio.ensure_future(poller.run()))

    async def shutdown(self) -> None:
        """Close the sockets, save what is unacked, and answer the nodes that still ask."""
        for task in self._tasks:
            task.cancel()
        await self._connections.shutdown(SOCKETS_TIMEOUT)
        await self._websocket_http.shutdown(0)
        await self._node_api.shutdown(REQUESTS_TIMEOUT)


class EndpointService:
    """An endpoint node with its port, and its connections to bridges."""

    def __init__(self, shared: WorkerContext) -> None:
        settings, sockets = shared.settings, shared.sockets
        headers = CommonHeaders(cors=not settings.no_cors, hsts_max_age=settings.hsts_max_age)
        self._bridges = Bridges(
            load_routers(settings, shared.clock),
            shared.store,
            shared.metrics,
            max_under_way=max(1, settings.max_requests // 2),
        )
        self._waker = load_waker(settings)
        router = UserAgentRouter(
            shared.store,
            shared.registry,
            shared.nodes,
            self._bridges,
            shared.metrics,
            store_first=settings.store_first,
            limits=StoredLimits(
                shared.refusals,
                max_messages=settings.max_stored_messages,
                max_bytes=settings.max_stored_bytes,
            ),
            wake=self._waker.wake if self._waker is not None else None,
        )
        push_metrics = PushMetrics(shared.metrics)
        push_limits = PushLimits(
            shared.refusals,
            endpoint_rate=settings.endpoint_rate,
            sender_rate=settings.sender_rate,
            vapid_required=settings.vapid_required,
            allowed_senders=settings.allowed_senders,
        )
        push = PushHandler(
            tokens=shared.tokens,
            verifier=Verifier(settings.public_endpoint_url),
            router=router,
            bridges=self._bridges,
            limits=push_limits,
            ring=shared.ring,
            ids=IdFactory(shared.clock),
            clock=shared.clock,
            metrics=push_metrics,
            requests=shared.requests,
            max_ttl=settings.max_notification_ttl,
            max_data=settings.max_data,
            block=headers.push,
        )
        simplepush = SimplePushHandler(
            tokens=shared.tokens,
            limits=push_limits,
            router=router,
            clock=shared.clock,
            metrics=push_metrics,
            requests=shared.requests,
            max_data=settings.max_data,
            block=headers.simplepush,
        )
        self.app = EndpointApp(
            push=push,
            simplepush=simplepush,
            delete=DeleteHandler(shared.store, push_limits, shared.ring, headers.delete),
            registration=RegistrationHandler(
                routers=self._bridges.routers,
                store=shared.store,
                nodes=shared.nodes,
                tokens=shared.tokens,
                secrets=RegistrationSecrets(shared.keys.auth),
                metrics=shared.metrics,
                proxies=shared.proxies,
                new_user_agents=shared.new_user_agents,
                changes_rate=settings.registration_rate,
                refusals=shared.refusals,
            ),
            dockerflow=shared.dockerflow,
            log_check=shared.log_check,
            start_page=StartPage(
                endpoint_url=settings.public_endpoint_url,
                websocket_url=settings.public_websocket_url,
            ),
            errors_page=ErrorsPage(),
            requests=shared.requests,
            headers=headers,
            websocket_url=settings.public_websocket_url,
            max_requests=settings.max_requests,
        )
        handler: Handler = self.app
        if shared.clients is not None:
            handler = ClientCertificates(
                self.app, shared.clients, shared.requests, shared.errors, headers
            )
        limits = Limits(max_body=max(65_536, 2 * settings.max_data))
        self._http = shared.public_http(handler, limits)
        self.servers = [(self._http, sockets["endpoint"])]
        """What is served on which listening socket."""
        self.proxied = (self._http, sockets["proxied"]) if "proxied" in sockets else None
        """As `servers`, behind a load balancer that speaks the PROXY protocol."""

    async def shutdown(self) -> None:
        """Answer the requests in progress."""
        await self._http.shutdown(REQUESTS_TIMEOUT)
        await self._bridges.close()
        if self._waker is not None:
            await self._waker.close()


class PagesService:
    """A port for pages; no user agent, application server or other node uses it."""

    def __init__(self, shared: WorkerContext, purpose: str, pages: Handler) -> None:
        self._http = shared.internal_http(pages, Limits(max_body=4096))
        self.servers = [(self._http, shared.sockets[purpose])]
        """What is served on which listening socket."""

    async def shutdown(self) -> None:
        """Answer the requests in progress."""
        await self._http.shutdown(REQUESTS_TIMEOUT)
