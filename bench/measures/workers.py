"""What a push costs with several workers, as a multiple of the cost with one in the same run: as
fast as the server answers, and at a rate. All workers run on the server's core.
"""

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
        p99 = percentile(latencies, 99)
        note = (
            f"at {RATE:,.0f}/s {at_rate:.0f} µs, {ratios[1]:.2f} of one's,"
            f" p99 {p99:.2f} ms (≤ {MOST_MS:g})"
        )
        name, ratio = f"{count} workers, {mode}", f"{ratios[0]:.2f} of one's"
        rows.append(closed.row(name, f"≤ {most:g}", ratios[0] <= most, note, ratio))
    return rows


async def _measure(run: Run, mode: str, count: int) -> tuple[Series, float, list[float]]:
    """Microseconds of CPU time a push, in rounds of a closed loop and at the rate; latencies."""
    sizes = run.sizes
    async with run.server(mode, {"--workers": str(count)}) as server:
        load = await Load.on(server)
        await load.pushes(run, sizes.warm_up)
        closed = Series([await load.pushes(run, sizes.pushes) for _ in range(sizes.rounds)])
        watch = Stopwatch(server)
        latencies = await load.at_rate(run, RATE)
        watch.traffic_ended()
        at_rate = watch.sample(len(latencies)).per_operation / 1000
        await load.leave()
    return closed, at_rate, latencies
