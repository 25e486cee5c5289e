"""Trying again: how long to wait between attempts, and when not to try at all.

The one backoff and the one circuit breaker of this repository. Both only count and compute: the
caller makes the attempts, and sleeps on its own event loop, timer or thread.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from keytables.engine import Clock


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter: the bound of a delay doubles from ``first`` to ``longest``
    seconds, and ``jitter`` is the part of it that is random.

    With 1.0, full jitter, clients that were refused together spread out best (AWS architecture
    blog, "Exponential backoff and jitter"); with 0.5 a delay is at least half its bound.
    """

    first: float
    longest: float
    jitter: float = 1.0
    random: Callable[[], float] = random.random

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after ``failures`` in a row, at least 1."""
        # The exponent is bounded, as a float is: a loop may fail for months.
        bound = min(self.first * 2.0 ** min(failures - 1, 64), self.longest)
        return bound * (1.0 - self.jitter + self.jitter * self.random())


class CircuitBreaker:
    """Keeps callers from something that fails, so that they fail at once instead of waiting.

    It is closed, and every call may begin, until ``max_failures`` calls in a row have failed. Then
    it is open for ``open_for`` seconds, in which none may. After that it is half-open: one call
    may begin, the probe. Its success closes the circuit; if it fails, or has not ended in
    ``open_for`` seconds, the next call is the next probe.

    ``now`` returns seconds and never goes back.
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
        self._opened_at = now  # for the others, until this probe has ended
        return 0.0

    def on_success(self) -> None:
        """A call has succeeded: close the circuit."""
        self.failures = 0

    def on_failure(self) -> None:
        """A call has failed: open the circuit after the last of ``max_failures``."""
        self.failures += 1
        if self.failures >= self._max_failures:
            self._opened_at = self._now()
