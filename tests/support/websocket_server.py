"""The HTTP server for tests, whose connections become WebSockets of a given kind."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable

from autopush.net.frames import answer_handshake
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.net.timers import TimerWheel
from autopush.net.websocket import WebSocketProtocol
from support.http_shell import make_server


@contextlib.asynccontextmanager
async def serving(
    factory: Callable[[TimerWheel], WebSocketProtocol], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve on a free port of the loopback; the port. Connections left over are aborted."""
    loop = asyncio.get_running_loop()
    wheel = TimerWheel(loop, 0.05)
    made: list[WebSocketProtocol] = []

    def handle(request: Request) -> Answer:
        version = "1.0" if request.http10 else "1.1"
        answer = answer_handshake(
            request.method, version, request.headers, subprotocols=("push-notification",)
        )

        def make(_: str) -> WebSocketProtocol:
            made.append(factory(wheel))
            return made[-1]

        return Upgrade(answer.headers, make) if answer.accepted else Response(answer.status)

    server = make_server(handle, wheel, [])
    listener = await loop.create_server(server.protocol, "127.0.0.1", 0, ssl=tls)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for protocol in made:
            protocol.abort()
        await server.shutdown(0.5)
        await listener.wait_closed()
        wheel.close()
