"""Turns among the writers of several processes, and the claim of one.

The one rule: a writer that has just had its turn cannot take the next one before a writer that is
already waiting.

SQLite's own busy handler sleeps and tries again, so an occasional writer loses against a busy one
for seconds. Here a turn is two file locks. The *turn* is held while a transaction is open. Whoever
wants it must hold the *queue* first, and keeps the queue until the turn is theirs: a busy writer
that has let go finds the queue taken, and has to wait. Both are ``flock``s, which the kernel lets
go when a process dies, however it dies.

A lock belongs to the open file, so open it after a fork, never before.
"""

import errno
import fcntl
import os
from typing import Final

__all__ = ["Claim", "Turns"]

_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class Turns:
    """The turn to write to one file. Raises OSError when its lock files cannot be opened."""

    __slots__ = ("_queue", "_turn")

    def __init__(self, path: str) -> None:
        self._queue = os.open(f"{path}-queue", _NEW_FILE, 0o600)
        try:
            self._turn = os.open(f"{path}-turn", _NEW_FILE, 0o600)
        except OSError:
            os.close(self._queue)
            raise

    def try_take(self) -> bool:
        """Take the turn if that needs no waiting."""
        if not _try(self._queue):
            return False
        try:
            return _try(self._turn)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def take(self) -> None:
        """Wait for the turn, without limit. For a thread."""
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def give(self) -> None:
        """End the turn."""
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of everything."""
        os.close(self._queue)
        os.close(self._turn)


class Claim:
    """What at most one has, of all processes and of all tasks of this one; nobody waits for it."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_take(self) -> bool:
        """Take it if nobody has it. Raises OSError when its lock file cannot be opened."""
        if self._descriptor is not None:
            return False
        descriptor = os.open(self._path, _NEW_FILE, 0o600)
        try:
            if _try(descriptor):
                self._descriptor = descriptor
        finally:
            if self._descriptor is None:
                os.close(descriptor)
        return self._descriptor is not None

    def give(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True
