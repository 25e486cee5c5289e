"""An upgrade of a service that is pushed to: the next version takes over listeners and WebSockets.

Rule: nothing that was answered 201 is lost, and who is connected afterwards gets all messages, once
acked none again. A connection that was closed, or a push that was refused, is a missed aim.

Pushes go to all user agents in turn. Workers and load share all cores.
"""

import asyncio
import time

from bench import machine
from bench.crowd import Crowd
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


async def upgrade(run: Run) -> list[Row]:
    with run.on_all_cores() as cores:
        async with run.server("store-first", cores, **{"--workers": str(WORKERS)}) as server:
            with Crowd(server, run.sizes.upgrade, run.sizes.limit, cores) as crowd:
                return await _upgrade(run, server, crowd)


async def _upgrade(run: Run, server: Server, crowd: Crowd) -> list[Row]:
    size, seconds = run.sizes.upgrade, run.sizes.seconds_at_rate
    rate = run.sizes.upgrade_pushes_per_second
    files = machine.open_files(server.workers())
    await crowd.take("subscribe")
    await server.wait_until_idle(run.sizes.limit)

    await crowd.take("begin_pushes", rate / size)
    await asyncio.sleep(seconds)
    before = await crowd.take("end_pushes")

    await crowd.take("begin_pushes", rate / size)
    await asyncio.sleep(seconds)
    workers = server.workers()
    began = time.monotonic()
    await server.begin_upgrade(START_LIMIT)
    ready = time.monotonic()
    ending = asyncio.ensure_future(server.finish_upgrade(END_LIMIT))
    left = files + size * (1 - ALMOST_ALL)
    while not ending.done() and machine.open_files(workers) > left:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.02)
    handed_over = time.monotonic()
    await ending
    gone = time.monotonic()
    await asyncio.sleep(seconds)
    pushed = await crowd.take("end_pushes")
    await crowd.take("reach")
    await crowd.take("visit")

    others = pushed.refused + pushed.unanswered
    p99_s = percentile(pushed.waits, 99) / 1000
    return [
        Row(
            f"upgrade: {size:,} connected, {WORKERS} workers: closed",
            f"{pushed.closed:,}",
            "0",
            pushed.closed == 0,
            note=(
                f"{size - pushed.closed:,} handed over, {ALMOST_ALL:.0%} of them"
                f" {handed_over - ready:.2f} s after the next version was ready, for which it took"
                f" {ready - began:.2f} s; the old one had ended after {gone - ready:.2f} s"
            ),
        ),
        Row(
            f"upgrade: pushes answered other than 201, {rate}/s",
            f"{others:,}",
            "0, none lost",
            others == 0,
            note=(
                f"{pushed.pushes:,} pushes, {pushed.twice:,} delivered again;"
                f" {pushed.refused:,} answered 503, {pushed.unanswered:,} not answered"
            ),
        ),
        Row(
            "upgrade: p99 of pushes meanwhile",
            f"{p99_s:.3f} s",
            f"≤ {LONGEST_PUSH_S:g} s",
            p99_s <= LONGEST_PUSH_S,
            note=(
                f"p50 {percentile(pushed.waits, 50):.1f} ms, longest {pushed.waits[-1] / 1000:.3f}"
                f" s; before p50 {percentile(before.waits, 50):.1f}, p99"
                f" {percentile(before.waits, 99):.1f} ms; the load itself was up to"
                f" {pushed.lateness_ms / 1000:.3f} s late"
            ),
        ),
    ]
