"""The store on PostgreSQL: what an operation costs our process, against bare asyncpg; and what a
worker takes, with the database on this machine and 1 ms away, against the embedded store.
"""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

from bench.ledger import Ledger, MismatchError
from bench.load import Load
from bench.report import Row, Series
from bench.run import POSTERS, Run
from bench.server import spawn

MOST_RATIO = 1.5
LEAST_SHARE = 0.5
LEAST_RATE = 2_000
DISTANCE_MS = 1
AWAY = f"PostgreSQL {DISTANCE_MS} ms away"


async def postgres(run: Run) -> list[Row]:
    with run.on_all_cores(), _database(run) as (near, far):
        costs = await _costs(run, near)
        series = await _pushes(run, {"PostgreSQL": near, AWAY: far})
    rows = [_cost_row(name, pairs) for name, pairs in costs.items()]
    embedded = series["the embedded store"].rate
    for name, found in series.items():
        share = found.rate / embedded
        is_near = name == "PostgreSQL"
        aim = f"≥ {LEAST_SHARE:g} of the embedded store" if is_near else ""
        rows.append(
            Row(
                f"push, store-first, {POSTERS} senders, {name}",
                f"{found.microseconds:.1f} µs",
                "",
                f"≥ {LEAST_RATE:,}/s" if name == AWAY else aim,
                found.rate >= LEAST_RATE if name == AWAY else share >= LEAST_SHARE or not is_near,
                rate=f"{found.rate:,.0f}/s",
                busy=f"{found.busy:.0%}",
                note=f"{share:.2f} of the embedded store",
                values={
                    "cpu_us_per_operation": found.microseconds,
                    "operations_per_second": found.rate,
                    "share_of_embedded": share,
                    "rounds": found.as_json(),
                },
            )
        )
    return rows


@contextlib.contextmanager
def _database(run: Run) -> Iterator[tuple[str, str]]:
    """The URLs of a new database: near, and 1 ms away."""
    process = spawn(
        [sys.executable, "-m", "bench.postgres_server", str(DISTANCE_MS)],
        run.cores.all,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        environment={**os.environ, "PYTHONPATH": "tests", "TMPDIR": str(run.data_root)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        urls = process.stdout.readline().decode().split()
        if len(urls) != 2:
            raise MismatchError("PostgreSQL did not start")
        yield urls[0], urls[1]
    finally:
        process.stdin.close()
        process.wait()


async def _costs(run: Run, url: str) -> dict[str, list[list[float]]]:
    count = max(160, run.sizes.stored // 5)
    command = [sys.executable, "-m", "bench.postgres_costs", url, str(run.sizes.rounds), str(count)]
    process = spawn(command, {run.cores.server}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, complaints = await asyncio.wait_for(
            asyncio.to_thread(process.communicate), run.sizes.limit * 5
        )
    except TimeoutError:
        raise MismatchError("the clients did not end in time") from None
    finally:
        process.kill()
    if process.returncode:
        raise MismatchError(f"the clients ended with {process.returncode}: {complaints.decode()}")
    found: dict[str, list[list[float]]] = json.loads(output)
    return found


def _cost_row(name: str, pairs: list[list[float]]) -> Row:
    ratio = statistics.median(own / bare for own, bare in pairs)
    us, bare_us = (statistics.median(each) / 1000 for each in zip(*pairs, strict=True))
    return Row(
        f"PostgreSQL, {name}",
        f"{us:.1f} µs",
        "",
        f"≤ {MOST_RATIO:g} of asyncpg",
        ratio <= MOST_RATIO,
        note=f"{ratio:.2f} of asyncpg's {bare_us:,.1f} µs",
        values={
            "cpu_us_per_operation": us,
            "asyncpg_us": bare_us,
            "ratio": ratio,
            "rounds": [[*pair] for pair in pairs],
        },
    )


async def _pushes(run: Run, urls: dict[str, str]) -> dict[str, Series]:
    """Pushes to connected user agents on the embedded store and on each of these, in turn."""
    stores = {"the embedded store": ""} | {
        name: f"{url}&schema=s{number}" for number, (name, url) in enumerate(urls.items())
    }
    async with contextlib.AsyncExitStack() as stack:
        loads = {}
        for name, store in stores.items():
            server = await stack.enter_async_context(
                run.server("store-first", **{"--store": store})
            )
            loads[name] = await Load.on(server, Ledger())
            await loads[name].pushes(run, run.sizes.warm_up)
        found = {name: Series([]) for name in loads}
        for _ in range(run.sizes.rounds):
            for name, load in loads.items():
                found[name].samples.append(await load.pushes(run, run.sizes.stored))
        for load in loads.values():
            await load.leave()
    return found
