"""How far a long command is: a bar on a terminal, else a line now and then.

Rule: it goes to standard error, so that results can be piped; it never says whom it is about.
"""

import sys
import time
from typing import Final, TextIO

from autopush.clock import Clock

BAR: Final = 30
REDRAW: Final = 0.1
LINE_EVERY: Final = 10.0
"""Seconds between two lines where there is no terminal."""


def describe(done: int, total: int, seconds: float) -> str:
    """How far it is, how fast it goes, and how long it will take; `seconds` since it began."""
    total = max(done, total)
    text = f"{done:,} of {total:,}"
    if not done or seconds <= 0:
        return text
    speed = done / seconds
    return f"{text} · {speed:,.3g} a second · {_duration((total - done) / speed)} left"


def bar(done: int, total: int) -> str:
    """The bar itself."""
    filled = BAR * done // max(done, total, 1)
    return f"[{'#' * filled}{'.' * (BAR - filled)}]"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


class Progress:
    """Shows how much of `total` is done."""

    def __init__(
        self,
        total: int,
        *,
        stream: TextIO | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.done = 0
        self.total = total
        self._stream = stream or sys.stderr
        self._clock = clock
        self._bar = self._stream.isatty()
        self._began = self._shown = clock()

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        now = self._clock()
        if now - self._shown < (REDRAW if self._bar else LINE_EVERY):
            return
        self._shown = now
        text = describe(self.done, self.total, now - self._began)
        if self._bar:
            text = f"\r{bar(self.done, self.total)} {text}\x1b[K"
        self._stream.write(text if self._bar else f"{text}\n")
        self._stream.flush()

    def clear(self) -> None:
        """Make room for what is said next."""
        if self._bar:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
