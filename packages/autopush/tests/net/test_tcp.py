"""TCP: which address is taken, what a failure says about the peer, and probes by the kernel."""

import asyncio
import errno
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from autopush.net.listener import enable_keepalive
from autopush.net.tcp import DialError, DialInsecure, DialRefused, DialUnanswered, dial
from support.certificates import tls_pair
from support.http_shell import serving
from support.sockets import full_port, silent_port, unused_port
from support.stream_server import stream_server

BOTH_LOOPS = True

Address = tuple[str, int]


class Net:
    """The running loop, on a network that behaves as a test sets it."""

    def __init__(self) -> None:
        self.addresses: list[Address] | OSError | None = None
        """What every name resolves to."""
        self.on_connect: Callable[[Address], OSError | None] = lambda address: None
        self.tried: list[Address] = []

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio.get_running_loop(), name)

    async def getaddrinfo(self, host: str, port: int, **options: int) -> list[object]:
        if isinstance(self.addresses, OSError):
            raise self.addresses
        if self.addresses is None:
            return list(await asyncio.get_running_loop().getaddrinfo(host, port, **options))
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", each) for each in self.addresses]

    async def sock_connect(self, sock: socket.socket, address: Address) -> None:
        self.tried.append(address)
        error = self.on_connect(address)
        if error is not None:
            raise error
        await asyncio.get_running_loop().sock_connect(sock, address)


class NoProtocol(asyncio.Protocol):
    """Reads nothing."""


async def connect(
    net: Net, host: str = "127.0.0.1", port: int = 1, seconds: float = 5
) -> NoProtocol:
    return await dial(net, host, port, NoProtocol, seconds)  # type: ignore[arg-type]


@pytest.fixture
def net() -> Net:
    return Net()


def local(*ports: int) -> list[Address]:
    return [("127.0.0.1", port) for port in ports]


async def test_the_first_address_that_accepts_is_taken(net: Net) -> None:
    async with serving() as first, serving() as second:
        net.addresses = local(unused_port(), first.port, second.port)
        assert isinstance(await connect(net), NoProtocol)
        assert net.tried == net.addresses[:2]


async def test_only_a_refusal_by_every_address_is_refused(net: Net) -> None:
    net.addresses = local(unused_port(), unused_port())
    with pytest.raises(DialRefused):
        await connect(net)


@pytest.mark.parametrize("unanswered_first", [True, False])
async def test_one_unreachable_address_makes_it_unanswered(
    net: Net, unanswered_first: bool
) -> None:
    refused, unreachable = local(unused_port(), unused_port())
    net.addresses = [unreachable, refused] if unanswered_first else [refused, unreachable]
    no_route = OSError(errno.EHOSTUNREACH, "no route to host")
    net.on_connect = lambda address: no_route if address == unreachable else None
    with pytest.raises(DialUnanswered, match="EHOSTUNREACH"):
        await connect(net)


async def test_a_peer_that_accepts_no_connection_is_unanswered(net: Net) -> None:
    with full_port() as port, pytest.raises(DialUnanswered, match="too long"):
        await connect(net, port=port, seconds=0.05)


@pytest.mark.parametrize(
    "number", [errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN]
)
async def test_no_route_to_the_peer_is_unanswered(net: Net, number: int) -> None:
    net.on_connect = lambda address: OSError(number, "no route")
    with pytest.raises(DialUnanswered):
        await connect(net)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EADDRNOTAVAIL, errno.EPERM])
async def test_an_error_of_this_machine_says_nothing_about_the_peer(net: Net, number: int) -> None:
    net.on_connect = lambda address: OSError(number, "local")
    with pytest.raises(DialError) as caught:
        await connect(net)
    assert type(caught.value) is DialError


async def test_an_unknown_host_name_is_refused(net: Net) -> None:
    net.addresses = socket.gaierror(socket.EAI_NONAME, "unknown")
    with pytest.raises(DialRefused):
        await connect(net, "gone.example")


async def test_a_name_server_without_an_answer_is_unanswered(net: Net) -> None:
    net.addresses = socket.gaierror(socket.EAI_AGAIN, "try again")
    with pytest.raises(DialUnanswered):
        await connect(net, "node.example")


@pytest.mark.parametrize("host", ["..", "a" * 64 + ".example", "no\0de"])
async def test_an_invalid_host_name_is_refused(net: Net, host: str) -> None:
    with pytest.raises(DialRefused):
        await connect(net, host)


# --- TLS ----------------------------------------------------------------------------------------


class Opened(asyncio.Protocol):
    """Closes when connected."""

    version: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.version = transport.get_extra_info("ssl_object").version()
        transport.close()


async def connect_tls(
    port: int, context: ssl.SSLContext, host: str = "127.0.0.1", seconds: float = 5
) -> Opened:
    return await dial(asyncio.get_running_loop(), host, port, Opened, seconds, context)


async def test_a_peer_with_a_trusted_certificate_for_its_name_is_connected_to(
    tmp_path: Path,
) -> None:
    server, client = tls_pair(tmp_path)
    async with serving(tls=server) as served:
        assert (await connect_tls(served.port, client)).version == "TLSv1.3"


async def test_a_certificate_that_is_not_trusted_is_no_refusal(tmp_path: Path) -> None:
    server, _ = tls_pair(tmp_path)
    async with serving(tls=server) as served:
        with pytest.raises(DialInsecure, match="not trusted: self"):
            await connect_tls(served.port, ssl.create_default_context())


async def test_a_certificate_for_another_name_is_no_refusal(tmp_path: Path) -> None:
    server, client = tls_pair(tmp_path, "node.example")
    async with serving(tls=server) as served:
        with pytest.raises(DialInsecure, match="IP address mismatch"):
            await connect_tls(served.port, client)


async def test_a_peer_without_tls_is_no_refusal(tmp_path: Path) -> None:
    _, client = tls_pair(tmp_path)
    async with serving() as served:
        with pytest.raises(DialError) as caught:
            await connect_tls(served.port, client)
    assert not isinstance(caught.value, DialRefused)


async def test_a_peer_that_closes_within_the_handshake_is_no_refusal(tmp_path: Path) -> None:
    _, client = tls_pair(tmp_path)

    async def abort(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with stream_server(abort) as (_, port):
        with pytest.raises(DialError) as caught:
            await connect_tls(port, client)
    assert not isinstance(caught.value, DialRefused)


async def test_a_handshake_has_no_more_time_than_the_connection(tmp_path: Path) -> None:
    _, client = tls_pair(tmp_path)
    with silent_port() as port, pytest.raises(DialUnanswered, match="too long"):
        await connect_tls(port, client, seconds=0.05)


# --- keepalive ----------------------------------------------------------------------------------

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the names are Linux's")

EXPECTED = {
    "SO_KEEPALIVE": 1,
    "TCP_KEEPIDLE": 300,
    "TCP_KEEPINTVL": 60,
    "TCP_KEEPCNT": 4,
    "TCP_USER_TIMEOUT": 60_000,
}


def options(sock: socket.socket) -> dict[str, int]:
    def option(name: str) -> int:
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        return sock.getsockopt(level, getattr(socket, name))

    return {name: option(name) for name in EXPECTED}


@on_linux
def test_an_accepted_socket_has_the_options_of_the_listening_one() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        enable_keepalive(listening)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert options(accepted) == EXPECTED


@on_linux
def test_options_unknown_to_the_platform_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    with socket.socket() as sock:
        enable_keepalive(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
