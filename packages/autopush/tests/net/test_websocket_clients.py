"""Independent WebSocket clients, and a bare socket, against our server, also over TLS."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import picows
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from autopush.net.frames import answer_handshake
from autopush.net.http_messages import Answer, Request, Response, Upgrade
from autopush.net.timers import TimerWheel
from autopush.net.tls import ServerTls
from autopush.net.websocket import WebSocketProtocol
from support import wire
from support.certificates import self_signed
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


SIZES = [0, 1, 125, 126, 200, 640, 4096, 65_535, 65_536]
TIMEOUT = 30  # seconds after which something that should happen did not
BIG = b"x" * 300_000
BOTH_LOOPS = True


class Echo(WebSocketProtocol):
    """Sends each text back; `close CODE` has it close, and `flood` send much."""

    __slots__ = ("ended", "paused", "resumed")

    def __init__(self, wheel: TimerWheel) -> None:
        super().__init__(wheel)
        self.ended: asyncio.Future[tuple[int | None, str]] = wheel.loop.create_future()
        self.paused, self.resumed = asyncio.Event(), asyncio.Event()

    def text_received(self, payload: bytes) -> None:
        if payload.startswith(b"close "):
            self.close(int(payload[6:10]), payload[10:].decode())
        elif payload == b"flood":
            # A TLS transport passes a write to TCP as a whole: only the next one has to wait.
            for _ in range(40):
                self.send_text(BIG)
        else:
            self.send_text(payload)

    def output_paused(self) -> None:
        self.paused.set()

    def output_resumed(self) -> None:
        self.resumed.set()

    def connection_closed(self, code: int | None, reason: str) -> None:
        self.ended.set_result((code, reason))


class Served:
    """The server of one test."""

    def __init__(self) -> None:
        self.port = 0
        self.connections: list[Echo] = []

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    def make(self, wheel: TimerWheel) -> Echo:
        self.connections.append(Echo(wheel))
        return self.connections[-1]

    async def end(self) -> tuple[int | None, str]:
        """How the latest connection ended."""
        return await asyncio.wait_for(self.connections[-1].ended, TIMEOUT)


@contextlib.asynccontextmanager
async def echo_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    served = Served()
    async with serving(served.make, tls=tls) as served.port:
        yield served


# --- websockets ---------------------------------------------------------------------------------


# --- picows -------------------------------------------------------------------------------------


class Listener(picows.WSListener):
    def __init__(self) -> None:
        super().__init__()
        self.frames: asyncio.Queue[tuple[picows.WSMsgType, bytes]] = asyncio.Queue()

    def on_ws_frame(self, transport: picows.WSTransport, frame: picows.WSFrame) -> None:
        self.frames.put_nowait((frame.msg_type, frame.get_payload_as_bytes()))
        if frame.msg_type == picows.WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()


async def test_picows_text_fragments_ping_and_close() -> None:
    kind = picows.WSMsgType
    async with echo_server() as served:
        transport, listener = await picows.ws_connect(Listener, served.url)
        assert isinstance(listener, Listener)

        async def received() -> tuple[picows.WSMsgType, bytes]:
            return await asyncio.wait_for(listener.frames.get(), TIMEOUT)

        for size in SIZES:
            message = os.urandom(size // 2).hex().encode()
            transport.send(kind.TEXT, message)
            assert await received() == (kind.TEXT, message)
        transport.send(kind.TEXT, b"a", fin=False)
        transport.send_ping(b"1")
        transport.send(kind.CONTINUATION, b"b")
        assert await received() == (kind.PONG, b"1")
        assert await received() == (kind.TEXT, b"ab")
        transport.send_close(picows.WSCloseCode.OK, b"bye")
        assert await received() == (kind.CLOSE, (1000).to_bytes(2))
        assert await served.end() == (1000, "bye")


# --- a bare socket ------------------------------------------------------------------------------

HEAD = (
    b"GET /any/path HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@contextlib.asynccontextmanager
async def bare(port: int, first: bytes = b"") -> AsyncIterator[socket.socket]:
    """A connected non-blocking socket that has been answered 101; `first` goes with the head."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, ("127.0.0.1", port))
        await loop.sock_sendall(sock, HEAD + first)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await loop.sock_recv(sock, 1)
        assert answer.startswith(b"HTTP/1.1 101 ")
        yield sock


async def read_all(sock: socket.socket) -> bytes:
    """Everything up to the end of the stream."""
    loop = asyncio.get_running_loop()
    data = b""
    while chunk := await asyncio.wait_for(loop.sock_recv(sock, 65_536), TIMEOUT):
        data += chunk
    return data


async def test_frames_sent_together_with_the_request_are_not_lost() -> None:
    async with echo_server() as served:
        async with bare(served.port, wire.text(b"early") + wire.close(1000)) as sock:
            assert await read_all(sock) == b"\x81\x05early" + wire.server_close(1000)
        assert await served.end() == (1000, "")


async def test_the_close_frame_reaches_a_peer_that_is_still_sending() -> None:
    loop = asyncio.get_running_loop()
    async with echo_server() as served, bare(served.port) as sock:
        sender = loop.create_task(
            loop.sock_sendall(sock, wire.frame(wire.TEXT, length=1 << 40) + bytes(3_000_000))
        )
        data = await read_all(sock)
        await sender
        assert data[0] == 0x88
        assert int.from_bytes(data[2:4]) == 1009
        assert (await served.end())[0] == 1009


async def test_an_exception_in_a_hook_loses_only_its_own_connection() -> None:
    reported: list[BaseException | None] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: reported.append(context.get("exception"))
    )
    async with echo_server() as served, connect(served.url) as other:
        async with bare(served.port, wire.text(b"close nine")) as sock:  # int() raises
            assert await read_all(sock) == b""
        assert await served.end() == (None, "")
        assert [type(error) for error in reported] == [ValueError]
        await other.send("still here")
        assert await other.recv() == "still here"


# --- a flood ------------------------------------------------------------------------------------


# --- TLS ----------------------------------------------------------------------------------------


@pytest.fixture(params=["none", "ssl", "pyOpenSSL"])
def contexts(
    tmp_path: Path, request: pytest.FixtureRequest
) -> tuple[ssl.SSLContext, ssl.SSLContext] | None:
    """Of server and client: of a server without TLS, and of one that asks for no certificate or for
    one. A TLS transport cannot close one direction alone, and has buffers of its own.
    """
    if request.param == "none":
        return None
    both = str(self_signed(tmp_path / "both.pem"))
    server = ServerTls(both, both, asks_clients=request.param == "pyOpenSSL")
    client = ssl.create_default_context(cafile=both)
    client.load_cert_chain(both)
    return server.context, client


@pytest.fixture
async def connected(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None,
) -> AsyncIterator[tuple[ClientConnection, Echo]]:
    """A client and the server's end of its connection."""
    server, client = contexts or (None, None)
    scheme = "ws" if client is None else "wss"
    async with echo_server(server) as served:
        url = f"{scheme}://127.0.0.1:{served.port}/"
        async with connect(url, ssl=client, max_size=None, proxy=None) as connection:
            yield connection, served.connections[0]


async def test_output_pauses_for_a_client_that_does_not_read_and_resumes(
    connected: tuple[ClientConnection, Echo],
) -> None:
    client, server = connected
    await client.send("flood")
    await asyncio.wait_for(server.paused.wait(), TIMEOUT)
    assert not server.writable
    for _ in range(40):
        assert len(await asyncio.wait_for(client.recv(), TIMEOUT)) == len(BIG)
    await asyncio.wait_for(server.resumed.wait(), TIMEOUT)
    await client.send("again")
    assert await client.recv() == "again"


async def test_reading_that_the_owner_paused_goes_on_where_it_was(
    connected: tuple[ClientConnection, Echo],
) -> None:
    client, server = connected
    server.pause_reading()
    for number in range(2000):
        await client.send(f"{number}" * 20)
    server.resume_reading()
    got = [await asyncio.wait_for(client.recv(), TIMEOUT) for _ in range(2000)]
    assert got == [f"{number}" * 20 for number in range(2000)]


async def test_a_protocol_error_is_told_also_where_one_direction_cannot_be_closed(
    connected: tuple[ClientConnection, Echo],
) -> None:
    client, server = connected
    client.transport.write(b"\x83\x80\0\0\0\0" + b"x" * 50_000)  # an opcode that is none
    with pytest.raises(ConnectionClosed) as caught:
        await asyncio.wait_for(client.recv(), TIMEOUT)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1002
    assert (await asyncio.wait_for(server.ended, TIMEOUT))[0] == 1002
