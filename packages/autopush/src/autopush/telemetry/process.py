"""Resource use and event loop lag of a worker, and which workers of the service are ready.

One timer samples these, publishes the metrics of the worker and sets its heartbeat.

Rule: a worker that ended, is stopped or whose event loop is stuck counts as missing within
`MISSING_AFTER` seconds, whichever worker is asked. So times are those of the monotonic clock, which
all processes of a machine share.
"""

import asyncio
import errno
import os
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final

from autopush.clock import until_next
from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter
from autopush.telemetry.metric_table import (
    LOG_LOST,
    LOOP_LAG,
    PROCESS_CPU,
    PROCESS_MAX_FILES,
    PROCESS_MEMORY,
    PROCESS_OPEN_FILES,
    WORKER_HEARTBEAT,
    WORKER_READY,
)
from autopush.telemetry.metrics import Metric, Metrics, SharedMetrics

INTERVAL: Final = 5.0
"""Seconds between two samples."""
LAG_INTERVAL: Final = 0.25
"""Seconds between measurements of the loop. Not a timer wheel: its timeouts are 0.25 s late."""
IDLE_CPU: Final = 0.005
"""Seconds of CPU time. A process that used less since the last measurement is measured again when
the metrics are published: a loop that has hardly anything to do is hardly ever late.
"""
PUBLISH_INTERVAL: Final = 1.0
"""Seconds from one copy of all metrics to the shared memory to the next."""
MISSING_AFTER: Final = 5.0
"""Seconds without a heartbeat after which a worker counts as missing."""

RESERVE: Final = 2
"""Descriptors kept for libuv: one for a connection, and its own spare one."""
REPORT_INTERVAL: Final = 60.0
"""Seconds between two log lines while no descriptor is left."""

_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE))
_PROC: Final = Path("/proc/self")

_log = logs.get(__name__)


def is_shortage(error: BaseException | None) -> bool:
    """Whether a call failed for lack of a file descriptor."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES


class DescriptorShortage:
    """Logs that no file descriptor is left, once a minute, and then frees a reserve.

    libuv accepts such connections with a spare descriptor, closes them at once and reports nothing;
    so a shortage is detected by polling, and by errors of other calls. If another thread takes the
    spare while it is free, libuv retries without a pause until it can open one: hence the reserve,
    which the poll that fails closes.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lines = RepeatLimiter(1, REPORT_INTERVAL, monotonic=monotonic)
        self._reserve: list[int] = []

    def check(self) -> bool:
        """Whether no descriptor is left; if so, log it and close the reserve."""
        try:
            while len(self._reserve) < RESERVE:
                self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            self.note(error)
            if is_shortage(error):
                self.close()
            return is_shortage(error)
        return False

    def close(self) -> None:
        while self._reserve:
            os.close(self._reserve.pop())

    def note(self, error: OSError) -> None:
        """Log the error, at most once in `REPORT_INTERVAL`."""
        count = self._lines.admit(error.errno or 0)
        if count is not None:
            _log.error(
                "No file descriptor is left: new connections are closed",
                reason=error.strerror,
                limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                **count,
            )


@dataclass(eq=False)
class ProcessMetrics:
    """`sampled`: more gauges, each with the function that returns its value."""

    metrics: Metrics
    loop: asyncio.AbstractEventLoop
    sampled: Sequence[tuple[Metric, Callable[[], float]]]
    _: KW_ONLY
    shortage: DescriptorShortage = field(default_factory=DescriptorShortage)
    monotonic: Callable[[], float] = time.monotonic
    process_time: Callable[[], float] = time.process_time

    def __post_init__(self) -> None:
        self._ready = self.metrics.gauge(WORKER_READY)
        self._heartbeat = self.metrics.gauge(WORKER_HEARTBEAT)
        self._lag = self.metrics.gauge(LOOP_LAG)
        self._cpu = self.metrics.counter(PROCESS_CPU)
        self._memory = self.metrics.gauge(PROCESS_MEMORY)
        self._open_files = self.metrics.gauge(PROCESS_OPEN_FILES)
        self._max_files = self.metrics.gauge(PROCESS_MAX_FILES)
        self._gauges = [(self.metrics.gauge(metric), value) for metric, value in self.sampled]
        self._log_lost = self.metrics.counter(LOG_LOST)
        self._log_lost_seen = logs.lost()
        self._cpu_seen = 0.0
        self._longest_lag = 0.0
        self._due = self._sample_at = self._publish_at = 0.0
        self._cpu_at_tick = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._counting: asyncio.Future[int] | None = None

    def start(self) -> None:
        """Takes the first sample at once."""
        self._sample_at = self.monotonic()
        self._sample(self.shortage.check())
        self._wait()

    def set_ready(self, is_ready: bool) -> None:
        """Publish whether this worker is ready."""
        self._ready.set(is_ready)
        self.metrics.publish()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.shortage.close()
        self.metrics.publish()

    def _wait(self) -> None:
        now, cpu = self.monotonic(), self.process_time()
        self._heartbeat.set(now)
        is_idle = cpu - self._cpu_at_tick < IDLE_CPU
        self._cpu_at_tick = cpu
        seconds = until_next(PUBLISH_INTERVAL if is_idle else LAG_INTERVAL, now)
        self._due = now + seconds
        self._timer = self.loop.call_later(seconds, self._tick)

    def _tick(self) -> None:
        now = self.monotonic()
        self._longest_lag = max(self._longest_lag, now - self._due)
        self._wait()
        if now < self._publish_at:
            return
        self._publish_at = now - now % PUBLISH_INTERVAL + PUBLISH_INTERVAL
        is_out_of_files = self.shortage.check()
        if now >= self._sample_at:
            self._sample(is_out_of_files)
        self.metrics.publish()

    def _sample(self, is_out_of_files: bool) -> None:
        self._sample_at += INTERVAL
        self._lag.set(self._longest_lag)
        self._longest_lag = 0.0
        cpu = self.process_time()
        self._cpu.add(cpu - self._cpu_seen)
        self._cpu_seen = cpu
        lost = logs.lost()
        self._log_lost.add(lost - self._log_lost_seen)
        self._log_lost_seen = lost
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._max_files.set(most)
        for gauge, value in self._gauges:
            gauge.set(value())
        if is_out_of_files:  # /proc cannot be read now, but the number is known
            self._open_files.set(most)
            return
        self._memory.set(resident_memory())
        # In a thread: with many connections an older system has a long list to make.
        if self._counting is None or self._counting.done():
            self._counting = self.loop.run_in_executor(None, open_files)
            self._counting.add_done_callback(self._counted)

    def _counted(self, counting: "asyncio.Future[int]") -> None:
        if not counting.cancelled() and counting.exception() is None:
            self._open_files.set(counting.result())


def ready_workers(shared: SharedMetrics, now: float) -> int:
    """`now` is the time of the monotonic clock."""
    heartbeats = shared.per_worker(WORKER_HEARTBEAT)
    ready = shared.per_worker(WORKER_READY)
    return sum(
        bool(is_ready) and now - heartbeat <= MISSING_AFTER
        for is_ready, heartbeat in zip(ready, heartbeats, strict=True)
    )


def resident_memory() -> int:
    """In bytes; 0 if the system is not Linux."""
    try:
        pages = int((_PROC / "statm").read_text("ascii").split()[1])
    except FileNotFoundError:
        return 0
    return pages * resource.getpagesize()


def open_files() -> int:
    """The number of open file descriptors; 0 if the system is not Linux."""
    try:
        # Linux 6.2 and newer have the number as the size; to list 15,000 takes 20 to 50 ms.
        return (_PROC / "fd").stat().st_size or len(os.listdir(_PROC / "fd")) - 1
    except FileNotFoundError:
        return 0
