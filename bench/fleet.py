"""The user agents of a measure and one application server that may push to them.

Each user agent expects a body of its own, so that a message delivered to the wrong one is noticed.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import cycle, islice, repeat
from typing import TypeVar
from urllib.parse import urlsplit

from bench.ledger import Ledger, MismatchError
from bench.push_client import ApplicationServer, ClosedLoop, Poster, PushRequest, open_posters
from bench.user_agent import Identity, UserAgent

T = TypeVar("T")

BODY_BYTES = 3072
_AT_ONCE = 64
_SOURCES = 16


class Fleet:
    """After `subscribe_all` the `agents` are connected, have said hello and registered once. A
    register that is answered 503 is counted, and repeated.
    """

    def __init__(self, host: str, port: int, count: int, *, body_bytes: int = BODY_BYTES) -> None:
        self.address = host, port
        self.ledger = Ledger()
        self.sender = ApplicationServer()
        self.identities = [Identity(random.randbytes(body_bytes)) for _ in range(count)]
        self.agents: list[UserAgent] = []
        self.registers_refused = 0
        self._requests: list[PushRequest] = []

    @property
    def origin(self) -> str:
        """Of the endpoints: what the tokens are for."""
        url = urlsplit(self.identities[0].endpoint)
        return f"{url.scheme}://{url.netloc}"

    async def subscribe_all(self, count: int | None = None) -> None:
        """Connect the next `count` for the first time; without a count all that are left."""
        subscribed = len(self._requests)
        new = self.identities[subscribed : None if count is None else subscribed + count]
        await at_once(self._arrive, new)
        self._requests += [PushRequest(each.endpoint, self.sender.key, each.body) for each in new]

    async def _arrive(self, identity: Identity) -> None:
        agent = await self.connect(identity)
        while not await agent.register(self.sender.key):
            self.registers_refused += 1
            await asyncio.sleep(random.uniform(0.2, 1.0))
        self.agents.append(agent)

    async def connect(self, identity: Identity, limit: float = 30.0) -> UserAgent:
        """A connected user agent that has said hello. Sources rotate, for the ports of one address
        run out.
        """
        agent = UserAgent(identity, self.ledger)
        source = f"127.0.0.{2 + random.randrange(_SOURCES)}"
        await agent.connect(*self.address, source, limit)
        await agent.hello(limit)
        return agent

    async def reconnect_all(self) -> None:
        """Connect everyone again; with messages waiting these may arrive before this returns."""
        self.agents = []
        await at_once(self._return, self.identities)

    async def _return(self, identity: Identity) -> None:
        self.agents.append(await self.connect(identity))

    async def leave(self) -> None:
        """Close every connection and wait until the server has ended it."""
        await at_once(UserAgent.leave, self.agents)
        self.agents = []

    async def barrier(self) -> None:
        """Wait until the server has read everything the user agents sent."""
        await at_once(UserAgent.barrier, self.agents)

    async def posters(self, count: int) -> list[Poster]:
        """Connections to the endpoints' host."""
        url = urlsplit(self.origin)
        return await open_posters(url.hostname or "", url.port or 80, count)

    def pushes(self, tokens: Iterable[bytes], count: int) -> Iterator[bytes]:
        """Requests to the connected members round-robin, each with the next of the tokens."""
        signed = zip(cycle(self._requests), tokens)
        return (request.signed(token) for request, token in islice(signed, count))

    async def reach(self, count: int, posters: int, limit: float) -> None:
        """Push to this many members; each push has to be answered, delivered once and acked."""
        self.ledger.begin(count)
        connections = await self.posters(posters)
        tokens = repeat(self.sender.token(self.origin))
        ClosedLoop(connections, self.pushes(tokens, count), self.ledger)
        await self.ledger.all_answered(limit)
        await self.ledger.all_delivered(limit)
        await self.barrier()
        self.ledger.close_round()
        for poster in connections:
            poster.close()

    def push_to(self, index: int, token: bytes) -> bytes:
        """A request to one member."""
        return self._requests[index].signed(token)


async def at_once(act: Callable[[T], Awaitable[object]], over: Iterable[T]) -> None:
    """Do it for all, some dozens at a time; raises the first failure."""
    waiting = iter(list(over))

    async def worker() -> None:
        for each in waiting:
            await act(each)

    workers = [asyncio.ensure_future(worker()) for _ in range(_AT_ONCE)]
    try:
        await asyncio.gather(*workers)
    except OSError as failed:
        raise MismatchError(f"a connection failed: {failed}") from None
    finally:
        for each in workers:
            each.cancel()
