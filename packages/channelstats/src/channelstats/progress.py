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
        if not self._is_due(done, total):
            return
        if total:
            self._write(f"{_bar(done, total)} {done:,}/{total:,} {self._left(done, total)}  {what}")
        else:
            self._write(f"{done:,}  {what}" if done else what)

    def show_bytes(self, done: int, total: int, what: str) -> None:
        """So many bytes of all are done."""
        if not self._is_due(done, total):
            return
        share = f"{100 * done // max(total, 1)}% of {megabytes(total)}"
        self._write(f"{_bar(done, total)} {share} {self._left(done, total)}  {what}")

    def end(self) -> None:
        """Take the line away."""
        self._drawn = None
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _is_due(self, done: int, total: int) -> bool:
        """Whether to draw now: the line that stays longest is that of the end."""
        if not self._shown:
            return False
        now = self._clock()
        # A clock that was set back is no reason to wait.
        soon = self._drawn is not None and 0 <= now - self._drawn < _PAUSE
        if soon and not 0 < total <= done:
            return False
        self._drawn = now
        return True

    def _write(self, line: str) -> None:
        room = shutil.get_terminal_size().columns - 1
        while width(line) > room:
            line = line[:-1]
        self._stream.write(_CLEAR + line)
        self._stream.flush()

    def _left(self, done: int, total: int) -> str:
        """How long the rest will take if it goes on as it went."""
        here = done - self._before
        if here <= 0 or done >= total:
            return ""
        spent = self._clock() - self._begun
        return f"{duration_text(int(spent * (total - done) / here))} left"


def _bar(done: int, total: int) -> str:
    filled = _BAR * done // max(total, 1)
    return "█" * filled + "░" * (_BAR - filled)


def megabytes(number: int) -> str:
    return f"{number / 1e6:,.0f} MB" if number >= 1e7 else f"{number / 1e6:.1f} MB"
