"""A push through an endpoint daemon, a link and a connection daemon, against one worker that is
both. The two are measured alternately, within the same minutes and under the same load.
"""

import statistics
from itertools import repeat

from bench.fleet import Fleet
from bench.ledger import Ledger
from bench.measures.direct import push_round
from bench.push_client import Poster
from bench.report import Row, Sample, Series, cost_row
from bench.run import AGENTS, POSTERS, Run
from bench.server import Server

MOST_TIMES = {"bypass": 2.0, "store-first": 3.0}


async def daemons(run: Run) -> list[Row]:
    return [row for mode in ("bypass", "store-first") for row in await _in_mode(run, mode)]


async def _in_mode(run: Run, mode: str) -> list[Row]:
    sizes = run.sizes
    async with run.server(mode) as worker, run.daemons(mode) as pair:
        one, two = await Load.on(worker), await Load.on(pair)
        await one.pushes(run, sizes.warm_up)
        await two.pushes(run, sizes.warm_up)
        single: list[Sample] = []
        endpoint_shares: list[float] = []

        async def in_turn() -> Sample:
            single.append(await one.pushes(run, sizes.pushes))
            before = pair.shares()
            sample = await two.pushes(run, sizes.pushes)
            used = [now - then for now, then in zip(pair.shares(), before, strict=True)]
            endpoint_shares.append(used[0] / sum(used))
            return sample

        apart = await run.floored(sizes.rounds, in_turn)
        await one.leave()
        await two.leave()
    together = apart.with_samples(single)
    ratio = apart.microseconds / together.microseconds
    return [_row(mode, together, apart, ratio, statistics.median(endpoint_shares))]


def _row(mode: str, together: Series, apart: Series, ratio: float, share: float) -> Row:
    return cost_row(
        f"push through two daemons and a link, {mode}",
        apart,
        f"≤ {MOST_TIMES[mode]:g} times one worker",
        ratio <= MOST_TIMES[mode],
        note=f"{ratio:.2f} times one worker ({together.microseconds:.1f} µs,"
        f" {together.rate:,.0f}/s); the endpoint's share {share:.0%}; all on one core",
        times_one_worker=ratio,
        one_worker_us=together.microseconds,
        one_worker_per_second=together.rate,
        endpoint_share=share,
    )


class Load:
    """User agents and an application server of one service."""

    def __init__(self, fleet: Fleet, posters: list[Poster], token: bytes) -> None:
        self._fleet = fleet
        self._posters = posters
        self._token = token

    @classmethod
    async def on(cls, server: Server) -> "Load":
        fleet = Fleet(server, Ledger(), AGENTS)
        await fleet.subscribe_all()
        return cls(fleet, await fleet.posters(POSTERS), fleet.sender.token(fleet.origin))

    async def pushes(self, run: Run, count: int) -> Sample:
        return await push_round(run, self._fleet, self._posters, repeat(self._token), count)

    async def leave(self) -> None:
        for poster in self._posters:
            poster.close()
        await self._fleet.leave()
