"""A share: how much one callback may do for its connection in one turn of the event loop.

The rule: who has used up its share keeps the rest, stops reading its socket and goes on by
`call_soon`, that is after the other connections were looked at. So no client, whatever it sends at
once, makes the others wait longer than one share, or a single step if that takes longer.
"""

import time
from typing import Final

STEPS: Final = 32
"""Frames, requests or timers."""
SECONDS: Final = 0.0005

LARGE_READ: Final = 64 * 1024
"""A read of more bytes waits for the next turn as a whole. libuv reads a socket up to 32 times in a
row as long as it fills the buffer of 256 KiB; this ends the row."""

now = time.perf_counter  # a loop's own time stands still during a turn


class Share:
    """Made for a callback that has more than one thing to do."""

    __slots__ = ("_steps", "_until")

    def __init__(self) -> None:
        self._steps = STEPS
        self._until = now() + SECONDS

    def used_up(self) -> bool:
        """Count one step; whether it was the last of this turn."""
        self._steps -= 1
        return self._steps <= 0 or now() >= self._until
