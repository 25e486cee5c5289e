"""How many user agents one machine holds, and what each costs: in the processes of the service, in
the kernel, in CPU time while nothing happens, and the wait of pushes among them.

Rule: every connection counted has said hello and registered once, has answered the pings, is alive
at the end, and some of each process of the load still get their messages.

Workers and load share all cores.
"""

import asyncio
import statistics
import time

from bench import machine
from bench.crowd import Crowd
from bench.measures.storm import LEAST_WORKERS, OF_WORKER
from bench.report import Row, percentile, row
from bench.run import Run
from bench.server import Server

RATE = 2_000.0
"""Pushes a second."""
PING_INTERVAL = 300.0
"""Seconds: what the figure of CPU time is for."""
AT_REST = 5.0
"""Seconds in which the service is watched before anybody connects."""

MOST_KIB = 2.5
MOST_OWN_MIB = 15.0
MOST_IDLE_US = 0.1
MOST_MS = 5.0


async def scale(run: Run) -> list[Row]:
    size, interval = run.sizes.scale, run.sizes.ping_interval
    flags = {
        "--workers": str(max(LEAST_WORKERS, -(-size // OF_WORKER))),
        "--auto-ping-interval": str(interval),
        "--auto-ping-timeout": "30",
    }
    async with run.server("store-first", flags, all_cores=True) as server:
        with Crowd(run, server, size, run.sizes.crowd_limit) as crowd:
            return await _hold(run, server, crowd)


async def _hold(run: Run, server: Server, crowd: Crowd) -> list[Row]:
    size, interval = run.sizes.scale, run.sizes.ping_interval
    workers = len(server.workers())
    own, at_rest = _own(server), await _cpu_per_second(server, min(AT_REST, interval))
    before, kernel = server.memory().proportional, machine.kernel_memory()
    began = time.monotonic()
    await crowd.take("subscribe")
    connecting = time.monotonic() - began
    await server.wait_until_idle(run.sizes.crowd_limit)
    after, kernel = server.memory().proportional, machine.kernel_memory() - kernel
    pinging = await _cpu_per_second(server, interval)
    await crowd.take("begin_pushes", RATE / size)
    await asyncio.sleep(run.sizes.seconds_at_rate)
    pushed = await crowd.take("end_pushes")
    own_after = _own(server)
    await crowd.take("reach")
    await crowd.take("visit")

    each = (after - before) / size / 1024
    rest = at_rest / size * 1e6
    a_ping = (pinging - at_rest) * interval / size * 1e6
    idle = rest + a_ping / PING_INTERVAL
    p99 = percentile(pushed.waits, 99)
    failed = pushed.closed + pushed.refused + pushed.unanswered
    held = (
        f"{after / size / 1024:.2f} KiB with what the workers have without connections; in the"
        f" kernel {kernel / size / 2 / 1024:.2f} KiB for one end; connect, hello and register:"
        f" {size / connecting:,.0f}/s"
    )
    owned = f"without connections; with all of them {own_after:.1f} MiB"
    at_rest_note = (
        f"with a ping every {PING_INTERVAL:.0f} s: {a_ping:.1f} µs for one, and {rest:.3f} µs/s of"
        f" the workers at rest; measured with one every {interval} s"
    )
    waited = (
        f"p50 {percentile(pushed.waits, 50):.2f} ms; the load itself was up to"
        f" {pushed.lateness_ms:.1f} ms late"
    )
    name, idle_name = f"scale: {size:,} held, {workers} workers", "CPU time of an idle connection"
    return [
        row(f"{name}: memory of each", each, "KiB", MOST_KIB, held),
        row("scale: own memory of a worker", own, "MiB", MOST_OWN_MIB, owned, 1),
        row(f"scale: {idle_name}", idle, "µs/s", MOST_IDLE_US, at_rest_note, 3),
        row(f"scale: p99 of pushes among them, {RATE:,.0f}/s", p99, "ms", MOST_MS, waited),
        row("scale: pushes refused, connections closed", failed, "", 0, "", 0),
    ]


def _own(server: Server) -> float:
    """MiB that a worker shares with no other process."""
    return statistics.median(machine.memory(pid).private for pid in server.workers()) / 2**20


async def _cpu_per_second(server: Server, seconds: float) -> float:
    await server.wait_until_idle()
    before, began = server.cpu_ns(), time.monotonic_ns()
    await asyncio.sleep(seconds)
    return (server.cpu_ns() - before) / (time.monotonic_ns() - began)
