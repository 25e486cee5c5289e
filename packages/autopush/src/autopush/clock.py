"""The one clock: wall time in seconds since the epoch, injected wherever time decides something."""

import time
from collections.abc import Callable
from typing import Final

from keytables.clock_guard import ClockReading

Clock = Callable[[], float]
"""Returns seconds since the epoch. Tests pass their own."""

AFTER_BOUNDARY: Final = 0.001
"""Seconds past a boundary at which the loop wakes: libuv rounds to milliseconds, so it may wake
that much too soon, find nothing due and wake again and again."""


MAX_DIFFERENCE: Final = 2.0
"""Seconds by which a clock may differ from the database's without being corrected."""


class ServiceClock:
    """The clock of this machine, corrected to the database's where they differ by more than
    MAX_DIFFERENCE: so the nodes of a cluster agree on when a message expires. `ahead`: seconds that
    are added.
    """

    def __init__(self, own: Clock = time.time, ahead: float = 0.0) -> None:
        self.own, self.ahead = own, ahead
        self.first_reading: ClockReading | None = None
        """At the start of the service, so that a worker that is restarted notices a clock that was
        set meanwhile.
        """

    def __call__(self) -> float:
        return self.own() + self.ahead

    def correct(self, difference: float) -> None:
        """`difference`: seconds by which the database's clock is ahead of this machine's."""
        if abs(difference) <= MAX_DIFFERENCE:
            self.ahead = 0.0
        elif abs(difference - self.ahead) > MAX_DIFFERENCE:
            self.ahead = difference


def until_next(interval: float, now: float) -> float:
    """Seconds from `now`, of the monotonic clock, to its next multiple of `interval`.

    For what a worker does again and again: an idle one wakes up once for all that is due then, and
    waking up costs more than most of it.
    """
    return interval - now % interval + AFTER_BOUNDARY
