"""A push through an endpoint daemon, a link and a connection daemon over DynamoDB, whose answers
take 5 ms: `store-first` against `bypass`, measured alternately under the same load.
"""

import asyncio
import contextlib
import statistics
import subprocess
import sys
from collections.abc import Iterator

from bench.measures.daemons import Load
from bench.report import Row
from bench.run import POSTERS, Run
from bench.server import spawn

STORE_MS = 5
CONNECTION_AGE = 11.0
"""Seconds. A node looks a message up in the store that may be older than the connection, which user
agents keep for hours.
"""
LEAST_SHARE = 0.5


async def cluster(run: Run) -> list[Row]:
    """Half of the pushes of `bypass` is the aim."""
    sizes = run.sizes
    with _store(run) as first, _store(run) as second:
        async with (
            run.daemons("bypass", **{"--store": first}) as direct,
            run.daemons("store-first", **{"--store": second}) as stored,
        ):
            one, two = await Load.on(direct), await Load.on(stored)
            await asyncio.sleep(CONNECTION_AGE)
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
        run.cores.load,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        port = int(process.stdout.readline()) if process.stdout is not None else 0
        yield f"dynamodb://us-east-1?endpoint=http://127.0.0.1:{port}&connections=200"
    finally:
        process.kill()
        process.wait()
