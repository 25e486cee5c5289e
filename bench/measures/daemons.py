"""A push through an endpoint daemon, a link and a connection daemon. What is compared is measured
alternately, within the same minutes and under the same load.
"""

import asyncio
import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator

from bench.ledger import Ledger
from bench.load import Load
from bench.report import Row, Sample, Series, cost_row
from bench.run import POSTERS, Run
from bench.server import spawn

MOST_TIMES = {"bypass": 2.0, "store-first": 3.0}
STORE_MS = 5
LEAST_SHARE = 0.5


async def daemons(run: Run) -> list[Row]:
    """Against one worker that is both."""
    return [row for mode in ("bypass", "store-first") for row in await _in_mode(run, mode)]


async def _in_mode(run: Run, mode: str) -> list[Row]:
    sizes = run.sizes
    async with run.server(mode) as worker, run.daemons(mode) as pair:
        one, two = await Load.on(worker, Ledger()), await Load.on(pair, Ledger())
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


async def cluster(run: Run) -> list[Row]:
    """Over DynamoDB, whose answers take 5 ms: `store-first` against `bypass`."""
    sizes = run.sizes
    with _store(run) as first, _store(run) as second:
        async with (
            run.daemons("bypass", **{"--store": first}) as direct,
            run.daemons("store-first", **{"--store": second}) as stored,
        ):
            one, two = await Load.on(direct, Ledger()), await Load.on(stored, Ledger())
            await asyncio.sleep(run.sizes.connection_age)
            for load in (one, two):
                await load.pushes(run, sizes.warm_up)
            bypass, samples = [], []
            for _ in range(sizes.rounds):
                bypass.append(await one.pushes(run, sizes.stored))
                samples.append(await two.pushes(run, sizes.stored))
            await one.leave()
            await two.leave()
    pairs = [
        [each.operations / each.wall_ns * 1e9 for each in pair]
        for pair in zip(samples, bypass, strict=True)
    ]
    share = statistics.median(stored / direct for stored, direct in pairs)
    stored_rate, direct_rate = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    return [
        Row(
            f"push over DynamoDB, store-first, {POSTERS} senders",
            f"{stored_rate:,.0f}/s",
            "",
            f"≥ {LEAST_SHARE:g} of bypass",
            share >= LEAST_SHARE,
            note=f"{share:.2f} of bypass ({direct_rate:,.0f}/s);"
            f" {STORE_MS} ms to the store; all on one core",
            values={"share_of_bypass": share, "rounds": [[*pair] for pair in pairs]},
        )
    ]


@contextlib.contextmanager
def _store(run: Run) -> Iterator[str]:
    process = spawn(
        [sys.executable, "-m", "bench.dynamodb_store", str(STORE_MS)],
        {run.cores.load},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        port = int(process.stdout.readline()) if process.stdout is not None else 0
        yield f"dynamodb://us-east-1?endpoint=http://127.0.0.1:{port}&connections=200"
    finally:
        process.kill()
        process.wait()
