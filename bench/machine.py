"""What the kernel reports of a process: CPU time, memory, cores. Always of the whole process, with
all its threads (also those that have ended) and the kernel's work for it.

`/proc/PID/stat` counts in hundredths of a second and `/proc/PID/schedstat` knows only the main
thread, so CPU time is read from the process's own POSIX CPU clock (clock_getcpuclockid(3)):
nanoseconds, every thread, user and system.
"""

import asyncio
import ctypes
import fcntl
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_CPUCLOCK_SCHED = 2
_SET_CHILD_SUBREAPER = 36


def cpu_ns(pid: int) -> int:
    """CPU time used so far by the process and by its living descendants, in nanoseconds."""
    return sum(time.clock_gettime_ns((~each << 3) | _CPUCLOCK_SCHED) for each in family(pid))


def family(pid: int) -> list[int]:
    """The process and its descendants."""
    found = [pid]
    for each in found:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            for task in Path(f"/proc/{each}/task").iterdir():
                with suppress(FileNotFoundError, ProcessLookupError):  # the thread has
                    found.extend(int(child) for child in (task / "children").read_text().split())
    return found


def children(pid: int) -> set[int]:
    """Of its main thread."""
    return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def open_files(pids: Iterable[int]) -> int:
    """Of all these processes; 0 for one that has ended."""
    count = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            folder = Path(f"/proc/{pid}/fd")
            count += folder.stat().st_size or len(os.listdir(folder))  # 0 before Linux 6.2
    return count


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose parents end."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


@dataclass(frozen=True)
class Memory:
    """Bytes. `proportional`: each page divided by the number of processes that have it; `private`:
    pages that no other process has. `peak` is the high-water mark of `resident` since the process
    started.
    """

    resident: int
    proportional: int
    private: int
    peak: int


def memory(pid: int) -> Memory:
    """Memory of the process and its living descendants."""
    resident = proportional = private = peak = 0
    for each in family(pid):
        rollup = _kilobytes(Path(f"/proc/{each}/smaps_rollup").read_text())
        resident += rollup["Rss"]
        proportional += rollup["Pss"]
        private += rollup["Private_Clean"] + rollup["Private_Dirty"]
        peak += _kilobytes(Path(f"/proc/{each}/status").read_text())["VmHWM"]
    return Memory(resident, proportional, private, peak)


def kernel_memory() -> int:
    """Bytes of the kernel's objects for all processes: sockets, files, entries of epoll."""
    return _kilobytes(Path("/proc/meminfo").read_text())["Slab"]


def _kilobytes(text: str) -> dict[str, int]:
    lines = (line.partition(":") for line in text.splitlines() if line.endswith(" kB"))
    return {name: int(rest[:-3]) * 1024 for name, _, rest in lines}


@dataclass(frozen=True)
class Cores:
    """The core the measured process is pinned to, and the one the load runs on."""

    server: int
    load: int
    all: frozenset[int]


def choose_cores() -> Cores:
    """The last allowed core for the server, the first for the load."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(server=allowed[-1], load=allowed[0], all=frozenset(allowed))


class Surroundings:
    """What other processes use of this machine while a suite runs; created at its start."""

    def __init__(self) -> None:
        self._before = _ticks()
        self._ours = _own_seconds()

    def disturbance(self) -> tuple[float, float]:
        """Shares of all cores' time: taken by the hypervisor, used by processes that are not ours.

        To be asked when every child has ended, for only then is its time known to be ours.
        """
        spent = [now - then for now, then in zip(_ticks(), self._before, strict=True)]
        total = max(1, sum(spent))
        user, nice, system, _idle, _iowait, irq, softirq, stolen = spent
        ours = (_own_seconds() - self._ours) * os.sysconf("SC_CLK_TCK")
        others = max(0.0, user + nice + system + irq + softirq - ours)
        return stolen / total, others / total


def _ticks() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal of /proc/stat, over all cores."""
    line = Path("/proc/stat").read_text().split("\n", 1)[0]
    return [int(part) for part in line.split()[1:9]]


def _own_seconds() -> float:
    """CPU time of this process and of all children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@contextmanager
def exclusive() -> Iterator[None]:
    """Waits until no other run of the suite is active on this machine: two would measure each
    other.
    """
    with (Path(tempfile.gettempdir()) / "autopush-bench.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another run of the suite to end …", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def allow_files(count: int) -> None:
    """Raise this process's limit of open files, which its children inherit, as far as it may go.

    Raises `OSError` when that is less than `count`.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most < count:
        raise OSError(f"{count:,} open files are needed, {most:,} are allowed (ulimit -Hn)")


def describe() -> dict[str, str]:
    """The machine in a few words, for the head of a report."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else "unknown",
        "cores": str(os.cpu_count()),
        "kernel": platform.release(),
        "python": sys.version.split()[0],
    }


def keep_awake(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """Let the loop never sleep until the returned function is called. Waking a sleeping process
    costs its sender several microseconds, which a client on another machine would not; the floor is
    measured the same way.
    """
    handle: asyncio.Handle

    def turn() -> None:
        nonlocal handle
        handle = loop.call_soon(turn)

    def stop() -> None:
        handle.cancel()  # the latest one

    turn()
    return stop
