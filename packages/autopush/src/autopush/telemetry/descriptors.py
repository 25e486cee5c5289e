"""What a process does that has no file descriptor left: it logs that, and frees a reserve.

libuv then accepts connections with a descriptor that it keeps for this, closes them at once and
reports nothing. So it is found by a look, and by the errors of what else needs a descriptor.

Should another thread take libuv's descriptor in the moment that it is free, libuv tries to accept
without a pause, until it can open one for a new connection. So two are kept here, one for the
connection and one for libuv, and are closed by the look that finds none left.
"""

import errno
import os
import resource
import time
from collections.abc import Callable
from typing import Final

from autopush.telemetry import logs
from autopush.telemetry.logs import RepeatLimiter

RESERVE: Final = 2
"""Descriptors kept for libuv."""

REPORT_INTERVAL: Final = 60.0
"""Seconds between two lines while it lasts."""

_SHORTAGES: Final = frozenset((errno.EMFILE, errno.ENFILE))

_log = logs.get(__name__)


def is_shortage(error: BaseException | None) -> bool:
    """Whether that is what a call fails with when no descriptor is left."""
    return isinstance(error, OSError) and error.errno in _SHORTAGES


class DescriptorShortage:
    """Logs one line at the first sign of a shortage and one a minute while it lasts; keeps two
    descriptors for libuv, which a look that finds none left closes.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lines = RepeatLimiter(1, REPORT_INTERVAL, monotonic=monotonic)
        self._reserve: list[int] = []

    def look(self) -> bool:
        """Whether no descriptor is left; logs it and closes the reserve."""
        try:
            while len(self._reserve) < RESERVE:
                self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            self.note(error)
            if is_shortage(error):
                self.close()
            return is_shortage(error)
        return False

    def close(self) -> None:
        """Close the reserve."""
        while self._reserve:
            os.close(self._reserve.pop())

    def note(self, error: OSError) -> None:
        """Log that a call failed with that error, unless a line has said so."""
        count = self._lines.admit(error.errno or 0)
        if count is not None:
            _log.error(
                "No file descriptor is left: new connections are closed",
                reason=error.strerror,
                limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
                **count,
            )
