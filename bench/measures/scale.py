"""How many user agents one machine holds, and what each costs: in the processes of the service, in
the kernel, in CPU time while nothing happens, and as a longer wait of the pushes among them.

Rule: every connection counted has said hello and registered once, has answered the pings, is alive
at the end, and some of each process of the load still get their messages.

Workers and load share all cores.
"""

import asyncio
import statistics
import time
from dataclasses import dataclass

from bench import machine
from bench.crowd import Crowd
from bench.fleet import Fleet
from bench.ledger import TimedLedger
from bench.load import Load
from bench.report import Row, percentile
from bench.run import POSTERS, Run, Stopwatch
from bench.server import Server
from bench.storm import LEAST_WORKERS, OF_WORKER

STEADY = 2_000
"""User agents that are pushed to, before and after the others have connected."""
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


@dataclass
class _Pushes:
    latencies: list[float]
    """Milliseconds, ascending."""
    microseconds: float
    """CPU time of the service for one."""
    refused: int

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 99)

    def __str__(self) -> str:
        p50 = percentile(self.latencies, 50)
        cost = f"{self.microseconds:.0f} µs of CPU time"
        return f"p50 {p50:.2f}, p99 {self.p99:.2f} ms, {cost}, {self.refused} refused"


@dataclass
class _Figures:
    workers: int
    own: float
    """Bytes that a worker shares with no other process, before anybody connects."""
    own_after: float
    at_rest: float
    """CPU seconds in a second, before anybody connects."""
    pinging: float
    """The same of all connected, who are pinged at the interval of the run."""
    connecting: float
    """Seconds."""
    grown: int
    """Bytes of all processes, for the connections."""
    total: int
    kernel: int
    """Bytes of the kernel, for both ends of the connections."""
    alone: _Pushes
    among: _Pushes


async def scale(run: Run) -> list[Row]:
    size, interval = run.sizes.scale, run.sizes.ping_interval
    workers = max(LEAST_WORKERS, -(-size // OF_WORKER))
    pings = {"--auto-ping-interval": str(interval), "--auto-ping-timeout": "30"}
    with run.on_all_cores() as cores:
        async with run.workers(workers, "store-first", cores, **pings) as server:
            crowd = Crowd(server, size, run.sizes.storm_limit, cores)
            try:
                figures = await _hold(run, server, crowd, workers)
            finally:
                crowd.end()
    return _rows(size, interval, figures)


async def _hold(run: Run, server: Server, crowd: Crowd, workers: int) -> _Figures:
    limit = run.sizes.storm_limit
    own = _own(server)
    at_rest = await _cpu_per_second(server, AT_REST)
    fleet = Fleet(server, TimedLedger(), STEADY)
    await fleet.subscribe_all()
    alone = await _push(run, server, fleet)

    before, kernel = server.memory(), machine.kernel_memory()
    began = time.monotonic()
    await crowd.take("subscribe")
    connecting = time.monotonic() - began
    await server.wait_until_idle(limit)
    after, kernel = server.memory(), machine.kernel_memory() - kernel
    pinging = await _cpu_per_second(server, run.sizes.ping_interval)
    among = await _push(run, server, fleet)
    own_after = _own(server)
    await crowd.take("reach")
    await fleet.leave()
    await crowd.take("leave")
    return _Figures(
        workers,
        own,
        own_after,
        at_rest,
        pinging,
        connecting,
        after.proportional - before.proportional,
        after.proportional,
        kernel,
        alone,
        among,
    )


def _own(server: Server) -> float:
    return statistics.median(machine.memory(pid).private for pid in server.workers())


async def _cpu_per_second(server: Server, seconds: float) -> float:
    await server.wait_until_idle()
    before, began = server.cpu_ns(), time.monotonic_ns()
    await asyncio.sleep(seconds)
    return (server.cpu_ns() - before) / (time.monotonic_ns() - began)


async def _push(run: Run, server: Server, fleet: Fleet) -> _Pushes:
    """Over new connections: idle ones are closed after a minute."""
    load = Load(server, fleet, await fleet.posters(POSTERS), fleet.sender.token(fleet.origin))
    await load.at_rate(run, RATE, may_be_refused=True)  # caches were used for other things
    watch = Stopwatch(server)
    traffic = await load.at_rate(run, RATE, may_be_refused=True)
    watch.traffic_ended()
    latencies = traffic.latencies()
    for poster in load.posters:
        poster.close()
    microseconds = watch.sample(len(latencies)).per_operation / 1000
    return _Pushes(latencies, microseconds, traffic.refused)


def _rows(size: int, interval: int, figures: _Figures) -> list[Row]:
    each, total = figures.grown / size / 1024, figures.total / size / 1024
    kernel = figures.kernel / size / 2 / 1024
    own, own_after = figures.own / 2**20, figures.own_after / 2**20
    at_rest = figures.at_rest / size * 1e6
    a_ping = (figures.pinging - figures.at_rest) * interval / size * 1e6
    idle = at_rest + a_ping / PING_INTERVAL
    name = f"scale: {size:,} held, {figures.workers} workers"
    return [
        Row(
            f"{name}: memory of each",
            f"{each:.2f} KiB",
            "",
            f"≤ {MOST_KIB:g} KiB",
            each <= MOST_KIB,
            rate=f"{size / figures.connecting:,.0f}/s",
            note=(
                f"{total:.2f} KiB with what the workers have without connections; in the kernel"
                f" {kernel:.2f} KiB for one end. The rate: connect, hello and register"
            ),
            values={
                "held": size,
                "workers": figures.workers,
                "kib_per_connection": each,
                "kib_per_connection_in_all": total,
                "kernel_kib_per_connection": kernel,
                "connections_per_second": size / figures.connecting,
            },
        ),
        Row(
            "scale: own memory of a worker",
            f"{own:.1f} MiB",
            "",
            f"≤ {MOST_OWN_MIB:g} MiB",
            own <= MOST_OWN_MIB,
            note=f"without connections; with all of them {own_after:.1f} MiB",
            values={"own": figures.own, "own_with_connections": figures.own_after},
        ),
        Row(
            "scale: CPU time of an idle connection",
            f"{idle:.3f} µs/s",
            "",
            f"≤ {MOST_IDLE_US:g} µs/s",
            idle <= MOST_IDLE_US,
            note=(
                f"with a ping every {PING_INTERVAL:.0f} s: {a_ping:.1f} µs for one, and"
                f" {at_rest:.3f} µs/s of the workers at rest; measured with one every {interval} s"
            ),
            values={
                "us_per_second": idle,
                "us_per_ping": a_ping,
                "at_rest_us_per_second_of_worker": figures.at_rest / figures.workers * 1e6,
                "ping_interval": interval,
            },
        ),
        Row(
            f"scale: p99 of pushes among them, {RATE:,.0f}/s",
            f"{figures.among.p99:.2f} ms",
            "",
            f"≤ {MOST_MS:g} ms, none refused",
            figures.among.p99 <= MOST_MS and not figures.among.refused,
            note=f"{figures.among}; with none of them {figures.alone}",
            values={
                "p99_ms": figures.among.p99,
                "p50_ms": percentile(figures.among.latencies, 50),
                "cpu_us_per_push": figures.among.microseconds,
                "refused": figures.among.refused,
                "alone_p99_ms": figures.alone.p99,
                "alone_p50_ms": percentile(figures.alone.latencies, 50),
                "alone_cpu_us_per_push": figures.alone.microseconds,
            },
        ),
    ]
