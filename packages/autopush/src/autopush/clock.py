"""The one clock: wall time in seconds since the epoch, injected wherever time decides something."""

from collections.abc import Callable

Clock = Callable[[], float]
"""Returns seconds since the epoch. Tests pass their own."""
