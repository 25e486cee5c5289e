"""Detects that the wall clock was set, by comparing it with the steady clock.

Code that deletes by age asks first: a clock that is set forward by a month for a minute would
otherwise have a month's items deleted. A new difference is trusted once it has stayed the same for
a while. A clock that was wrong at the first comparison is trusted too, so the processes of a
service share one first comparison: a process that restarts while the clock is wrong detects it.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from keytables.engine import Clock

MAX_JUMP: Final = 60.0
"""Seconds by which the clocks may come to disagree."""

MAX_DRIFT: Final = 0.0005
"""Seconds by which a clock that is being corrected may gain or lose in a second (as ntpd does)."""

BELIEVED_AFTER: Final = 3600.0
"""Seconds for which a new difference must stay the same to be believed."""


def steady_clock() -> float:
    """Seconds of a clock that cannot be set; suspended time counts where the platform knows it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Both clocks at one time, in seconds. ``steady`` counts from the start of the machine, so a
    reading means something to all processes of one machine, and to none of another.
    """

    wall: float
    steady: float


def read_clocks(clock: Clock, steady: Callable[[], float] = steady_clock) -> ClockReading:
    return ClockReading(clock(), steady())


class ClockGuard:
    """Compares ``clock`` with ``steady`` since ``first``, or since it was created.

    ``max_jump``, ``believed_after``: seconds, as ``MAX_JUMP`` and ``BELIEVED_AFTER``.
    """

    def __init__(
        self,
        clock: Clock,
        steady: Callable[[], float] = steady_clock,
        *,
        first: ClockReading | None = None,
        max_jump: float = MAX_JUMP,
        believed_after: float = BELIEVED_AFTER,
    ) -> None:
        self._clock, self._steady = clock, steady
        self._max_jump, self._believed_after = max_jump, believed_after
        first = first or read_clocks(clock, steady)
        self._checked_at = first.steady
        self._difference = first.wall - first.steady
        self._new_difference: float | None = None
        self._since = 0.0

    def jump(self) -> float:
        """Return the seconds by which the wall clock was set; 0.0: not at all, or trusted now."""
        now = self._steady()
        difference = self._clock() - now
        drift = MAX_DRIFT * (now - self._checked_at)
        self._checked_at = now
        jump = difference - self._difference
        if abs(jump) <= self._max_jump + drift:
            # What was gained slowly is no jump, however much it becomes in a year.
            self._difference += max(-drift, min(drift, jump))
            self._new_difference = None
            return 0.0
        new = self._new_difference
        if new is None or abs(difference - new) > self._max_jump:
            self._new_difference, self._since = difference, now
        elif now - self._since >= self._believed_after:
            self._difference, self._new_difference = difference, None
            return 0.0
        return jump
