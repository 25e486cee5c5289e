"""What a push costs with several workers, as a multiple of the cost with one in the same run: as
fast as the server answers, and at a rate. All workers run on the server's core.

As many services of one worker each, on the same core and with the same load, have nothing between
them: what they cost is what a core takes for changing between so many processes.
"""

import asyncio
import statistics
from contextlib import AsyncExitStack

from bench.ledger import TimedLedger
from bench.load import Load
from bench.report import Row, Series, percentile
from bench.run import Run, Stopwatch

MOST_TIMES = {1: 1.0, 2: 1.25, 4: 1.4, 8: 1.5}
"""By the number of workers, the most that a push may cost: times that of one worker."""
RATE = 1000.0
"""Pushes a second."""
MOST_MS = 10.0


async def workers(run: Run, *, mode: str) -> list[Row]:
    rows = []
    alone: tuple[float, float] | None = None
    for count in run.sizes.workers:
        most = MOST_TIMES[count]
        closed, at_rate, latencies = await _measure(run, mode, count)
        if alone is None:
            alone = closed.microseconds, at_rate
        ratios = closed.microseconds / alone[0], at_rate / alone[1]
        apart = await _apart(run, mode, count) / alone[0] if count > 1 else 1.0
        p99 = percentile(latencies, 99)
        rows.append(
            Row(
                f"{count} workers, {mode}",
                f"{closed.microseconds:.1f} µs",
                f"{ratios[0]:.2f} of one's",
                f"≤ {most:g}",
                ratios[0] <= most,
                rate=f"{closed.rate:,.0f}/s",
                busy=f"{closed.busy:.0%}",
                note=(
                    f"at {RATE:,.0f}/s {at_rate:.0f} µs, {ratios[1]:.2f} of one's,"
                    f" p99 {p99:.2f} ms (≤ {MOST_MS:g}); as services with nothing between them"
                    f" {apart:.2f} of one's"
                ),
            )
        )
    return rows


async def _measure(run: Run, mode: str, count: int) -> tuple[Series, float, list[float]]:
    """Microseconds of CPU time a push, in rounds of a closed loop and at the rate; latencies."""
    sizes = run.sizes
    async with run.server(mode, (), **{"--workers": str(count)}) as server:
        load = await Load.on(server, TimedLedger())
        await load.pushes(run, sizes.warm_up)
        closed = Series([await load.pushes(run, sizes.pushes) for _ in range(sizes.rounds)])
        watch = Stopwatch(server)
        traffic = await load.at_rate(run, RATE)
        watch.traffic_ended()
        latencies = traffic.latencies()
        at_rate = watch.sample(len(latencies)).per_operation / 1000
        await load.leave()
    return closed, at_rate, latencies


async def _apart(run: Run, mode: str, count: int) -> float:
    """Microseconds of CPU time a push as fast as `count` services answer, the median of rounds."""
    sizes = run.sizes
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(run.server(mode)) for _ in range(count)]
        loads = [await Load.on(server, TimedLedger(), servers=count) for server in servers]

        async def push(number: int) -> float:
            """All services take their share of so many at the same time."""
            share = number // count
            samples = await asyncio.gather(*(load.pushes(run, share) for load in loads))
            return sum(sample.server_ns for sample in samples) / (share * count) / 1000

        await push(sizes.warm_up)
        costs = [await push(sizes.pushes) for _ in range(sizes.rounds)]
        for load in loads:
            await load.leave()
    return statistics.median(costs)
