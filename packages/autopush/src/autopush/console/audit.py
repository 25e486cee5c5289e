"""What operators have changed: one line of JSON each in a file of the data folder, and in the log.

Rule: the line is written before the change, which does not happen if it cannot be. No line holds a
token, an endpoint URL or a message; a UAID is shown as in logs.
"""

import os
import pwd
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from autopush.clock import Clock
from autopush.telemetry import logs

AUDIT_FILE: Final = "audit.log"

_log = logs.get(__name__)


class AuditLog:
    """`data`: the data folder. `by`: who acts, where a change does not say it."""

    def __init__(self, data: Path, clock: Clock, by: str = "") -> None:
        self._path = data / AUDIT_FILE
        self._clock = clock
        self._by = by or f"command line, {_user()}"

    def add(self, action: str, /, by: str = "", **fields: object) -> None:
        """:raises OSError: it could not be written"""
        at = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
        line = {"at": at, "by": by or self._by, "action": action, **fields}
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            # One write, so that lines of several processes do not mix.
            os.write(descriptor, orjson.dumps(line) + b"\n")
        finally:
            os.close(descriptor)
        if by:  # in the service; the output of a command is no log
            _log.info("Audit", action=action, by=by, **fields)

    def lines(self) -> Iterator[dict[str, object]]:
        """Oldest first; none without a file. A line that is damaged is shown as it is.

        :raises OSError: it cannot be read
        """
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            for line in file:
                try:
                    yield dict(orjson.loads(line))
                except (ValueError, TypeError):
                    yield {"at": "", "by": "", "action": line.decode("utf-8", "replace").strip()}


def _user() -> str:
    try:
        return f"user {pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"user {os.getuid()}"
