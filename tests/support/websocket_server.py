"""A WebSocket server for tests: just enough HTTP to reach `autopush.net.websocket`."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import cast

import httptools

from autopush.net.frames import answer_handshake
from autopush.net.timers import TimerWheel
from autopush.net.websocket import WebSocketProtocol

Factory = Callable[[TimerWheel], WebSocketProtocol]


class UpgradeShell(asyncio.Protocol):
    """Reads one request head, answers it and hands the transport to the WebSocket."""

    def __init__(self, factory: Callable[[], WebSocketProtocol], subprotocols: tuple[str, ...]):
        self._factory = factory
        self._subprotocols = subprotocols
        self._head = b""
        self._headers: dict[str, str] = {}
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before}, {text}"

    def data_received(self, data: bytes) -> None:
        self._head += data
        head, mark, rest = self._head.partition(b"\r\n\r\n")
        if not mark:
            return
        parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(httptools.HttpParserUpgrade):
            parser.feed_data(head + mark)
        answer = answer_handshake(
            parser.get_method().decode(),
            parser.get_http_version(),
            self._headers,
            subprotocols=self._subprotocols,
        )
        lines = [
            f"HTTP/1.1 {answer.status} X",
            *(f"{name}: {value}" for name, value in answer.headers),
        ]
        if not answer.accepted:
            lines += ["Content-Length: 0", "Connection: close"]
        self._transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        if not answer.accepted:
            self._transport.close()
            return
        protocol = self._factory()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if rest:
            protocol.data_received(rest)


@contextlib.asynccontextmanager
async def serving(
    factory: Factory,
    *,
    subprotocols: tuple[str, ...] = ("push-notification",),
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Serve on a free port of the loopback; the port. Connections left over are aborted."""
    loop = asyncio.get_running_loop()
    wheel = TimerWheel(loop, 0.05)
    made: list[WebSocketProtocol] = []

    def make() -> WebSocketProtocol:
        made.append(factory(wheel))
        return made[-1]

    server = await loop.create_server(
        lambda: UpgradeShell(make, subprotocols), "127.0.0.1", 0, ssl=tls
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for protocol in made:
            protocol.abort()
        await server.wait_closed()
        wheel.close()
