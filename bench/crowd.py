"""The user agents of a storm, of an upgrade, or of the largest number that is held, in processes of
their own: one process may have only so many open files.

Each process holds a part of them. A line on its standard input names a step, which all parts take
at the same time; a line on its standard output is the result, as JSON.
"""

import asyncio
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Self

import msgspec
import uvloop

from bench import machine
from bench.fleet import Fleet, at_once
from bench.ledger import Ledger, MismatchError
from bench.open_loop import OpenLoop, poisson
from bench.push_client import ClosedLoop
from bench.run import POSTERS, Run
from bench.server import Server, spawn
from bench.user_agent import Identity, UserAgent

PART = 14_000
"""User agents of one process."""
BODY_BYTES = 200
REGISTERING = 10
"""Each of so many that come back registers again."""
REACHED = 500
"""User agents of a part that are sent a message at the end."""


class Result(msgspec.Struct):
    """Of one step of one part, or of all parts together."""

    mismatch: str = ""
    endpoint: str = ""
    delivered: int = 0
    seconds: list[float] = []
    """From the start of the storm to the reply to each hello, ascending."""
    register_seconds: list[float] = []
    turned_away: int = 0
    """Connections that ended before the reply to their hello."""
    registers_refused: int = 0
    closed: int = 0
    """User agents whose connection the server has ended."""
    pushes: int = 0
    refused: int = 0
    """Pushes answered 503."""
    unanswered: int = 0
    """Pushes on connections that ended before an answer."""
    twice: int = 0
    """Messages that came again."""
    waits: list[float] = []
    """Milliseconds from each push to its user agent, ascending."""
    lateness_ms: float = 0.0
    """By which the load itself was late, at most."""

    def add(self, other: "Result") -> None:
        """Join the result of another part."""
        self.mismatch = self.mismatch or other.mismatch
        self.endpoint = self.endpoint or other.endpoint
        self.lateness_ms = max(self.lateness_ms, other.lateness_ms)
        for name in self.__struct_fields__:
            mine, more = getattr(self, name), getattr(other, name)
            if isinstance(mine, list):
                setattr(self, name, sorted(mine + more))
            elif isinstance(mine, int):
                setattr(self, name, mine + more)


class Crowd:
    """All parts, as the measure sees them."""

    def __init__(self, run: Run, server: Server, count: int, limit: float) -> None:
        command = [sys.executable, "-m", "bench.crowd", server.host, str(server.port), str(limit)]
        sizes = [min(PART, count - first) for first in range(0, count, PART)]
        self._parts = [spawn([*command, str(size)], run.cores.all) for size in sizes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            part.kill()
            part.wait()

    async def take(self, *step: object) -> Result:
        """Have all parts take a step, with its arguments; raises `MismatchError` if one found a
        mismatch.
        """
        line = " ".join(map(str, step))
        asking = (asyncio.to_thread(_ask, part, line) for part in self._parts)
        result = Result()
        for each in await asyncio.gather(*asking):
            result.add(each)
        if result.mismatch:
            raise MismatchError(result.mismatch)
        return result


def _ask(part: subprocess.Popen[bytes], step: str) -> Result:
    assert part.stdin is not None
    assert part.stdout is not None
    part.stdin.write(step.encode() + b"\n")
    part.stdin.flush()
    line = part.stdout.readline()
    if not line:
        raise MismatchError(f"a process of user agents ended during {step!r}")
    return msgspec.json.decode(line, type=Result)


@dataclass
class _Part:
    """One process's user agents. Its methods are the steps."""

    fleet: Fleet
    limit: float
    token: bytes = b""
    history: Result = field(default_factory=Result)
    traffic: OpenLoop | None = None
    reconnecting: list[asyncio.Task[None]] = field(default_factory=list)

    async def subscribe(self) -> Result:
        await self.fleet.subscribe_all()
        self.token = self.fleet.sender.token(self.fleet.origin)
        return Result(
            endpoint=self.fleet.identities[0].endpoint,
            registers_refused=self.fleet.registers_refused,
        )

    async def store(self) -> Result:
        """A message for half of them: most are away, every tenth is connected and does not ack what
        it gets.
        """
        fleet = self.fleet
        half = range(len(fleet.identities) // 2)
        place = {identity: index for index, identity in enumerate(fleet.identities)}
        leaving: list[UserAgent] = []
        staying: list[UserAgent] = []
        received_before = Ledger()
        received_before.begin(len(half[::10]))
        for agent in fleet.agents:
            index = place[agent.identity]
            if index in half[::10]:
                agent.acking = False
                agent.ledger = received_before  # what comes now must come again
            (leaving if index in half and agent.acking else staying).append(agent)
        await at_once(UserAgent.leave, leaving)
        fleet.agents = staying
        posters = await fleet.posters(POSTERS)
        fleet.ledger.begin(len(half))
        ClosedLoop(posters, (fleet.push_to(index, self.token) for index in half), fleet.ledger)
        await fleet.ledger.all_answered(self.limit)
        await received_before.all_delivered(self.limit)
        for poster in posters:
            poster.close()
        return Result()

    async def expect_kill(self) -> Result:
        for agent in self.fleet.agents:
            agent.closing = True
        return Result()

    async def end(self) -> Result:
        """Wait until the killed server has ended all connections."""
        await asyncio.gather(*(agent.gone for agent in self.fleet.agents))
        self.fleet.agents = []
        return Result()

    async def come_back(self) -> Result:
        """All at once; who is turned away tries again after a moment, as a user agent does."""
        began = time.monotonic()
        self.history = Result()
        try:
            async with asyncio.TaskGroup() as group:
                for number, identity in enumerate(self.fleet.identities):
                    is_registering = number % REGISTERING == 0
                    group.create_task(self._return(identity, began, is_registering))
        except* MismatchError as several:
            raise MismatchError(str(several.exceptions[0])) from None
        return self.history

    async def _return(self, identity: Identity, began: float, is_registering: bool) -> None:
        history = self.history
        while True:
            try:
                agent = await self.fleet.connect(identity, self.limit)
                break
            except OSError as refused:
                history.turned_away += 1
                if time.monotonic() - began > self.limit:
                    raise MismatchError(
                        f"a returning client was not answered in {self.limit:g} s: {refused}"
                    ) from None
                await asyncio.sleep(random.uniform(0.2, 1.0))
        answered = time.monotonic()
        history.seconds.append(answered - began)
        self.fleet.agents.append(agent)
        if is_registering:
            if not await agent.register(self.fleet.sender.key, self.limit):
                history.registers_refused += 1
            history.register_seconds.append(time.monotonic() - answered)

    async def settle(self) -> Result:
        """Everything that waited is delivered, once, and acked."""
        await self.fleet.ledger.all_delivered(self.limit)
        await self.fleet.barrier()
        return Result(delivered=self.fleet.ledger.close_round().delivered)

    async def reach(self) -> Result:
        """One push to each of some of those who came back."""
        await self.fleet.reach(min(REACHED, len(self.fleet.identities)), POSTERS, self.limit)
        return Result()

    async def begin_pushes(self, rate: str) -> Result:
        """`rate`: pushes a second to each user agent, on average. Until `end_pushes`, one whose
        connection ends connects again.
        """
        fleet, ledger = self.fleet, self.fleet.ledger
        self.history, self.reconnecting = Result(), []
        for agent in fleet.agents:
            agent.lost = self._reconnect
        ledger.begin(0)
        times = poisson(float(rate) * len(fleet.identities), self.limit)
        posters = await fleet.posters(POSTERS)
        self.traffic = OpenLoop(posters, fleet, self.token, times)
        return Result()

    def _reconnect(self, agent: UserAgent) -> None:
        self.history.closed += 1
        again = self._return(agent.identity, time.monotonic(), is_registering=False)
        self.reconnecting.append(asyncio.ensure_future(again))

    async def end_pushes(self) -> Result:
        """Everything that was answered 201 is delivered."""
        fleet, traffic, history = self.fleet, self.traffic, self.history
        assert traffic is not None
        others = await traffic.end(self.limit, at_once=True)
        history.pushes = traffic.sent
        history.refused, history.unanswered = traffic.refused, traffic.unanswered
        await asyncio.gather(*self.reconnecting)
        fleet.agents = [agent for agent in fleet.agents if not agent.gone.done()]
        for agent in fleet.agents:
            agent.lost = None
        await fleet.barrier()
        history.waits = traffic.latencies()
        history.lateness_ms = traffic.lateness_ms
        history.twice = fleet.ledger.close_round(others, may_repeat=True).twice
        traffic.close()
        return history

    async def visit(self) -> Result:
        """Leave, and connect once more: everything was acked, so whatever comes is a duplicate."""
        await self.fleet.leave()
        await self.fleet.reconnect_all()
        await self.fleet.barrier()
        self.fleet.ledger.close_round()
        await self.fleet.leave()
        return Result()


async def _serve(part: _Part) -> None:
    while step := await asyncio.to_thread(sys.stdin.readline):
        name, *arguments = step.split()
        try:
            result = await getattr(part, name)(*arguments)
        except MismatchError as mismatch:
            result = Result(mismatch=str(mismatch))
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.flush()


def main() -> None:
    host, port, limit, count = sys.argv[1:]
    machine.allow_files(int(count) + 500)
    fleet = Fleet(host, int(port), int(count), body_bytes=BODY_BYTES)
    uvloop.run(_serve(_Part(fleet, float(limit))))


if __name__ == "__main__":
    main()
