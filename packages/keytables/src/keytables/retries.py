"""Backoff between attempts, attempts until a deadline, and a circuit breaker.

They only compute: the caller makes the attempts, and sleeps on its event loop, timer or thread.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from keytables.engine import Clock

MIN_REMAINING: Final = 0.05
"""Seconds that must be left before a deadline for another attempt."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter: the bound of a delay doubles from ``first`` to ``longest``
    seconds, and ``jitter`` is the fraction of it that is random.

    1.0, full jitter, best spreads clients that were refused together (AWS architecture blog,
    "Exponential backoff and jitter"); with 0.5 a delay is at least half its bound.
    """

    first: float
    longest: float
    jitter: float = 1.0
    random: Callable[[], float] = random.random

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after this many ``failures`` (1 or more) in a row."""
        # The exponent is bounded, as a float is: a loop may fail for months.
        bound = min(self.first * 2.0 ** min(failures - 1, 64), self.longest)
        return bound * (1.0 - self.jitter + self.jitter * self.random())


class Attempts:
    """Attempts until ``deadline``, a time of the event loop; at most ``most`` of them."""

    __slots__ = ("_backoff", "_failures", "_most", "deadline")

    def __init__(self, backoff: Backoff, deadline: float, *, most: int | None = None) -> None:
        self._backoff, self.deadline, self._most = backoff, deadline, most
        self._failures = 0

    def next_delay(self, now: float) -> float | None:
        """Count a failure, and return the seconds until the next attempt; None: there is none."""
        self._failures += 1
        if self._most is not None and self._failures >= self._most:
            return None
        delay = self._backoff.delay(self._failures)
        return None if now + delay + MIN_REMAINING > self.deadline else delay

    async def wait(self, too_late: Exception) -> None:
        """Sleep until the next attempt; raises ``too_late`` if there is no more."""
        delay = self.next_delay(asyncio.get_running_loop().time())
        if delay is None:
            raise too_late
        await asyncio.sleep(delay)


class CircuitBreaker:
    """Makes calls to what keeps failing fail at once, instead of waiting.

    Closed: calls may begin, until ``max_failures`` in a row have failed. Open: for ``open_for``
    seconds none may begin. Half-open: one may begin, the probe. Its success closes the circuit;
    when it fails, or has not ended in ``open_for`` seconds, the next call is the next probe.

    ``now``: monotonic seconds.
    """

    __slots__ = ("_max_failures", "_now", "_open_for", "_opened_at", "failures")

    def __init__(self, *, open_for: float, now: Clock, max_failures: int = 1) -> None:
        self._open_for, self._now, self._max_failures = open_for, now, max_failures
        self._opened_at = 0.0
        self.failures = 0
        """Failed calls in a row."""

    @property
    def is_open(self) -> bool:
        """Whether it is open or half-open."""
        return self.failures >= self._max_failures

    def begin_call(self) -> float:
        """Return 0.0 if a call may begin now, else the seconds until one may be the probe."""
        if self.failures < self._max_failures:
            return 0.0
        now = self._now()
        left = self._opened_at + self._open_for - now
        if left > 0.0:
            return left
        self._opened_at = now  # the others wait for this probe
        return 0.0

    def on_success(self) -> None:
        self.failures = 0

    def on_failure(self) -> None:
        self.failures += 1
        if self.failures >= self._max_failures:
            self._opened_at = self._now()
