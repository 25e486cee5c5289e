"""One run of the suite: its sizes, the measured server, its floor.

Rule: a figure is taken between two floors and counts only if the ledger of its round balanced.
"""

import asyncio
import gc
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from bench.floor import Floor
from bench.ledger import MismatchError
from bench.machine import Cores, keep_awake
from bench.report import Sample, Series
from bench.server import Server

DATA_ROOT = "/var/tmp"
"""On a real disk, for the fsyncs."""
AGENTS = 100
POSTERS = 64


@dataclass(frozen=True)
class Sizes:
    """How much of everything. `limit` is how many seconds a round may take before it counts as
    stuck.
    """

    rounds: int = 3
    warm_up: int = 4_000
    pushes: int = 20_000
    tokens: int = 4_000
    verifications: int = 1_000
    stored: int = 10_000
    returning_users: int = 1_000
    returns: int = 3_000
    held: int = 10_000
    held_before: int = 250
    seconds_at_rate: float = 5.0
    storm: int = 100_000
    storm_pushes_per_second: int = 200
    crowd_limit: float = 600.0
    """Of a step of user agents in processes of their own, as `limit`."""
    scale: int = 200_000
    upgrade: int = 20_000
    upgrade_pushes_per_second: int = 500
    ping_interval: int = 120
    """Seconds between two pings to the user agents of `scale`."""
    workers: tuple[int, ...] = (1, 2, 4, 8)
    """Of `workers-bypass` and `workers-store-first`."""
    limit: float = 120.0


QUICK = Sizes(
    rounds=1,
    warm_up=100,
    pushes=400,
    tokens=100,
    verifications=100,
    stored=400,
    returning_users=50,
    returns=100,
    held=200,
    held_before=100,
    seconds_at_rate=1.0,
    storm=1_000,
    storm_pushes_per_second=100,
    scale=2_000,
    upgrade=300,
    upgrade_pushes_per_second=100,
    ping_interval=1,
    workers=(1, 2),
    limit=60.0,
)


class Run:
    """Given to every measure."""

    def __init__(self, command: list[str], sizes: Sizes, cores: Cores, floor: Floor) -> None:
        self.sizes = sizes
        self.cores = cores
        self.floor = floor
        self._command = command
        self._let_sleep: Callable[[], None] | None = None

    def stay_awake(self) -> None:
        self._let_sleep = keep_awake(asyncio.get_running_loop())

    @contextmanager
    def on_all_cores(self) -> Iterator[Collection[int]]:
        """For a load of several processes: this one may sleep, and none is pinned to one core."""
        if self._let_sleep is not None:
            self._let_sleep()
        os.sched_setaffinity(0, self.cores.all)
        try:
            yield self.cores.all
        finally:
            os.sched_setaffinity(0, {self.cores.load})
            if self._let_sleep is not None:
                self.stay_awake()

    @asynccontextmanager
    async def server(
        self, direct_delivery: str, flags: dict[str, str] | None = None, *, all_cores: bool = False
    ) -> AsyncIterator[Server]:
        """A started server on a fresh data folder; ended and cleared away afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="autopush-bench-", dir=DATA_ROOT))
        flags = {"--direct-delivery": direct_delivery, **(flags or {})}
        with self.on_all_cores() if all_cores else nullcontext({self.cores.server}) as cores:
            server = Server(self._command, flags, folder, cores)
            try:
                server.start()
                try:
                    yield server
                except MismatchError as wrong:
                    raise MismatchError(
                        f"{wrong}\nstderr of the server: {server.complaints()}"
                    ) from None
                server.stop()
            finally:
                server.kill()
                shutil.rmtree(folder, ignore_errors=True)

    async def floored(self, rounds: int, measure: Callable[[], Awaitable[Sample]]) -> Series:
        """Run `measure` this often, with a floor before and after each round."""
        samples = []
        before = (await self.floor.take()).total
        for _ in range(rounds):
            sample = await measure()
            after = (await self.floor.take()).total
            samples.append(replace(sample, floor_ns=(before + after) / 2))
            before = after
        return Series(samples)


class Stopwatch:
    """Reads the two clocks of a round: the server's CPU time and the wall's."""

    def __init__(self, server: Server) -> None:
        gc.collect()
        gc.disable()  # a pause of the load would look like one of the server
        self._server = server
        self._server_ns = server.cpu_ns()
        self._wall_ns = time.monotonic_ns()
        self._ended = 0

    def traffic_ended(self) -> None:
        """The last message was seen: the wall's clock stops here."""
        self._ended = time.monotonic_ns() - self._wall_ns
        gc.enable()

    def sample(self, operations: int) -> Sample:
        """To be read when the server is idle: what it does after the last answer belongs to
        the cost.
        """
        return Sample(operations, self._server.cpu_ns() - self._server_ns, self._ended)
