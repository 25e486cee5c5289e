"""The one clock: wall time in seconds since the epoch, injected wherever time decides something."""

from collections.abc import Callable
from typing import Final

Clock = Callable[[], float]
"""Returns seconds since the epoch. Tests pass their own."""

AFTER_BOUNDARY: Final = 0.001
"""Seconds past a boundary at which the loop wakes: libuv rounds to milliseconds, so it may wake
that much too soon, find nothing due and wake again and again."""


def until_next(interval: float, now: float) -> float:
    """Seconds from `now`, of the monotonic clock, to its next multiple of `interval`.

    For what a worker does again and again: an idle one wakes up once for all that is due then, and
    waking up costs more than most of it.
    """
    return interval - now % interval + AFTER_BOUNDARY
