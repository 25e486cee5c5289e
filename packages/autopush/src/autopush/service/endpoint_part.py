"""The endpoint node of a worker: the HTTP port for application servers, with the start page.

Rule: it holds nothing that outlives a request; user agents are asked for at the registry beside it
and at the nodes on record.
"""

import socket

from autopush.net.http import HttpServer
from autopush.net.http_messages import Limits
from autopush.routing.webpush import WebPushRouter
from autopush.service.listeners import Sockets
from autopush.service.parts import REQUESTS_END, Shared
from autopush.web.app import CommonHeaders, EndpointApp
from autopush.web.push import DeleteHandler, PushHandler
from autopush.web.start_page import StartPage
from autopush.webpush.identifiers import IdFactory
from autopush.webpush.vapid import Verifier


class EndpointPart:
    """See the module."""

    def __init__(self, shared: Shared, sockets: Sockets) -> None:
        settings = shared.settings
        headers = CommonHeaders(cors=not settings.no_cors, hsts_max_age=settings.hsts_max_age)
        router = WebPushRouter(
            shared.store, shared.registry, shared.nodes, store_first=settings.store_first
        )
        push = PushHandler(
            tokens=shared.tokens,
            verifier=Verifier(settings.public_endpoint_url),
            router=router,
            ring=shared.ring,
            ids=IdFactory(shared.clock),
            clock=shared.clock,
            max_ttl=settings.max_notification_ttl,
            max_data=settings.max_data,
            block=headers.push,
        )
        app = EndpointApp(
            push=push,
            delete=DeleteHandler(shared.store, shared.ring, headers.delete),
            dockerflow=shared.dockerflow,
            start_page=StartPage(
                endpoint_url=settings.public_endpoint_url,
                websocket_url=settings.public_websocket_url,
            ),
            headers=headers,
            max_requests=settings.max_requests,
        )
        self._http = shared.http(app, Limits(max_body=max(65_536, 2 * settings.max_data)))
        self._socket = sockets["endpoint"]

    @property
    def servers(self) -> list[tuple[HttpServer, socket.socket]]:
        """The public port."""
        return [(self._http, self._socket)]

    async def finish(self) -> None:
        """Answer the requests in progress."""
        await self._http.shutdown(REQUESTS_END)
