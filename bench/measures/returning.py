"""A known user agent with nothing stored: connect, handshake, hello, reply, close.

Rule: the reply shows that it was recognised, and it never connects while its last connection is
open.
"""

import asyncio
from itertools import cycle, islice

from bench.fleet import Fleet
from bench.report import Row, Sample
from bench.run import Run, Stopwatch

MOST_US = 300.0
AT_ONCE = 32


async def returning(run: Run) -> list[Row]:
    sizes = run.sizes
    async with run.server("store-first") as server:
        fleet = Fleet(server.host, server.port, sizes.returning_users)
        await fleet.subscribe_all()
        await fleet.leave()

        async def visits(count: int) -> Sample:
            fleet.ledger.begin(0)
            await server.wait_until_idle()
            known = islice(cycle(fleet.identities), count)

            async def worker() -> None:
                for identity in known:
                    agent = await fleet.connect(identity)
                    await agent.leave(sizes.limit)

            watch = Stopwatch(server)
            await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
            watch.traffic_ended()
            await server.wait_until_idle()
            fleet.ledger.close_round()
            return watch.sample(count)

        await visits(sizes.returns // 10)
        series = await run.floored(sizes.rounds, lambda: visits(sizes.returns))
    return [series.row("returning client", f"≤ {MOST_US:g} µs", series.microseconds <= MOST_US)]
