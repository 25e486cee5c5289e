"""The HTTP server for tests: on a fake clock and transport, or on a real socket."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from autopush.net.client_limits import BufferedBytes, ConnectionLimits, TrustedProxies
from autopush.net.http_messages import Answer, Handler, Limits, Request, Response
from autopush.net.http_server import HttpServer
from autopush.net.timers import TimerWheel
from support.fake_loop import FakeLoop
from support.fake_transport import FakeTransport
from support.sockets import unused_port

MAX_BODY = 1000


@dataclass
class ReceivedResponse:
    version: str
    status: int
    reason: str
    headers: dict[str, str]
    body: bytes


def read_answers(data: bytes, *, heads: tuple[int, ...] = ()) -> list[ReceivedResponse]:
    """Split what a server wrote into answers, strictly; `heads`: which answer a HEAD."""
    answers: list[ReceivedResponse] = []
    while data:
        head, mark, data = data.partition(b"\r\n\r\n")
        assert mark, f"no end of head in {head!r}"
        status_line, *lines = head.decode("latin-1").split("\r\n")
        version, status, reason = status_line.split(" ", 2)
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(": ")
            assert colon
            assert name.lower() not in headers
            assert not set(line) & set("\r\n\0")
            headers[name.lower()] = value
        code = int(status)
        length = 0
        if code < 200 or code == 204:
            assert "content-length" not in headers
        elif code != 304 and len(answers) not in heads:
            length = int(headers["content-length"])
        assert len(data) >= length, "body cut short"
        answers.append(ReceivedResponse(version, code, reason, headers, data[:length]))
        data = data[length:]
    return answers


def describe(request: Request) -> bytes:
    return f"{request.method} {request.path} {request.query} {len(request.body)}".encode()


def echo(request: Request) -> Response:
    return Response(200, describe(request), content_type="text/plain")


class Transport(FakeTransport):
    """One whose protocol can be exchanged."""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol


@dataclass
class Shared:
    """What a server has in common with others."""

    connection_limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    buffered: BufferedBytes = field(default_factory=BufferedBytes)
    max_connections: Callable[[], int] | None = None
    proxies: TrustedProxies | None = None


class Shell:
    """An `HttpServer` on a fake clock. A handler that is a coroutine needs a running loop."""

    def __init__(
        self, handler: Handler = echo, shared: "Shared | None" = None, /, **limits: float
    ) -> None:
        self.clock = FakeLoop()
        self.requests: list[Request] = []
        self.crashes: list[Exception] = []
        self._handler = handler
        wheel = TimerWheel(self.clock.loop, 0.05, self.clock.perf_counter)
        self.server = make_server(self._handle, wheel, self.crashes, shared, **limits)

    def _handle(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        self.requests.append(request)
        return self._handler(request)

    def connect(self, peer: str = "") -> Transport:
        return Transport(self.clock, self.server.protocol(peer))

    def exchange(self, *chunks: bytes) -> tuple[list[ReceivedResponse], Transport]:
        """What one connection answers to these reads."""
        transport = self.connect()
        receive(transport, *chunks)
        return read_answers(bytes(transport.written)), transport


def receive(transport: Transport, *chunks: bytes) -> None:
    """Give what the socket would: nothing is read while paused or closing.

    What the protocol puts off to its next turns is done on return.
    """
    for chunk in chunks:
        if chunk and transport.reading and not transport.closing:
            transport.protocol.data_received(chunk)
        if not transport.reading:
            transport.loop.advance()


def make_server(
    handler: Handler,
    wheel: TimerWheel,
    crashes: list[Exception],
    shared: "Shared | None" = None,
    /,
    **limits: float,
) -> HttpServer:
    shared = shared or Shared()

    def on_crash(error: Exception, _: Request) -> Response:
        crashes.append(error)
        return Response(500, b"internal error")

    return HttpServer(
        handler,
        limits=Limits(**{"max_body": MAX_BODY} | limits),  # type: ignore[arg-type]
        wheel=wheel,
        error_response=lambda status, reason: Response(status, reason.encode()),
        on_crash=on_crash,
        proxies=shared.proxies,
        connection_limits=shared.connection_limits,
        buffered=shared.buffered,
        max_connections=shared.max_connections,
        clock=lambda: 784111777.0,
    )


@dataclass
class Serving:
    server: HttpServer
    port: int
    crashes: list[Exception]
    listener: asyncio.Server


@contextlib.asynccontextmanager
async def serving(
    handler: Handler = echo, *, tls: ssl.SSLContext | None = None, **limits: float
) -> AsyncIterator[Serving]:
    """Serve on an unused port. Afterwards no connection may be left."""
    loop = asyncio.get_running_loop()
    crashes: list[Exception] = []
    faults: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    server = make_server(handler, TimerWheel(loop, 0.05), crashes, **limits)
    port = unused_port()
    listener = await loop.create_server(server.protocol, "127.0.0.1", port, ssl=tls)
    try:
        yield Serving(server, port, crashes, listener)
    finally:
        listener.close()
        await server.shutdown(0.5)
        await listener.wait_closed()
        server.wheel.close()
    assert faults == []
