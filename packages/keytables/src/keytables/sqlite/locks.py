"""File locks between processes: a fair one among writers, and one that is only tried.

Rule: a writer that has just released the fair lock cannot acquire it before a writer that waits.

SQLite's busy handler sleeps and retries, so an occasional writer loses against a busy one for
seconds. The fair lock is two file locks. The *turn* is held while a transaction is open. To acquire
it, a writer must first hold the *queue*, which it keeps until it has the turn: a busy writer that
has released the turn finds the queue locked, and has to wait. Both are ``flock``s, which the kernel
releases when a process dies, however it dies.

An ``flock`` belongs to the open file, so open these after a fork, never before.
"""

import errno
import fcntl
import os
from typing import Final

__all__ = ["FairLock", "FileLock"]

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class FairLock:
    """The right to write to the database at ``path``.

    Raises OSError when its lock files cannot be opened.
    """

    __slots__ = ("_queue", "_turn")

    def __init__(self, path: str) -> None:
        self._queue = os.open(f"{path}-queue", _FLAGS, 0o600)
        try:
            self._turn = os.open(f"{path}-turn", _FLAGS, 0o600)
        except OSError:
            os.close(self._queue)
            raise

    def try_acquire(self) -> bool:
        """Acquire the lock if that is possible without waiting."""
        if not _try_lock(self._queue):
            return False
        try:
            return _try_lock(self._turn)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def acquire(self) -> None:
        """Wait for the lock, without a timeout. Blocks."""
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._queue, fcntl.LOCK_UN)

    def release(self) -> None:
        """Release the lock."""
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close its files."""
        os.close(self._queue)
        os.close(self._turn)


class FileLock:
    """A lock on the file at ``path``, exclusive among processes and within this one."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free. Raises OSError when the file cannot be opened."""
        if self._descriptor is not None:
            return False
        descriptor = os.open(self._path, _FLAGS, 0o600)
        try:
            if _try_lock(descriptor):
                self._descriptor = descriptor
        finally:
            if self._descriptor is None:
                os.close(descriptor)
        return self._descriptor is not None

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True
