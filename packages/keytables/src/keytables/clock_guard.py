"""Detects that the wall clock was set, by comparing it with the steady clock.

Code that deletes by age asks first: a clock that is a month ahead for a minute would delete a
month's items. A new difference is trusted once it has been stable for a while. A clock that is
wrong at the first comparison is trusted too, so the processes of a service share that comparison,
and a restart does not hide a wrong clock.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from keytables.engine import Clock

MAX_JUMP: Final = 60.0
"""Seconds of difference that are tolerated."""

MAX_DRIFT: Final = 0.0005
"""Seconds per second that a clock may gain or lose while it is corrected (as by ntpd)."""

BELIEVED_AFTER: Final = 3600.0
"""Seconds for which a new difference must be stable to be trusted."""


def steady_clock() -> float:
    """Return seconds that cannot be set; suspended time counts where the platform supports it."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Both clocks at one time, in seconds. ``steady`` compares only on one machine and boot."""

    wall: float
    steady: float


def read_clocks(clock: Clock, steady: Callable[[], float] = steady_clock) -> ClockReading:
    return ClockReading(clock(), steady())


class ClockGuard:
    """Compares ``clock`` with ``steady`` since ``first``, or since its creation; in seconds."""

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
        """Return the seconds by which the wall clock jumped; 0.0: not at all, or trusted by now."""
        now = self._steady()
        difference = self._clock() - now
        drift = MAX_DRIFT * (now - self._checked_at)
        self._checked_at = now
        jump = difference - self._difference
        if abs(jump) <= self._max_jump + drift:
            # Slow drift is no jump, however much it adds up to in a year.
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
