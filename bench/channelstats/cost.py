"""What one piece of work takes: seconds, CPU seconds and memory. One rule: each is done in a new
process, so that the peak of memory is its own and nothing is warm.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeAlias

from bench import machine

_MB = 1_000_000


@dataclass(frozen=True)
class Cost:
    """`peak` is the most memory the process ever had, in bytes; `size` what the work came to."""

    seconds: float
    cpu: float
    peak: int
    size: int


Work: TypeAlias = Callable[[], int]
"""What is measured; returns the size of what it made."""


def alone(prepare: Callable[..., Work], *arguments: object) -> Cost:
    """Prepare work in a new process, then do and measure it there."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measured, prepare, arguments).result()


def _measured(prepare: Callable[..., Work], arguments: Sequence[object]) -> Cost:
    work = prepare(*arguments)
    wall, cpu = time.perf_counter(), time.process_time()
    size = work()
    seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Cost(seconds, cpu, machine.memory(os.getpid()).peak, size)


def median(costs: Sequence[Cost]) -> Cost:
    """The medians; the largest peak."""
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        max(cost.peak for cost in costs),
        costs[0].size,
    )


@dataclass(frozen=True)
class Row:
    """One line of the table. ``floor`` is what the cost is a ratio to, ``aim`` what it may be."""

    what: str
    cost: Cost
    floor: Cost | None = None
    aim: float | None = None


def _table(rows: Sequence[Row]) -> str:
    """All of them. The ratio of CPU time is there for a machine that others use too."""
    lines = [_line("", "seconds", "CPU s", "ratio", "of CPU", "aim", "peak MB")]
    for row in rows:
        cost, floor = row.cost, row.floor
        lines.append(
            _line(
                row.what,
                f"{cost.seconds:.2f}",
                f"{cost.cpu:.2f}",
                f"{cost.seconds / floor.seconds:.1f}" if floor else "",
                f"{cost.cpu / floor.cpu:.1f}" if floor else "",
                f"< {row.aim:g}" if row.aim else "",
                f"{cost.peak / _MB:.0f}",
            )
        )
    return "\n".join(lines)


def _line(what: str, *figures: str) -> str:
    return f"{what:<60}" + "".join(f"{figure:>9}" for figure in figures)


def print_report(rows: Sequence[Row], rounds: int, surroundings: machine.Surroundings) -> None:
    """The table, below what it was measured on."""
    for name, value in machine.describe().items():
        print(f"  {name + ':':<12} {value}")
    print(f"\n{_table(rows)}\n")
    stolen, others = surroundings.disturbance()
    print(
        f"Medians of {rounds}. Meanwhile other processes used {others:.0%} of this machine's cores"
        f" and the host took {stolen:.0%}."
    )


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
