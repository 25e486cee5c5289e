"""The storm: the server is killed and started again, and all user agents reconnect at once.

Rule: nothing that was answered 201 before, during or after is lost or delivered twice, and every
user agent is answered.

Half of the returning user agents have a message waiting, some of these because they had not acked
it when the server was killed, and every tenth registers again at once. Meanwhile pushes go on to
user agents that are connected. Workers and load share all cores.
"""

import asyncio
from dataclasses import dataclass

from bench.crowd import Crowd, Result
from bench.fleet import Fleet
from bench.ledger import TimedLedger
from bench.machine import listen_overflows
from bench.open_loop import Metronome, OpenLoop, poisson
from bench.report import Row, percentile
from bench.run import Run
from bench.server import Server

CONNECTED = 50
POSTERS = 400
"""Enough for all pushes of two seconds, so that none waits for the answer to another."""
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


@dataclass
class _Figures:
    workers: int
    subscribed: Result
    returned: Result
    waiting: int
    microseconds: float
    """CPU time of the service for each that came back, with the pushes meanwhile."""
    overflows: int
    waits: list[float]
    """Milliseconds from each push meanwhile to its user agent."""
    pushes: int
    pushes_refused: int
    lateness_ms: float
    before: int
    """Bytes of memory before the storm."""
    peak: int


async def storm(run: Run) -> list[Row]:
    size = run.sizes.storm
    workers = max(LEAST_WORKERS, -(-size // OF_WORKER))
    with run.on_all_cores() as cores:
        async with run.workers(workers, "store-first", cores) as server:
            crowd = Crowd(server, size, run.sizes.storm_limit, cores)
            try:
                figures = await _storm(run, server, crowd, workers)
            finally:
                crowd.end()
    return _rows(size, figures)


async def _storm(run: Run, server: Server, crowd: Crowd, workers: int) -> _Figures:
    limit = run.sizes.storm_limit
    ledger = TimedLedger()
    steady = Fleet(server, ledger, CONNECTED)
    subscribed = await crowd.take("subscribe")
    await steady.subscribe_all()
    await crowd.take("store")

    server.keep_ports(subscribed.endpoint)
    await crowd.take("expect_kill")
    for agent in steady.agents:
        agent.closing = True
    server.kill()
    await asyncio.gather(crowd.take("end"), *(agent.gone for agent in steady.agents))
    await asyncio.to_thread(server.start)

    await steady.reconnect_all()
    await server.wait_until_idle()
    before = server.memory().resident
    ledger.begin(0)
    posters = await steady.posters(POSTERS)
    token = steady.sender.token(steady.origin)
    traffic = OpenLoop(posters, steady, ledger, token, may_be_refused=True)
    pushing = Metronome(poisson(run.sizes.storm_pushes_per_second, limit), traffic.send)
    await asyncio.sleep(0.5)
    overflows, used = listen_overflows(), server.cpu_ns()
    returned = await crowd.take("come_back")
    overflows, used = listen_overflows() - overflows, server.cpu_ns() - used
    pushing.stop()
    await pushing.done
    await traffic.all_answered(limit)
    ledger.expect(traffic.sent - traffic.refused)
    await ledger.none_missing(limit)
    waiting = (await crowd.take("settle")).delivered
    await steady.barrier()
    await server.wait_until_idle(limit)
    waits = traffic.latencies()
    ledger.close_round(traffic.refused)
    peak = server.memory().peak

    await crowd.take("reach")
    for poster in posters:
        poster.close()
    await crowd.take("visit")
    await steady.leave()
    return _Figures(
        workers,
        subscribed,
        returned,
        waiting,
        used / len(returned.seconds) / 1000,
        overflows,
        waits,
        traffic.sent,
        traffic.refused,
        traffic.lateness()[-1],
        before,
        peak,
    )


def _rows(size: int, figures: _Figures) -> list[Row]:
    returned, waits = figures.returned, figures.waits
    seconds, registers = returned.seconds, returned.register_seconds
    at_first = figures.subscribed.registers_refused
    refused = at_first + returned.registers_refused + figures.pushes_refused
    growth = (figures.peak - figures.before) / size / 1024
    p99_s = percentile(waits, 99) / 1000
    return [
        Row(
            f"storm: {size:,} return after a kill, {figures.workers} workers",
            f"{seconds[-1]:.2f} s",
            "",
            f"≤ {MOST_SECONDS:g} s, none lost or twice",
            seconds[-1] <= MOST_SECONDS,
            rate=f"{size / seconds[-1]:,.0f}/s",
            note=(
                f"{figures.microseconds:.0f} µs of CPU time of the service for each;"
                f" p50 {percentile(seconds, 50):.2f} s, p99 {percentile(seconds, 99):.2f} s;"
                f" {figures.waiting:,} messages were waiting; {returned.turned_away:,} times turned"
                f" away, {figures.overflows:,} times by a full accept queue"
            ),
            values={
                "workers": figures.workers,
                "seconds": seconds[-1],
                "cpu_us_per_client": figures.microseconds,
                "p50_s": percentile(seconds, 50),
                "p99_s": percentile(seconds, 99),
                "messages_waiting": figures.waiting,
                "turned_away": returned.turned_away,
                "accept_queue_overflows": figures.overflows,
            },
        ),
        Row(
            "storm: p99 of pushes meanwhile",
            f"{p99_s:.3f} s",
            "",
            f"≤ {LONGEST_PUSH_S:g} s",
            p99_s <= LONGEST_PUSH_S,
            note=f"{figures.pushes:,} pushes; p50 {percentile(waits, 50):.1f} ms, longest"
            f" {waits[-1] / 1000:.3f} s; the load itself was up to"
            f" {figures.lateness_ms / 1000:.3f} s late",
            values={"p99_s": p99_s, "longest_s": waits[-1] / 1000, "pushes": figures.pushes},
        ),
        Row(
            "storm: refused",
            f"{refused:,}",
            "",
            "0 pushes and registers",
            refused == 0,
            note=f"{figures.pushes_refused:,} pushes, {returned.registers_refused:,} of"
            f" {len(registers):,} registers, which took p50 {percentile(registers, 50):.3f} s,"
            f" p99 {percentile(registers, 99):.3f} s; {at_first:,} registers as all subscribed",
            values={
                "registers_refused_at_first": at_first,
                "pushes_refused": figures.pushes_refused,
                "registers_refused": returned.registers_refused,
                "registers": len(registers),
                "register_p99_s": percentile(registers, 99),
            },
        ),
        Row(
            "storm: peak RSS per returning client",
            f"{growth:.1f} KiB",
            "",
            f"≤ {MOST_GROWTH_KIB:g} KiB",
            growth <= MOST_GROWTH_KIB,
            note=f"peak {figures.peak / 2**20:.0f} MiB, {figures.before / 2**20:.0f} MiB before",
            values={
                "kib_per_client": growth,
                "peak": figures.peak,
                "resident_before": figures.before,
            },
        ),
    ]
