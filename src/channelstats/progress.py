"""How far a long run is, on a terminal.

Rule: only a terminal gets a bar; a file or a pipe gets nothing that would have to be overwritten.
"""

import shutil
from typing import Final, TextIO

from channelstats.reports.words import duration_text, width
from tablestore import Clock

_BAR: Final = 24
_CLEAR: Final = "\r\x1b[K"


class Progress:
    """A line that is overwritten; ``clock`` is in seconds."""

    def __init__(self, stream: TextIO, clock: Clock, *, quiet: bool) -> None:
        self._stream, self._clock = stream, clock
        self._shown = stream.isatty() and not quiet
        self._begun, self._before = clock(), 0

    def start(self, done: int) -> None:
        """The work begins now; so many were done before."""
        self._before, self._begun = done, self._clock()

    def show(self, done: int, total: int, what: str) -> None:
        """So many of all are done; ``what`` is being done. A total of 0 is not known yet."""
        if total:
            self._write(f"{_bar(done, total)} {done:,}/{total:,} {self._left(done, total)}  {what}")
        else:
            self._write(f"{done:,}  {what}" if done else what)

    def show_bytes(self, done: int, total: int, what: str) -> None:
        """So many bytes of all are done."""
        share = f"{100 * done // max(total, 1)}% of {_megabytes(total)}"
        self._write(f"{_bar(done, total)} {share} {self._left(done, total)}  {what}")

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _write(self, line: str) -> None:
        if not self._shown:
            return
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


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.0f} MB" if number >= 1e7 else f"{number / 1e6:.1f} MB"
