"""The links between the nodes of a simulated cluster."""

import asyncio
import socket
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from autopush.net.tcp import DialRefused, DialUnanswered, DialUnknown

if TYPE_CHECKING:
    from support.simulation.workers import Worker
    from support.simulation.world import World


class Failure(Enum):
    REFUSED = "a firewall answers for the peer"
    UNKNOWN = "the name of the peer does not resolve"
    SILENT = "nothing arrives"


class Network:
    """In place of `dial`. `failures`: of the links between two nodes, by their names."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.failures: dict[frozenset[str], Failure] = {}
        self._sockets: dict[frozenset[str], list[socket.socket]] = {}

    def fail(self, pair: frozenset[str], failure: Failure) -> None:
        """From now on no connection can be made; those that exist end."""
        self.failures[pair] = failure
        for sock in self._sockets.pop(pair, []):
            if sock.fileno() >= 0:
                sock.shutdown(socket.SHUT_RDWR)

    def mend(self, pair: frozenset[str]) -> None:
        self.failures.pop(pair, None)

    async def dial(
        self,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        protocol: Callable[[], Any],
        seconds: float,
        tls: object = None,
    ) -> Any:
        caller = self._world.running_worker()
        pair = frozenset((caller.host, host))
        match self.failures.get(pair):
            case Failure.SILENT:
                await asyncio.sleep(seconds)
                raise DialUnanswered("connecting took too long")
            case Failure.UNKNOWN:
                raise DialUnknown("no host has that name")
            case Failure.REFUSED:
                raise DialRefused("the connection was refused")
        callee = self._serving(host)
        if callee is None:
            raise DialRefused("the connection was refused")
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
        self._sockets.setdefault(pair, []).extend((ours, theirs))
        caller.sockets.append(ours)
        callee.accept_link(theirs)
        _, connected = await loop.create_connection(protocol, sock=ours)
        return connected

    def _serving(self, host: str) -> "Worker | None":
        found = (each for each in self._world.workers if each.host == host and each.is_serving)
        return next(found, None)
