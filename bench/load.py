"""The user agents and the application server of a measure, and the two ways to push to them: as
fast as the server answers, and at a rate.
"""

from collections.abc import Iterable
from itertools import repeat

from bench.fleet import Fleet
from bench.ledger import MismatchError
from bench.open_loop import OpenLoop, poisson
from bench.push_client import ClosedLoop, Poster
from bench.report import Sample
from bench.run import AGENTS, POSTERS, Run, Stopwatch
from bench.server import Server


class Load:
    """`token`: the VAPID token of pushes that are given no other."""

    def __init__(self, server: Server, fleet: Fleet, posters: list[Poster], token: bytes) -> None:
        self.server = server
        self.fleet = fleet
        self.posters = posters
        self.token = token

    @classmethod
    async def on(cls, server: Server) -> "Load":
        """With user agents that are connected and subscribed."""
        fleet = Fleet(server.host, server.port, AGENTS)
        await fleet.subscribe_all()
        posters = await fleet.posters(POSTERS)
        return cls(server, fleet, posters, fleet.sender.token(fleet.origin))

    async def pushes(self, run: Run, count: int, tokens: Iterable[bytes] | None = None) -> Sample:
        """Push as fast as the server answers. A push counts when it was answered 201, delivered
        once and its ack was read.
        """
        ledger, server = self.fleet.ledger, self.server
        ledger.begin(count)
        watch = Stopwatch(server)
        pushes = self.fleet.pushes(repeat(self.token) if tokens is None else tokens, count)
        ClosedLoop(self.posters, pushes, ledger)
        await ledger.all_answered(run.sizes.limit)
        await ledger.all_delivered(run.sizes.limit)
        watch.traffic_ended()
        await self.fleet.barrier()
        await server.wait_until_idle()
        sample = watch.sample(count)
        ledger.close_round()
        return sample

    async def at_rate(self, run: Run, per_second: float) -> list[float]:
        """Push at times drawn beforehand; the latencies when all were delivered."""
        ledger = self.fleet.ledger
        times = poisson(per_second, run.sizes.seconds_at_rate)
        ledger.begin(len(times))
        traffic = OpenLoop(self.posters, self.fleet, self.token, times)
        if await traffic.end(run.sizes.limit):
            raise MismatchError(f"{traffic.refused} pushes refused, {traffic.unanswered} dropped")
        await self.fleet.barrier()
        await self.server.wait_until_idle()
        ledger.close_round()
        return traffic.latencies()

    async def leave(self) -> None:
        for poster in self.posters:
            poster.close()
        await self.fleet.leave()
