"""The WebSocket port: upgrades user agents, and tells everyone else in words what this is.

Rule: a request that is no proper upgrade gets a 4xx and an explanation, never a 5xx.
"""

from autopush import responses
from autopush.connection.node import ConnectionNode
from autopush.connection.user_agent import UserAgentConnection
from autopush.dockerflow import Dockerflow
from autopush.net.handshake import Refused, accept
from autopush.net.http_messages import Request, Response, Upgrade

SUBPROTOCOL = "push-notification"
EXPLANATION = (
    "This is the WebSocket port of a push service. User agents connect to it; set Firefox's\n"
    "dom.push.serverURL to {url} and see {page} for the rest.\n"
)


class Front:
    """Handler of the WebSocket port."""

    def __init__(
        self, node: ConnectionNode, dockerflow: Dockerflow, websocket_url: str, start_page: str
    ) -> None:
        self._node = node
        self._dockerflow = dockerflow
        self._words = EXPLANATION.format(url=websocket_url, page=start_page)

    async def __call__(self, request: Request) -> Response | Upgrade:
        """Answer one request."""
        page = await self._dockerflow.respond(request)
        if page is not None:
            return page
        if "upgrade" not in request.headers:
            if request.method in ("GET", "HEAD"):
                return responses.text(200, self._words)
            if request.path != "/":
                return responses.not_found()
            return responses.text(405, self._words, headers=(("Allow", "GET, HEAD"),))
        version = "1.0" if request.http10 else "1.1"
        judged = accept(request.method, version, request.headers, subprotocols=(SUBPROTOCOL,))
        if isinstance(judged, Refused):
            return responses.text(judged.status, f"{judged.reason}\n", headers=judged.headers)
        if not self._node.accepting:
            return responses.text(503, "Too many connections.\n", headers=(("Retry-After", "30"),))
        return Upgrade(judged.headers, self._connection)

    def _connection(self) -> UserAgentConnection:
        return UserAgentConnection(self._node)
