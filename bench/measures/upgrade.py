"""An upgrade of a service that is pushed to: the next version takes over listeners and WebSockets.

Rule: nothing that was answered 201 is lost, and who is connected afterwards gets all messages, once
acked none again. A connection that was closed, or a push that was refused, is a missed aim.

Pushes go to all user agents in turn. Workers and load share all cores.
"""

import asyncio
import time

from bench import machine
from bench.crowd import Crowd
from bench.report import Row, percentile, row
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
    flags = {"--workers": str(WORKERS)}
    async with run.server("store-first", flags, all_cores=True) as server:
        with Crowd(run, server, run.sizes.upgrade, run.sizes.limit) as crowd:
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

    waits, others = pushed.waits, pushed.refused + pushed.unanswered
    handed = (
        f"{size - pushed.closed:,} handed over, {ALMOST_ALL:.0%} of them {handed_over - ready:.2f}"
        f" s after the next version was ready, for which it took {ready - began:.2f} s; the old one"
        f" had ended after {gone - ready:.2f} s"
    )
    answered = (
        f"{pushed.pushes:,} pushes, none lost, {pushed.twice:,} delivered again;"
        f" {pushed.refused:,} answered 503, {pushed.unanswered:,} not answered"
    )
    waited = (
        f"p50 {percentile(waits, 50):.1f} ms, longest {waits[-1] / 1000:.3f} s; before p50"
        f" {percentile(before.waits, 50):.1f}, p99 {percentile(before.waits, 99):.1f} ms; the load"
        f" itself was up to {pushed.lateness_ms / 1000:.3f} s late"
    )
    name, p99_s = f"upgrade: {size:,} connected, {WORKERS} workers", percentile(waits, 99) / 1000
    return [
        row(f"{name}: closed", pushed.closed, "", 0, handed, 0),
        row(f"upgrade: pushes answered other than 201, {rate}/s", others, "", 0, answered, 0),
        row("upgrade: p99 of pushes meanwhile", p99_s, "s", LONGEST_PUSH_S, waited, 3),
    ]
