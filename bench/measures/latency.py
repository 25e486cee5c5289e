"""How long a push takes from POST to user agent at half of the load that saturates the server."""

import statistics

from bench.ledger import TimedLedger
from bench.load import Load
from bench.report import Row, percentile
from bench.run import Run


async def latency(run: Run, *, mode: str, most_ms: float) -> list[Row]:
    sizes = run.sizes
    async with run.server(mode) as server:
        load = await Load.on(server, TimedLedger())
        await load.pushes(run, sizes.warm_up)
        full = [(await load.pushes(run, sizes.pushes)).rate for _ in range(sizes.rounds)]
        rate = statistics.median(full) / 2
        rounds: list[list[float]] = []
        late: list[float] = []
        for _ in range(sizes.rounds):
            traffic = await load.at_rate(run, rate)
            late.append(percentile(traffic.lateness(), 99))
            rounds.append(traffic.latencies())
        await load.leave()
    p99s = [percentile(each, 99) for each in rounds]
    p99 = statistics.median(p99s)
    everything = sorted(value for each in rounds for value in each)
    return [
        Row(
            f"p99 POST to client, half load, {mode}",
            f"{p99:.2f} ms",
            "",
            f"≤ {most_ms:g} ms",
            True if p99 <= most_ms else None if max(late) > most_ms / 2 else False,
            rate=f"{rate:,.0f}/s",
            note=(
                f"p50 {percentile(everything, 50):.2f}, p99.9 {percentile(everything, 99.9):.2f},"
                f" rounds {', '.join(f'{value:.2f}' for value in p99s)};"
                f" of p99 up to {max(late):.2f} is the load's own"
            ),
            values={
                "p50_ms": percentile(everything, 50),
                "p99_ms": p99,
                "p99_ms_rounds": [*p99s],
                "p999_ms": percentile(everything, 99.9),
                "load_late_p99_ms": max(late),
                "max_ms": everything[-1],
                "pushes_per_second": rate,
            },
        )
    ]
