"""Arrivals that do not wait for answers (open loop), timed to the microsecond.

Rule: the time of an arrival is drawn before the run begins, and whatever makes it late, the load or
the server, counts as latency.

Event loop timers tick in milliseconds, a tenth of which is more than a push may take; a timerfd
does not.
"""

import asyncio
import ctypes
import os
import random
import time
from collections.abc import Callable

_MONOTONIC, _NONBLOCK, _CLOEXEC, _ABSOLUTE = 1, 0o4000, 0o2000000, 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


def poisson(rate: float, seconds: float) -> list[int]:
    """Times of arrivals, nanoseconds from the start, `rate` a second on average, each independent
    of the others.
    """
    times: list[int] = []
    at = random.expovariate(rate)
    while at < seconds:
        times.append(int(at * 1e9))
        at += random.expovariate(rate)
    return times


class Metronome:
    """Calls `beat(due)` at each of the times; `due` is the monotonic nanosecond it should have
    been called at.
    """

    def __init__(self, times: list[int], beat: Callable[[int], None]) -> None:
        self._beat = beat
        self._next = 0
        self._descriptor = _libc.timerfd_create(_MONOTONIC, _NONBLOCK | _CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._tick)
        start = time.monotonic_ns() + 5_000_000
        self._due = [start + offset for offset in times]
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._arm()

    def stop(self) -> None:
        """No further arrivals."""
        del self._due[self._next :]

    def _tick(self) -> None:
        os.read(self._descriptor, 8)
        now = time.monotonic_ns()
        while self._next < len(self._due) and self._due[self._next] <= now:
            self._beat(self._due[self._next])
            self._next += 1
        self._arm()

    def _arm(self) -> None:
        if self._next == len(self._due):
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            if not self.done.done():
                self.done.set_result(None)
            return
        seconds, nanoseconds = divmod(self._due[self._next], 1_000_000_000)
        when = _Itimerspec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        if _libc.timerfd_settime(self._descriptor, _ABSOLUTE, ctypes.byref(when), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
