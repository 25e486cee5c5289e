"""The store on PostgreSQL: what an operation costs our process, against bare asyncpg; what a worker
takes, with the database on this machine and 1 ms away, against the embedded store; two nodes
against one; and what a push costs the database.
"""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import asyncpg

from bench import machine
from bench.ledger import Ledger, MismatchError, named
from bench.load import Load
from bench.report import Json, Row, Series
from bench.run import POSTERS, Run
from bench.server import spawn

MOST_RATIO = 1.5
LEAST_SHARE = 0.5
LEAST_RATE = 2_000
DISTANCE_MS = 1
NEAR = "PostgreSQL"
AWAY = f"PostgreSQL {DISTANCE_MS} ms away"
TWO_NODES = "PostgreSQL, two nodes"
EMBEDDED = "the embedded store"


@dataclass(frozen=True)
class Database:
    """A new database, and two ways to it."""

    pid: int
    near: str
    away: str

    async def spent(self) -> tuple[int, int]:
        """CPU nanoseconds of its server, and bytes of its log, until now."""
        connection = await asyncpg.connect(self.near)
        try:
            log = int(await connection.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))
        finally:
            await connection.close()
        return machine.cpu_ns_with_ended(self.pid), log


async def postgres(run: Run) -> list[Row]:
    with run.on_all_cores(), _database(run) as database:
        costs = await _costs(run, database.near)
        series, spent = await _pushes(run, database)
    rows = [_cost_row(name, pairs) for name, pairs in costs.items()]
    return rows + [_push_row(name, found, series, spent) for name, found in series.items()]


def _push_row(
    name: str, found: Series, series: dict[str, Series], spent: list[tuple[float, float]]
) -> Row:
    embedded = series[EMBEDDED]
    share = found.rate / embedded.rate
    note = f"{share:.2f} of the embedded store"
    aim, is_reached = "", True
    values: dict[str, Json] = {
        "cpu_us_per_operation": found.microseconds,
        "operations_per_second": found.rate,
        "share_of_embedded": share,
        "rounds": found.as_json(),
    }
    if name == NEAR:
        aim, is_reached = f"≥ {LEAST_SHARE:g} of the embedded store", share >= LEAST_SHARE
        server_us, log = (statistics.median(each) for each in zip(*spent, strict=True))
        note += f"; the database: {server_us:.0f} µs of CPU and {log / 1000:.1f} KB of its log"
        values |= {"database_us": server_us, "log_bytes": log}
    elif name == AWAY:
        aim, is_reached = f"≥ {LEAST_RATE:,}/s", found.rate >= LEAST_RATE
    elif name == TWO_NODES:
        one = series[NEAR]
        times = found.microseconds / one.microseconds
        note = f"{times:.2f} times the CPU and {found.rate / one.rate:.2f} of the rate of one node"
        values["times_one_node"] = times
    return Row(
        f"push, store-first, {POSTERS} senders, {name}",
        f"{found.microseconds:.1f} µs",
        "",
        aim,
        is_reached,
        rate=f"{found.rate:,.0f}/s",
        busy=f"{found.busy:.0%}",
        note=note,
        values=values,
    )


@contextlib.contextmanager
def _database(run: Run) -> Iterator[Database]:
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
        yield Database(process.pid, *urls)
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


async def _pushes(
    run: Run, database: Database
) -> tuple[dict[str, Series], list[tuple[float, float]]]:
    """Pushes to connected user agents, on each store in turn; and what those on the near database
    cost its server: microseconds of CPU and bytes of its log a push.
    """
    near, away, mode = database.near, database.away, "store-first"
    spent: list[tuple[float, float]] = []
    async with contextlib.AsyncExitStack() as stack:
        loads = {}
        for name, running in {
            EMBEDDED: run.server(mode),
            NEAR: run.server(mode, **{"--store": f"{near}&schema=near"}),
            AWAY: run.server(mode, **{"--store": f"{away}&schema=away"}),
            TWO_NODES: run.daemons(mode, **{"--store": f"{near}&schema=nodes"}),
        }.items():
            with named(name):
                loads[name] = await Load.on(await stack.enter_async_context(running), Ledger())
                await loads[name].pushes(run, run.sizes.warm_up)
        found = {name: Series([]) for name in loads}
        for _ in range(run.sizes.rounds):
            for name, load in loads.items():
                before = await database.spent()
                with named(name):
                    found[name].samples.append(await load.pushes(run, run.sizes.stored))
                if name == NEAR:
                    cpu, log = (
                        now - then for now, then in zip(await database.spent(), before, strict=True)
                    )
                    spent.append((cpu / 1000 / run.sizes.stored, log / run.sizes.stored))
        for load in loads.values():
            await load.leave()
    return found, spent
