"""The connection node of a worker: the WebSocket port, and the internal port for other nodes.

Rule: it knows nothing of the endpoint beside it; what comes from there comes as from any node.
"""

import asyncio
import socket
from functools import partial
from typing import Final

from autopush.connection.handlers import NodeApi, UpgradeHandler
from autopush.connection.node import ConnectionNode
from autopush.connection.outage import OutageRecovery
from autopush.net.http import HttpServer
from autopush.net.http_messages import Limits
from autopush.protocol.rules import Rules
from autopush.service.listeners import Sockets
from autopush.service.parts import REQUESTS_END, Shared
from autopush.store.push_store import UNUSED_UAID

SOCKETS_END: Final = 15.0
MAX_NODE_BODY: Final = 512 * 1024


class ConnectionPart:
    """See the module."""

    def __init__(self, shared: Shared, sockets: Sockets) -> None:
        settings = shared.settings
        self._connections = ConnectionNode(
            store=shared.store,
            nodes=shared.nodes,
            registry=shared.registry,
            tokens=shared.tokens,
            rules=Rules(
                max_unacked=settings.max_unacked,
                msg_limit=settings.msg_limit,
                auto_ping_interval=settings.auto_ping_interval,
                env=settings.env,
            ),
            wheel=shared.wheel,
            clock=shared.clock,
            hello_timeout=settings.hello_timeout,
            auto_ping_timeout=settings.auto_ping_timeout,
            close_timeout=settings.close_handshake_timeout,
            max_connections=settings.max_connections,
        )
        upgrades = UpgradeHandler(
            self._connections,
            shared.dockerflow,
            settings.public_websocket_url,
            f"{settings.public_endpoint_url}/",
        )
        self._websocket_http = shared.http(upgrades, Limits(max_body=4096))
        self._node_api = shared.http(
            NodeApi(shared.registry, self._connections.background, shared.ring, shared.dockerflow),
            Limits(max_body=MAX_NODE_BODY, idle_timeout=3600),
        )
        self._sockets = sockets
        # The embedded store cannot be out of reach.
        probe = None if settings.is_embedded else partial(shared.store.users.get, UNUSED_UAID)
        self._outage_recovery = asyncio.ensure_future(OutageRecovery(shared.registry, probe).run())

    @property
    def servers(self) -> list[tuple[HttpServer, socket.socket]]:
        """Both ports."""
        return [
            (self._websocket_http, self._sockets["websocket"]),
            (self._node_api, self._sockets["router"]),
        ]

    async def finish(self) -> None:
        """Close the sockets, save what is unacked, and answer the nodes that still ask."""
        self._outage_recovery.cancel()
        await self._connections.shutdown(SOCKETS_END)
        await self._websocket_http.shutdown(0)
        await self._node_api.shutdown(REQUESTS_END)
