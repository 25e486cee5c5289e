"""Another node, as its handler of authentic calls; and what its callers need to know."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

from autopush.api.responses import text
from autopush.delivery.answering import Answering
from autopush.delivery.calls import Outcome
from autopush.delivery.node_http import answer_to, from_http
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.net.node_auth import (
    REQUEST_HEADER,
    RESPONSE_HEADER,
    Opened,
    Sessions,
    Unauthenticated,
    instance_url,
)
from support.http_shell import Serving, describe, serving

KEYS = (b"a key of this service",)
INSTANCE = "of-these-tests"

CallHandler = Callable[[Request], Awaitable[Response]]


async def response_of(reply: Answer | Awaitable[Answer]) -> Response:
    """What a handler responds, at once or later."""
    answer = reply if isinstance(reply, Response | Upgrade) else await reply
    assert isinstance(answer, Response)
    return answer


async def answer_over_http(
    answering: Answering, method: str, path: str, body: bytes = b""
) -> Response:
    """What a node answers to a call from another machine, without the signatures."""
    try:
        call = from_http(method, path, body)
        answer = answering(call)
        outcome = answer if isinstance(answer, Outcome) else await answer
    except ValueError as error:
        return text(400, str(error))
    return text(*answer_to(call, outcome))


async def _describe(request: Request) -> Response:
    return Response(200, describe(request), content_type="text/plain")


class AuthenticNode:
    """A handler of HTTP requests that carries out authentic calls; their paths have no instance."""

    def __init__(
        self, handler: CallHandler = _describe, keys: tuple[bytes, ...] = KEYS, name: str = INSTANCE
    ) -> None:
        self._handler = handler
        self.sessions = Sessions(keys, name)
        self.refused: list[str] = []
        """Why requests were refused."""

    async def __call__(self, request: Request) -> Response:
        signature = request.headers.get(REQUEST_HEADER, "")
        try:
            call = self.sessions.receive(request.method, request.path, request.body, signature)
        except Unauthenticated as refusal:
            self.refused.append(str(refusal))
            return Response(401)
        if isinstance(call, Opened):
            return Response(call.status, call.session.encode(), ((RESPONSE_HEADER, call.proof),))
        request.path = call.path
        response = await self._handler(request)
        proof = call.proof(response.status, response.body)
        return Response(response.status, response.body, ((RESPONSE_HEADER, proof),))


def node_at(port: int, scheme: str = "http") -> str:
    """The node ID of the instance on that port of the loopback."""
    return instance_url(f"{scheme}://127.0.0.1:{port}", INSTANCE)


@contextlib.asynccontextmanager
async def node_serving(
    handler: CallHandler = _describe, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Serving]:
    """Another node on a free port of the loopback, which answers authentic calls by `handler`."""
    async with serving(AuthenticNode(handler), tls=tls) as served:
        yield served
