"""An upgrade of a service that is pushed to: the next version takes over listeners and WebSockets.

Rule: nothing that was answered 201 is lost, and who is connected afterwards gets all messages, once
acked none again. A connection that was closed, or a push that was refused, is a missed aim.

Pushes go to all user agents in turn. Workers and load share all cores.
"""

import asyncio
import resource
import time
from dataclasses import dataclass

from bench import machine
from bench.crowd import Crowd, Result
from bench.report import Row, percentile
from bench.run import Run
from bench.server import Server

WORKERS = 2
START_LIMIT = 70.0
"""Seconds; the service gives its next version a minute."""
END_LIMIT = 120.0
"""Seconds; the service gives clients that cannot be handed over a minute (`upgrade_drain`)."""
ALMOST_ALL = 0.99
"""What counts as handed over: the rest cannot be told from other open files."""
LONGEST_PUSH_S = 1.0
"""The 99th percentile of pushes meanwhile."""


@dataclass
class _Figures:
    """In seconds."""

    before: Result
    """Pushes without an upgrade."""
    meanwhile: Result
    starting: float
    """From the signal until the next version is ready."""
    handing_over: float
    """From then on, until almost all WebSockets are there."""
    ending: float
    """From then on, until the old version has ended."""
    cpu: float
    """Of all processes of both versions, from the signal until then."""
    cpu_before: float
    """In a second without an upgrade."""


async def upgrade(run: Run) -> list[Row]:
    size = run.sizes.upgrade
    with run.on_all_cores() as cores:
        async with run.workers(WORKERS, "store-first", cores) as server:
            crowd = Crowd(server, size, run.sizes.limit, cores)
            try:
                figures = await _upgrade(run, server, crowd)
            finally:
                crowd.end()
    return _rows(run, figures)


async def _upgrade(run: Run, server: Server, crowd: Crowd) -> _Figures:
    size, seconds = run.sizes.upgrade, run.sizes.seconds_at_half_load
    rate = run.sizes.upgrade_pushes_per_second / size
    files = machine.open_files(server.workers())
    await crowd.take("subscribe")
    await server.wait_until_idle(run.sizes.limit)

    await crowd.take("begin_pushes", rate)
    began, cpu = time.monotonic(), server.cpu_ns()
    await asyncio.sleep(seconds)
    cpu_before = (server.cpu_ns() - cpu) / 1e9 / (time.monotonic() - began)
    before = await crowd.take("end_pushes")

    await crowd.take("begin_pushes", rate)
    await asyncio.sleep(seconds)
    workers, ended = server.workers(), _of_ended()
    began, cpu = time.monotonic(), server.cpu_ns()
    await server.begin_upgrade(START_LIMIT)
    ready = time.monotonic()
    ending = asyncio.ensure_future(server.finish_upgrade(END_LIMIT))
    left = files + size * (1 - ALMOST_ALL)
    while not ending.done() and machine.open_files(workers) > left:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.02)
    handed_over = time.monotonic()
    await ending
    gone = time.monotonic()
    used = server.cpu_ns() + _of_ended() - ended - cpu
    await asyncio.sleep(seconds)
    meanwhile = await crowd.take("end_pushes")

    await crowd.take("reach")
    await crowd.take("visit")
    return _Figures(
        before,
        meanwhile,
        ready - began,
        handed_over - ready,
        gone - ready,
        used / 1e9,
        cpu_before,
    )


def _of_ended() -> int:
    """CPU nanoseconds of children that have ended: of the old version, once it has."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


def _rows(run: Run, figures: _Figures) -> list[Row]:
    size, pushed, before = run.sizes.upgrade, figures.meanwhile, figures.before
    others = pushed.refused + pushed.unanswered
    in_all = figures.starting + figures.ending
    p99_s = percentile(pushed.waits, 99) / 1000
    return [
        Row(
            f"upgrade: {size:,} connected, {WORKERS} workers: closed",
            f"{pushed.closed:,}",
            "",
            "0",
            pushed.closed == 0,
            note=(
                f"{size - pushed.closed:,} handed over, {ALMOST_ALL:.0%} of them"
                f" {figures.handing_over:.2f} s after the next version was ready, for which it took"
                f" {figures.starting:.2f} s; the old one had ended after {figures.ending:.2f} s."
                f" {figures.cpu:.2f} s of CPU time in these {in_all:.2f} s, before"
                f" {figures.cpu_before:.2f} s in a second"
            ),
            values={
                "connected": size,
                "workers": WORKERS,
                "closed": pushed.closed,
                "handed_over": size - pushed.closed,
                "ready_s": figures.starting,
                "handed_over_s": figures.handing_over,
                "ended_s": figures.ending,
                "cpu_s": figures.cpu,
                "cpu_s_per_second_before": figures.cpu_before,
            },
        ),
        Row(
            f"upgrade: pushes answered other than 201, {run.sizes.upgrade_pushes_per_second}/s",
            f"{others:,}",
            "",
            "0, none lost",
            others == 0 and pushed.lost == 0,
            note=(
                f"{pushed.pushes:,} pushes, {pushed.lost:,} lost, {pushed.twice:,} delivered again;"
                f" {pushed.refused:,} answered 503, {pushed.unanswered:,} not answered"
            ),
            values={
                "pushes": pushed.pushes,
                "refused": pushed.refused,
                "unanswered": pushed.unanswered,
                "lost": pushed.lost,
                "delivered_again": pushed.twice,
            },
        ),
        Row(
            "upgrade: p99 of pushes meanwhile",
            f"{p99_s:.3f} s",
            "",
            f"≤ {LONGEST_PUSH_S:g} s",
            p99_s <= LONGEST_PUSH_S,
            note=(
                f"p50 {percentile(pushed.waits, 50):.1f} ms, longest {pushed.waits[-1] / 1000:.3f}"
                f" s; before p50 {percentile(before.waits, 50):.1f}, p99"
                f" {percentile(before.waits, 99):.1f} ms; the load itself was up to"
                f" {pushed.lateness_ms / 1000:.3f} s late"
            ),
            values={
                "p99_s": p99_s,
                "longest_s": pushed.waits[-1] / 1000,
                "before_p99_s": percentile(before.waits, 99) / 1000,
            },
        ),
    ]
