"""Pushes that do not wait for each other's answers (open loop), timed to the microsecond.

Rule: the time of a push is drawn before the run begins, and whatever makes it late, the load or the
server, counts as latency.

Event loop timers tick in milliseconds, a tenth of which is more than a push may take; a timerfd
does not.
"""

import asyncio
import ctypes
import os
import random
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from bench.fleet import Fleet
from bench.ledger import MismatchError, TimedLedger
from bench.push_client import Poster, refusal

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


class OpenLoop:
    """Sends a push at each call of `send`, to the fleet's members round-robin, over a free poster;
    when none is free, as soon as one is. The ledger is the fleet's; `may_be_refused`: a 503 is
    counted in `refused`, and no mismatch. `reconnects`: so is the end of a connection, in
    `unanswered` if a push was under way, and another one takes its place.
    """

    def __init__(
        self,
        posters: list[Poster],
        fleet: Fleet,
        ledger: TimedLedger,
        token: bytes,
        *,
        may_be_refused: bool = False,
        reconnects: bool = False,
    ) -> None:
        self.sent = self.refused = self.unanswered = 0
        self._may_be_refused = may_be_refused
        self._reconnects = reconnects
        self._connecting: set[asyncio.Task[None]] = set()
        self._due: dict[bytes, int] = {}
        self._answer_ns: list[int] = []
        self._late_ns: list[int] = []
        self._idle = deque(posters)  # round-robin: one left idle too long would be closed
        self._queue: deque[int] = deque()
        self._posters = len(posters)
        self._all_idle: asyncio.Future[None] | None = None
        self._fleet, self._ledger, self._token = fleet, ledger, token
        for poster in posters:
            poster.answered = self._answered
            poster.lost = partial(self._lost, poster)

    def send(self, due: int) -> None:
        """`due`: monotonic nanoseconds."""
        self.sent += 1
        self._late_ns.append(time.monotonic_ns() - due)
        if self._idle:
            self._send(self._idle.popleft(), due)
        else:
            self._queue.append(due)

    def _send(self, poster: Poster, due: int) -> None:
        poster.started = due
        member = self.sent % len(self._fleet.identities)
        poster.transport.write(self._fleet.push_to(member, self._token))

    def _answered(self, poster: Poster, status: bytes, version: bytes) -> None:
        if status == b"201":
            self._due[version] = poster.started
            self._answer_ns.append(time.monotonic_ns() - poster.started)
            self._ledger.answer(version)
        elif status == b"503" and self._may_be_refused:
            self.refused += 1
        else:
            self._ledger.fail(refusal(status, version))
        if poster.is_last and self._reconnects:
            self._replace(poster)
        else:
            self._free(poster)

    def _free(self, poster: Poster) -> None:
        if self._queue:
            self._send(poster, self._queue.popleft())
            return
        self._idle.append(poster)
        if self._all_idle is not None and len(self._idle) == self._posters:
            self._all_idle.set_result(None)
            self._all_idle = None

    async def all_answered(self, limit: float) -> None:
        """Wait until each push sent is answered, or refused."""
        if len(self._idle) < self._posters:
            self._all_idle = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait_for(self._all_idle, limit)
            except TimeoutError:
                raise MismatchError(f"a push was not answered within {limit:g} s") from None

    def _lost(self, poster: Poster, reason: str) -> None:
        if not self._reconnects:
            self._ledger.fail(f"the server ended an application server's connection: {reason}")
        elif poster in self._idle:
            self._idle.remove(poster)
            self._replace(poster)
        else:
            self.unanswered += 1
            self._replace(poster)

    def _replace(self, ended: Poster) -> None:
        ended.close()
        connecting = asyncio.ensure_future(self._connect())
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    async def _connect(self) -> None:
        try:
            (poster,) = await self._fleet.posters(1)
        except OSError as refused:
            self._ledger.fail(f"an application server could not connect: {refused}")
            return
        poster.answered = self._answered
        poster.lost = partial(self._lost, poster)
        self._free(poster)

    def close(self) -> None:
        for poster in self._idle:
            poster.close()

    def latencies(self) -> list[float]:
        """Milliseconds from due to delivered, ascending, of all that were answered 201."""
        arrivals = zip(self._ledger.delivered, self._ledger.arrived_at, strict=True)
        return sorted(
            (arrived - self._due[version]) / 1e6
            for version, arrived in arrivals
            if version in self._due
        )

    def answer_times(self) -> list[float]:
        """Milliseconds from due to 201, ascending."""
        return sorted(each / 1e6 for each in self._answer_ns)

    def lateness(self) -> list[float]:
        """Milliseconds by which the load was late to send, ascending: its own part of a latency."""
        return sorted(each / 1e6 for each in self._late_ns)
