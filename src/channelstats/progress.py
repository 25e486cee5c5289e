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
        self._begun = clock()

    def show(self, done: int, total: int, what: str) -> None:
        """So many of all are done; ``what`` is being done."""
        if not self._shown:
            return
        filled = _BAR * done // max(total, 1)
        bar = "█" * filled + "░" * (_BAR - filled)
        line = f"{bar} {done:,}/{total:,} {self._left(done, total)}  {what}"
        room = shutil.get_terminal_size().columns - 1
        while width(line) > room:
            line = line[:-1]
        self._stream.write(_CLEAR + line)
        self._stream.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def _left(self, done: int, total: int) -> str:
        """How long the rest will take if it goes on as it went."""
        if not 0 < done < total:
            return ""
        spent = self._clock() - self._begun
        return f"{duration_text(int(spent * (total - done) / done))} left"
