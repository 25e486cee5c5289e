"""Processes that write to the embedded store at once: all to one file, or each to its own part.

One process alone, the others on one file and on parts are measured in turn.
"""

import asyncio
import json
import statistics
import subprocess
import sys
from typing import NamedTuple

from bench.ledger import MismatchError
from bench.report import Row
from bench.run import Run
from bench.server import make_folder, remove_folder, spawn
from keytables.sqlite import divide_store

MOST_RATIO = 1.25
_CLIENTS = (32, 2)
"""Writes of each process that wait for their commit at a time."""


class Case(NamedTuple):
    writers: int
    parts: int
    clients: int


class Spent(NamedTuple):
    """CPU time of all processes per write, in ns, and writes per second."""

    cpu: float
    rate: float


async def store_writers(run: Run) -> list[Row]:
    layouts = [(1, 1), *((many, parts) for many in run.sizes.writers for parts in (1, many))]
    cases = [Case(*layout, clients) for clients in _CLIENTS for layout in layouts]
    found: dict[Case, list[Spent]] = {case: [] for case in cases}
    with run.on_all_cores():
        for _ in range(run.sizes.rounds):
            for case in cases:
                found[case].append(await asyncio.to_thread(_write, run, *case))
    return [_row(case, found[case], found[Case(1, 1, case.clients)]) for case in cases]


def _write(run: Run, writers: int, parts: int, clients: int) -> Spent:
    folder = make_folder(run.data_root)
    operations = run.sizes.stored // (1 if clients > 2 else 4)
    processes = []
    try:
        path = folder / "store.sqlite"
        divide_store(path, parts)
        for index in range(writers):
            command = [sys.executable, "-m", "bench.store_writer", str(path), str(index)]
            command += [str(writers), str(clients), str(operations)]
            pipe = subprocess.PIPE
            processes.append(spawn(command, run.cores.all, stdin=pipe, stdout=pipe))
        for process in processes:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise MismatchError("a writer did not start")
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        answers = [process.communicate(timeout=run.sizes.limit)[0] for process in processes]
        if any(process.returncode for process in processes):
            raise MismatchError("a writer failed")
        spent = [json.loads(answer) for answer in answers]
        cpu = sum(each["cpu"] for each in spent) / (writers * operations)
        return Spent(cpu, writers * operations * 1e9 / max(each["wall"] for each in spent))
    finally:
        for process in processes:
            process.kill()
        remove_folder(folder)


def _row(case: Case, rounds: list[Spent], alone: list[Spent]) -> Row:
    writers, parts, clients = case
    ratio = statistics.median(each.cpu / one.cpu for each, one in zip(rounds, alone, strict=True))
    us = statistics.median(each.cpu for each in rounds) / 1000
    rate = statistics.median(each.rate for each in rounds)
    where = "one file" if parts == 1 else f"{parts} parts"
    name = "1 process" if writers == 1 else f"{writers} processes"
    aim = f"≤ {MOST_RATIO:g} of one process" if parts > 1 else ""
    return Row(
        f"store writes, {clients} at a time, {name}, {where}",
        f"{us:.1f} µs",
        "",
        aim,
        ratio <= MOST_RATIO or parts == 1,
        rate=f"{rate:,.0f}/s",
        note="" if writers == 1 else f"{ratio:.2f} of one process",
        values={
            "cpu_us_per_operation": us,
            "ratio": ratio,
            "operations_per_second": rate,
            "rounds": [list(each) for each in rounds],
        },
    )
