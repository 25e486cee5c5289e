"""A listening socket behind the PROXY protocol: with and without TLS, bounds, timeouts, closing."""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autopush.net import listener as listener_module
from autopush.net.client_limits import ConnectionLimits
from autopush.net.http_messages import Request, Response
from autopush.net.http_server import HttpServer
from autopush.net.listener import Listener
from autopush.net.timers import TimerWheel
from support.cases import cases
from support.certificates import tls_pair
from support.event_loops import until
from support.fake_loop import FakeLoop
from support.http_shell import Shared, make_server, read_answers
from support.proxy_headers import CLIENT4, CLIENT6, LOCAL, SIGNATURE, binary, line, tlv

BOTH_LOOPS = True

GET = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


@dataclass
class Proxied:
    listener: Listener
    server: HttpServer
    address: tuple[str, int]
    refused: list[tuple[str, str]] = field(default_factory=list)
    faults: list[dict[str, object]] = field(default_factory=list)

    def connect(self) -> socket.socket:
        """A blocking socket, connected when the kernel says so, accepted or not."""
        return socket.create_connection(self.address, 5)


def say_peer(request: Request) -> Response:
    return Response(200, f"{request.peer} {len(request.body)}".encode())


@contextlib.asynccontextmanager
async def proxied(
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
    *,
    header: bool = True,
    handshake_timeout: float = 10.0,
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[Proxied]:
    """Listen on a free port of the loopback. Afterwards no connection may be left."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.create_server(
        (host, 0), family=family, dualstack_ipv6=family is socket.AF_INET6, backlog=4096
    )
    sock.setblocking(False)
    wheel = TimerWheel(loop, 0.05)
    server = make_server(
        say_peer, wheel, [], Shared(limits or ConnectionLimits()), max_body=1 << 20
    )
    here: Proxied
    listener = Listener(
        sock,
        server.protocol,
        server.wheel,
        tls=tls,
        proxied=header,
        handshake_timeout=handshake_timeout,
        limits=server.connection_limits,
        on_refused=lambda *report: here.refused.append(report),
    )
    here = Proxied(listener, server, sock.getsockname()[:2])
    loop.set_exception_handler(lambda _, context: here.faults.append(context))
    listener.start()
    try:
        yield here
    finally:
        listener.close()
        await server.shutdown(0.5)
        await until(lambda: listener.connections == 0)
        assert server.connections == 0
        server.wheel.close()


async def peer_of(
    here: Proxied, *chunks: bytes, tls: ssl.SSLContext | None = None
) -> tuple[str, int]:
    """What the server takes for the client, and the size of the body it received."""

    def ask() -> bytes:
        with contextlib.ExitStack() as stack:
            sock = stack.enter_context(here.connect())
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for chunk in chunks[:-1]:
                sock.sendall(chunk)
            if tls is not None:
                sock = stack.enter_context(tls.wrap_socket(sock, server_hostname="127.0.0.1"))
            sock.sendall(chunks[-1])
            return b"".join(iter(lambda: sock.recv(65536), b""))

    (answer,) = read_answers(await asyncio.to_thread(ask))
    assert answer.status == 200
    peer, size = answer.body.decode().split()
    return peer, int(size)


async def test_a_balancer_of_ipv4_is_named_so_also_on_a_socket_for_both() -> None:
    async with proxied(host="::") as here:
        here.address = ("127.0.0.1", here.address[1])
        assert await peer_of(here, b"PROXY UNKNOWN\r\n", GET) == ("127.0.0.1", 0)


@cases(
    ("header", "peer"),
    [
        (line(), CLIENT4),
        (line(CLIENT6, "TCP6"), CLIENT6),
        (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
        (binary(), CLIENT4),
        (binary(CLIENT6, tlvs=tlv(0xEA, b"\x01vpce-1")), CLIENT6),
        (binary(command=LOCAL), "127.0.0.1"),
    ],
)
async def test_the_peer_of_a_request_is_the_client_that_the_header_names(
    header: bytes, peer: str
) -> None:
    async with proxied() as here:
        assert await peer_of(here, header, GET) == (peer, 0)
        assert await peer_of(here, header + GET) == (peer, 0)
        assert await peer_of(here, *(header[i : i + 1] for i in range(len(header))), GET) == (
            peer,
            0,
        )
        assert (here.refused, here.faults) == ([], [])


@pytest.mark.parametrize("header", [line(), binary(CLIENT4, tlvs=tlv(0x04, b"\0" * 300))])
async def test_tls_begins_behind_the_header(tmp_path: Path, header: bytes) -> None:
    server, client = tls_pair(tmp_path)
    body = bytes(range(256)) * 2048
    post = f"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    async with proxied(server) as here:
        for message, size in ((GET, 0), (post.encode() + body, len(body))):
            assert await peer_of(here, header, message, tls=client) == (CLIENT4, size)
            halves = header[:20], header[20:]
            assert await peer_of(here, *halves, message, tls=client) == (CLIENT4, size)
        assert (here.refused, here.faults) == ([], [])


async def test_the_header_and_the_first_bytes_of_tls_may_come_at_once(tmp_path: Path) -> None:
    server, client = tls_pair(tmp_path)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    async with proxied(server) as here:
        reader, writer = await asyncio.open_connection(*here.address)
        writer.write(line() + outgoing.read())
        while True:
            incoming.write(await reader.read(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                break
        tls.write(GET)
        writer.write(outgoing.read())
        answer = b""
        while not answer.endswith(b"0"):
            incoming.write(await reader.read(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                answer += tls.read()
        assert read_answers(answer)[0].body.decode() == f"{CLIENT4} 0"
        writer.close()
        await writer.wait_closed()


async def closed(sock: socket.socket) -> None:
    """Wait until the other side has closed."""
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.to_thread(sock.recv, 1) == b""


@cases("data", [GET, b"PROXY TCP4 nobody\r\n", SIGNATURE + b"\x21\x11\xff\xff"])
async def test_what_is_no_header_closes_the_connection_unanswered(data: bytes) -> None:
    async with proxied() as here:
        with here.connect() as sock:
            sock.sendall(data)
            await closed(sock)
        ((peer, reason),) = here.refused
        assert peer == "127.0.0.1"
        assert "header" in reason
        assert here.listener.connections == 0


async def test_a_connection_without_data_is_closed_and_not_reported() -> None:
    async with proxied() as here:
        for ending in (b"", b"PROXY"):
            with here.connect() as sock:
                sock.sendall(ending)
                sock.shutdown(socket.SHUT_WR)
                await closed(sock)
        assert (here.refused, here.faults) == ([], [])


async def test_a_header_that_does_not_come_in_time_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "HEADER_TIMEOUT", 0.2)
    async with proxied() as here:
        with here.connect() as sock:
            sock.sendall(line()[:-1])
            await closed(sock)
        assert [reason for _, reason in here.refused] == ["the header took too long"]
        assert here.listener.connections == 0


async def test_a_tls_handshake_that_does_not_come_in_time_closes_the_connection(
    tmp_path: Path,
) -> None:
    async with proxied(tls_pair(tmp_path)[0], handshake_timeout=0.2) as here:
        with here.connect() as sock:
            sock.sendall(line())
            await closed(sock)
        with here.connect() as sock:
            sock.sendall(line() + GET)  # plain text where TLS is expected
            while await asyncio.to_thread(sock.recv, 100):  # an alert, then the end
                pass
        await until(lambda: here.listener.connections == 0)
        assert here.faults == []


async def test_no_more_connections_are_accepted_than_may_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "MAX_WAITING", 3)
    async with proxied() as here:
        silent = [here.connect() for _ in range(5)]
        await until(lambda: here.listener.connections == 3)
        asked = asyncio.ensure_future(peer_of(here, line(), GET))
        await asyncio.sleep(0.05)
        assert here.listener.connections == 3
        assert not asked.done()
        for sock in silent:
            sock.close()
        assert await asked == (CLIENT4, 0)
        assert here.faults == []


async def test_without_file_descriptors_accepting_pauses_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "_ACCEPT_PAUSE", 0.1)
    refusals = [OSError(errno.EMFILE, "Too many open files")]

    class Exhausted(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            if refusals:
                raise refusals.pop()
            return super().accept()

    async with proxied() as here:
        here.listener._stop()
        ours = here.listener.sock
        here.listener.sock = Exhausted(fileno=ours.detach())
        here.listener.start()
        assert await peer_of(here, line(), GET) == (CLIENT4, 0)
        assert [fault["message"] for fault in here.faults] == ["Cannot accept connections for now"]


@pytest.mark.parametrize("sent", [b"", line()[:9], line(), line() + b"\x16\x03\x01"])
async def test_close_ends_the_connections_that_are_not_served_yet(
    tmp_path: Path, sent: bytes
) -> None:
    async with proxied(tls_pair(tmp_path)[0]) as here:
        with here.connect() as sock:
            sock.sendall(sent)
            await until(lambda: here.listener.connections == 1)
            await asyncio.sleep(0.02)
            here.listener.close()
            await closed(sock)
            await until(lambda: here.listener.connections == 0)
            with pytest.raises(ConnectionRefusedError):
                here.connect()
        assert (here.refused, here.faults) == ([], [])


# ── limits, and ports without a PROXY header ─────────────────────────────────────────────────────


async def test_a_port_of_tls_alone_needs_no_header(tmp_path: Path) -> None:
    server_tls, client_tls = tls_pair(tmp_path)
    limits = ConnectionLimits()
    async with proxied(server_tls, header=False, limits=limits) as here:
        assert await peer_of(here, GET, tls=client_tls) == ("127.0.0.1", 0)
        await until(lambda: limits.open == 0)
        assert (here.refused, here.faults) == ([], [])


async def test_plain_http_is_told_that_the_port_speaks_tls(tmp_path: Path) -> None:
    server_tls, _ = tls_pair(tmp_path)
    async with proxied(server_tls, header=False) as here:
        reader, writer = await asyncio.open_connection(*here.address)
        writer.write(GET)
        async with asyncio.timeout(30):
            (answer,) = read_answers(await reader.read())
        writer.close()
        assert (answer.status, b"use https:// or wss://" in answer.body) == (400, True)


async def test_a_connection_is_counted_during_its_handshake_and_while_it_is_served(
    tmp_path: Path,
) -> None:
    server_tls, client_tls = tls_pair(tmp_path)
    limits = ConnectionLimits(max_per_address=1)
    async with proxied(server_tls, header=False, limits=limits) as here:
        with here.connect() as silent:
            await until(lambda: limits.open == 1)
            with here.connect() as refused:
                await closed(refused)  # before any byte of a handshake
            silent.sendall(GET)  # plain text where TLS is expected
            await until(lambda: (limits.open, limits.addresses) == (0, 0))
        with here.connect() as sock:
            served = await asyncio.to_thread(
                client_tls.wrap_socket, sock, server_hostname="127.0.0.1"
            )
            with served:
                await until(lambda: here.listener.connections == 0)
                assert limits.open == 1
                with here.connect() as refused:
                    await closed(refused)
        await until(lambda: (limits.open, limits.addresses) == (0, 0))


async def test_behind_a_header_connections_count_by_the_address_that_it_says() -> None:
    limits = ConnectionLimits(max_per_address=1)
    async with proxied(limits=limits) as here:
        with here.connect() as first, here.connect() as second:
            first.sendall(line())
            await until(lambda: limits.addresses == 1)
            second.sendall(line())
            await closed(second)
            assert await peer_of(here, line(CLIENT6, "TCP6"), GET) == (CLIENT6, 0)
        await until(lambda: (limits.open, limits.addresses) == (0, 0))
        assert await peer_of(here, line(), GET) == (CLIENT4, 0)


async def test_connections_that_wait_for_long_give_way_to_new_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "MAX_WAITING", 3)
    monkeypatch.setattr(listener_module, "MIN_WAIT", 0.1)
    async with proxied() as here:
        silent = [here.connect() for _ in range(5)]
        assert await peer_of(here, line(), GET) == (CLIENT4, 0)
        assert here.listener.connections <= 3
        for sock in silent:
            sock.close()


async def test_at_the_limit_of_all_connections_one_without_a_header_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener_module, "MIN_WAIT", 0.0)
    limits = ConnectionLimits(max_connections=1)
    async with proxied(limits=limits) as here:
        with here.connect() as silent:
            await until(lambda: limits.open == 1)
            assert await peer_of(here, line(), GET) == (CLIENT4, 0)
            await closed(silent)


async def test_failures_to_accept_are_reported_once_a_minute() -> None:
    loop = FakeLoop()
    with socket.socket() as sock:
        listener = Listener(
            sock,
            lambda peer, take_key: asyncio.Protocol(),
            TimerWheel(loop.loop),
            tls=None,
            proxied=True,
        )
        for _ in range(50):
            listener._report_failure(OSError(errno.EMFILE, "Too many open files"))
        assert len(loop.errors) == 1
        loop.advance(listener_module.REPORT_INTERVAL)
        listener._report_failure(OSError(errno.EMFILE, "Too many open files"))
        assert len(loop.errors) == 2
