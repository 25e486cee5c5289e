"""What operators have changed: one line of JSON each in a file of the data folder, and in the log.

Rule: the line is written before the change, which does not happen if it cannot be. No line holds a
token, an endpoint URL or a message; a UAID is shown as in logs.
"""

import os
import pwd
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import orjson

from autopush.clock import Clock
from autopush.settings import StartupError
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
        is_new = not self._path.exists()
        descriptor = os.open(self._path, flags, 0o600)
        try:
            if is_new and os.geteuid() == 0:  # the service runs as the owner of the folder
                owner = self._path.parent.stat()
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
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


def note_command(data: Path, action: str, /, **fields: object) -> None:
    """Before a change by a command.

    :raises StartupError: the line cannot be written; nothing is to be changed
    """
    if not data.is_dir():
        where = f"there is no data folder {data}"
        print(f"not in the audit log: {where}", file=sys.stderr, flush=True)
        return
    try:
        AuditLog(data, time.time).add(action, by="", **fields)
    except OSError as error:
        raise StartupError(
            f"data: nothing was changed: {data / AUDIT_FILE} cannot be written ({error.strerror})"
        ) from None


def _user() -> str:
    try:
        return f"user {pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"user {os.getuid()}"
