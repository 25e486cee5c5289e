"""Faults of a service with several workers and of its machine: a disk that fails or is full, a
clock that was set, kills and stops; at random from a seed, all at once.

Each kind of fault comes again and again by itself, so that any of them overlap. Workers and the
service are killed and started one at a time, as a supervisor or an operator does.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from mmap import mmap
from pathlib import Path

from support.injected.sitecustomize import CLOCK, CONTROL, FAULT, OPERATIONS
from support.load_ledger import Fault, LoadLedger
from support.service import Service
from support.small_disk import fill

_INJECTED = Path(__file__).with_name("injected")


class MachineFaults:
    """`folder` must not be on a disk that a test fills. All processes with `variables` have these
    faults.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "faults"
        path.write_bytes(bytes(CLOCK.size + FAULT.size * len(OPERATIONS)))
        self._log = Path(f"{path}-injected")
        self._log.touch()
        with path.open("r+b") as file:
            self._control = mmap(file.fileno(), 0)
        others = os.environ.get("PYTHONPATH", "")
        self.variables = {
            CONTROL: str(path),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(_INJECTED), others))),
        }

    def fail(self, operation: str, number: int, chance: float = 1.0) -> None:
        """Have calls of that operation fail with that errno; 0 for none."""
        at = CLOCK.size + FAULT.size * OPERATIONS.index(operation)
        FAULT.pack_into(self._control, at, number, round(1000 * chance))

    @property
    def clock_offset(self) -> float:
        """Seconds by which the wall clock is ahead."""
        offset: float = CLOCK.unpack_from(self._control)[0]
        return offset

    @clock_offset.setter
    def clock_offset(self, seconds: float) -> None:
        CLOCK.pack_into(self._control, 0, seconds)

    def heal(self) -> None:
        """The disk works again, and the clock is right."""
        for operation in OPERATIONS:
            self.fail(operation, 0)
        self.clock_offset = 0.0

    @property
    def injected(self) -> Counter[str]:
        """How many calls have failed, by operation and name of the errno."""
        calls = self._log.read_bytes()
        return Counter(
            f"{OPERATIONS[operation]} {errno.errorcode[number]}"
            for operation, number in zip(calls[::2], calls[1::2], strict=True)
        )


WATCHDOG = 2.0
"""Seconds after which a stopped worker is killed, in these tests."""
DISK_ERRORS = (errno.EIO, errno.ENOSPC)
COMMITTING = ("write log", "sync log")
"""What every commit does: calls of the others are rare."""
AHEAD, BEHIND = 6 * 86_400, -3600
"""Seconds by which the clock is set; messages that must arrive live for longer."""
START_ATTEMPTS = 20
Act = Callable[[float], Awaitable[None]]


class ServiceChaos:
    """`disk`: the small disk of the data folder."""

    def __init__(
        self,
        service: Service,
        machine: MachineFaults,
        ledger: LoadLedger,
        seed: int,
        *,
        disk: Path | None = None,
    ) -> None:
        self._service = service
        self._machine = machine
        self._ledger = ledger
        self._dice = random.Random(seed)
        self._disk = disk
        self._failing = itertools.cycle(
            self._dice.choice(each) for each in (COMMITTING, OPERATIONS) * 50
        )
        self._process = asyncio.Lock()
        self._is_alone = not service.workers
        """Whether the service has one worker, which is its only process."""
        self.failed_starts: list[str] = []
        """What the service said that could not be started at once."""
        # How long a fault lasts, and how long after it the next one comes: at most, in seconds.
        self._kinds: dict[str, tuple[Act, float, float]] = {
            "worker killed": (self._kill_worker, 0.1, 4),
            "worker stopped": (self._stop_worker, 1.5, 5),
            "worker frozen": (self._freeze_worker, 0.1, 12),
            "service killed": (self._kill_service, 1, 20),
            "service restarted": (self._restart_service, 0.1, 25),
            "clock ahead": (self._set_ahead, 3, 6),
            "clock behind": (self._set_behind, 3, 6),
        }
        if self._is_alone:
            del self._kinds["worker killed"]
        if disk is not None:
            self._kinds["disk full"] = self._fill_disk, 4, 6
            self._kinds["disk errors"] = self._fail_disk, 3, 4

    async def run(self, seconds: float) -> None:
        """Returns when the last fault is over, and everything runs."""
        end = time.monotonic() + seconds
        try:
            async with asyncio.TaskGroup() as group:
                for kind in self._kinds:
                    group.create_task(self._repeat(kind, end))
        finally:
            self._machine.heal()
        if not self._service.runs:
            await self._start()

    async def _repeat(self, kind: str, end: float) -> None:
        act, longest, pause = self._kinds[kind]
        dice = random.Random(self._dice.random())
        while True:
            wait, duration = dice.uniform(0.2, pause), dice.uniform(0.1, 1) * longest
            if time.monotonic() + wait + duration > end:
                return
            await asyncio.sleep(wait)
            began = time.monotonic()
            await act(duration)
            self._ledger.faults.append(Fault(kind, began, time.monotonic()))

    # ── processes ────────────────────────────────────────────────────────────────────────────────

    @property
    def _workers(self) -> list[int]:
        if not self._service.runs:
            return []
        return [self._service.pid] if self._is_alone else self._service.workers

    def _a_worker(self) -> int | None:
        workers = self._workers
        return self._dice.choice(workers) if workers else None

    async def _kill_worker(self, _: float) -> None:
        async with self._process:
            self._signal(self._a_worker(), signal.SIGKILL)

    async def _stop_worker(self, seconds: float) -> None:
        worker = self._a_worker()
        self._signal(worker, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self._signal(worker, signal.SIGCONT)

    async def _freeze_worker(self, _: float) -> None:
        """Until the supervisor kills it, which does not watch one that is starting; one that is
        alone for as long.
        """
        async with self._process:
            worker = self._a_worker()
            for _ in range(int(10 * (WATCHDOG + 4))):
                if worker not in self._workers:
                    return
                self._signal(worker, signal.SIGSTOP)  # another fault may let it go on
                await asyncio.sleep(0.1)
            self._signal(worker, signal.SIGCONT)

    def _signal(self, worker: int | None, number: signal.Signals) -> None:
        if worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, number)

    async def _kill_service(self, seconds: float) -> None:
        async with self._process:
            await self._service.kill()
            await asyncio.sleep(seconds)
            await self._start()

    async def _restart_service(self, _: float) -> None:
        async with self._process:
            code = await self._service.stop()
            assert code == 0, "it did not stop in order"
            await self._start()

    async def _start(self) -> None:
        """As systemd does: again if it fails."""
        for _ in range(START_ATTEMPTS):
            try:
                await self._service.start()
            except RuntimeError:
                await self._service.stop()
                self.failed_starts += [line.strip() for line in self._service.output[-1:]]
                await asyncio.sleep(0.5)
            else:
                return
        raise AssertionError(f"it does not start: {self.failed_starts}")

    # ── the machine ──────────────────────────────────────────────────────────────────────────────

    async def _fill_disk(self, seconds: float) -> None:
        assert self._disk is not None
        other = await asyncio.to_thread(fill, self._disk)
        await asyncio.sleep(seconds / 2)
        await asyncio.to_thread(fill, self._disk)  # what was freed since
        await asyncio.sleep(seconds / 2)
        other.unlink()

    async def _fail_disk(self, seconds: float) -> None:
        operation, number = next(self._failing), self._dice.choice(DISK_ERRORS)
        if operation.startswith("read"):
            number = errno.EIO
        self._machine.fail(operation, number, self._dice.choice([1.0, 0.2]))
        await asyncio.sleep(seconds)
        self._machine.fail(operation, 0)

    async def _set_ahead(self, seconds: float) -> None:
        await self._set_clock(AHEAD, seconds)

    async def _set_behind(self, seconds: float) -> None:
        await self._set_clock(BEHIND, seconds)

    async def _set_clock(self, offset: float, seconds: float) -> None:
        self._machine.clock_offset = offset
        await asyncio.sleep(seconds)
        self._machine.clock_offset = 0.0
