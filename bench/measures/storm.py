"""The storm: the server is killed and started again, and all user agents reconnect at once.

Rule: nothing that was answered 201 before, during or after is lost or delivered twice, and every
user agent is answered.

Half of the returning user agents have a message waiting, some of these because they had not acked
it when the server was killed, and every tenth registers again at once. Meanwhile pushes go on to
user agents that are connected. Workers and load share all cores.
"""

import asyncio

from bench.crowd import Crowd
from bench.ledger import MismatchError
from bench.report import Row, percentile, row
from bench.run import Run
from bench.server import Server

CONNECTED = 50
OF_WORKER = 15_000
"""User agents of a worker on average: the system lets a process have only so many files."""
LEAST_WORKERS = 2
MOST_SECONDS = 20.0
LONGEST_PUSH_S = 1.0
"""The 99th percentile of pushes meanwhile."""
MOST_GROWTH_KIB = 20.0
"""Peak RSS a returning client may add: its connection and one message in every buffer on its way,
and no queue that grows.
"""


async def storm(run: Run) -> list[Row]:
    size, limit = run.sizes.storm, run.sizes.crowd_limit
    workers = str(max(LEAST_WORKERS, -(-size // OF_WORKER)))
    async with run.server("store-first", {"--workers": workers}, all_cores=True) as server:
        with (
            Crowd(run, server, size, limit) as crowd,
            Crowd(run, server, CONNECTED, limit) as steady,
        ):
            return await _storm(run, server, crowd, steady)


async def _storm(run: Run, server: Server, crowd: Crowd, steady: Crowd) -> list[Row]:
    size, both = run.sizes.storm, (crowd, steady)
    subscribed = await crowd.take("subscribe")
    await steady.take("subscribe")
    await crowd.take("store")
    server.keep_ports(subscribed.endpoint)
    await asyncio.gather(*(each.take("expect_kill") for each in both))
    server.kill()
    await asyncio.gather(*(each.take("end") for each in both))
    await asyncio.to_thread(server.start)

    await steady.take("come_back")
    await server.wait_until_idle()
    before = server.memory().resident
    await steady.take("begin_pushes", run.sizes.storm_pushes_per_second / CONNECTED)
    used = server.cpu_ns()
    returned = await crowd.take("come_back")
    used = server.cpu_ns() - used
    pushed = await steady.take("end_pushes")
    waiting = (await crowd.take("settle")).delivered
    await server.wait_until_idle(run.sizes.crowd_limit)
    peak = server.memory().peak
    for each in both:
        await each.take("reach")
        await each.take("visit")
    if pushed.closed or pushed.twice:
        raise MismatchError(f"meanwhile {pushed.closed} closed, {pushed.twice} messages twice")

    seconds, registers, waits = returned.seconds, returned.register_seconds, pushed.waits
    refused = subscribed.registers_refused + returned.registers_refused + pushed.refused
    growth = (peak - before) / size / 1024
    back = (
        f"{size / seconds[-1]:,.0f}/s, p50 {percentile(seconds, 50):.2f} s,"
        f" p99 {percentile(seconds, 99):.2f} s; {used / size / 1000:.0f} µs of CPU time of the"
        f" service for each; {waiting:,} messages were waiting, none lost or twice;"
        f" {returned.turned_away:,} times turned away"
    )
    waited = (
        f"{pushed.pushes:,} pushes; p50 {percentile(waits, 50):.1f} ms, longest"
        f" {waits[-1] / 1000:.3f} s; the load itself was up to {pushed.lateness_ms / 1000:.3f} s"
        " late"
    )
    registered = (
        f"{pushed.refused:,} pushes, {returned.registers_refused:,} of {len(registers):,} registers"
        f", which took p50 {percentile(registers, 50):.3f} s, p99 {percentile(registers, 99):.3f} s"
    )
    grown = f"peak {peak / 2**20:.0f} MiB, {before / 2**20:.0f} MiB before"
    name = f"storm: {size:,} return after a kill, {len(server.workers())} workers"
    p99_s = percentile(waits, 99) / 1000
    return [
        row(name, seconds[-1], "s", MOST_SECONDS, back),
        row("storm: p99 of pushes meanwhile", p99_s, "s", LONGEST_PUSH_S, waited, 3),
        row("storm: pushes and registers refused", refused, "", 0, registered, 0),
        row("storm: peak RSS per returning client", growth, "KiB", MOST_GROWTH_KIB, grown, 1),
    ]
