"""Connecting: which address is taken, and what a failure tells about the peer."""

import asyncio
import errno
import socket
from collections.abc import Callable

import pytest

from autopush.net.dial import DialError, Refused, Unanswered, dial
from support.http_shell import serving
from support.sockets import full_port, unused_port

BOTH_LOOPS = True

Address = tuple[str, int]


class Net:
    """The running loop, on a network that behaves as told."""

    def __init__(self) -> None:
        self.addresses: list[Address] | OSError | None = None
        """What every name stands for."""
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


class Nobody(asyncio.Protocol):
    """Reads nothing."""


async def connect(net: Net, host: str = "127.0.0.1", port: int = 1, seconds: float = 5) -> Nobody:
    return await dial(net, host, port, Nobody, seconds)  # type: ignore[arg-type]


@pytest.fixture
def net() -> Net:
    return Net()


def local(*ports: int) -> list[Address]:
    return [("127.0.0.1", port) for port in ports]


async def test_the_first_address_that_accepts_is_taken(net: Net) -> None:
    async with serving() as first, serving() as second:
        net.addresses = local(unused_port(), first.port, second.port)
        assert isinstance(await connect(net), Nobody)
        assert net.tried == net.addresses[:2]


async def test_refused_is_who_is_refused_by_every_address(net: Net) -> None:
    net.addresses = local(unused_port(), unused_port())
    with pytest.raises(Refused):
        await connect(net)


@pytest.mark.parametrize("unanswered_first", [True, False])
async def test_one_address_that_is_out_of_reach_leaves_it_open_who_is_there(
    net: Net, unanswered_first: bool
) -> None:
    refused, dark = local(unused_port(), unused_port())
    net.addresses = [dark, refused] if unanswered_first else [refused, dark]
    no_way = OSError(errno.EHOSTUNREACH, "no route to host")
    net.on_connect = lambda address: no_way if address == dark else None
    with pytest.raises(Unanswered, match="EHOSTUNREACH"):
        await connect(net)


async def test_a_peer_that_accepts_nobody_is_unanswered(net: Net) -> None:
    with full_port() as port, pytest.raises(Unanswered, match="too long"):
        await connect(net, port=port, seconds=0.05)


@pytest.mark.parametrize(
    "number", [errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN]
)
async def test_no_way_to_the_peer_is_unanswered(net: Net, number: int) -> None:
    net.on_connect = lambda address: OSError(number, "no way")
    with pytest.raises(Unanswered):
        await connect(net)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EADDRNOTAVAIL, errno.EPERM])
async def test_an_error_of_this_machine_says_nothing_about_the_peer(net: Net, number: int) -> None:
    net.on_connect = lambda address: OSError(number, "local")
    with pytest.raises(DialError) as caught:
        await connect(net)
    assert type(caught.value) is DialError


async def test_a_name_that_no_host_bears_is_refused(net: Net) -> None:
    net.addresses = socket.gaierror(socket.EAI_NONAME, "unknown")
    with pytest.raises(Refused):
        await connect(net, "gone.example")


async def test_a_name_server_that_does_not_answer_leaves_the_peer_unanswered(net: Net) -> None:
    net.addresses = socket.gaierror(socket.EAI_AGAIN, "try again")
    with pytest.raises(Unanswered):
        await connect(net, "node.example")


@pytest.mark.parametrize("host", ["..", "a" * 64 + ".example", "no\0de"])
async def test_a_name_that_cannot_be_one_is_refused(net: Net, host: str) -> None:
    with pytest.raises(Refused):
        await connect(net, host)
