"""How far a long run is, on a terminal.

Rule: only a terminal gets a bar; a file or a pipe gets nothing that would have to be overwritten.
It is drawn ten times a second at the most, and whenever all is done.
"""

import shutil
from typing import Final, TextIO

from channelstats.render.words import duration_text, width
from keytables import Clock

_BAR: Final = 24
_CLEAR: Final = "\r\x1b[K"
_PAUSE: Final = 0.1
"""Seconds from one drawing to the next."""


class Progress:
    """A line that is overwritten; ``clock`` is in seconds."""

    def __init__(self, stream: TextIO, clock: Clock, *, quiet: bool) -> None:
        self._stream, self._clock = stream, clock
        self._shown = stream.isatty() and not quiet
        self._begun, self._before = clock(), 0
        self._drawn: float | None = None

    def start(self, done: int) -> None:
        """The work begins now; so many were done before."""
        self._before, self._begun = done, self._clock()
        self._drawn = None

    def show(self, done: int, total: int, what: str) -> None:
        """So many of all are done; ``what`` is being done. A total of 0 is not known yet."""
        if total:
            self._draw(done, total, f"{done:,}/{total:,}", what)
        else:
            self._draw(done, 0, f"{done:,}" if done else "", what)

    def show_bytes(self, done: int, total: int, what: str) -> None:
        """So many bytes of all are done."""
        share = f"{100 * done // max(total, 1)}% of {megabytes(total)}"
        self._draw(done, max(total, 1), share, what)

    def end(self) -> None:
        """Take the line away."""
        self._drawn = None
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _draw(self, done: int, total: int, count: str, what: str) -> None:
        """Draw, unless that was done just now: the line that stays longest is that of the end."""
        now = self._clock()
        # A clock that was set back is no reason to wait.
        is_soon = self._drawn is not None and 0 <= now - self._drawn < _PAUSE
        if not self._shown or (is_soon and not 0 < total <= done):
            return
        self._drawn = now
        line = f"{count}  {what}" if count else what
        if total:
            # As if the rest took as long as what was done.
            here, spent = done - self._before, now - self._begun
            is_known = here > 0 and done < total
            left = f"{duration_text(int(spent * (total - done) / here))} left" if is_known else ""
            line = f"{_bar(done, total)} {count} {left}  {what}"
        room = shutil.get_terminal_size().columns - 1
        while width(line) > room:
            line = line[:-1]
        self._stream.write(_CLEAR + line)
        self._stream.flush()


def _bar(done: int, total: int) -> str:
    filled = _BAR * done // total
    return "█" * filled + "░" * (_BAR - filled)


def megabytes(number: int) -> str:
    return f"{number / 1e6:,.0f} MB" if number >= 1e7 else f"{number / 1e6:.1f} MB"
