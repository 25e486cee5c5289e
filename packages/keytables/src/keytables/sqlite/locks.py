"""File locks between processes: a fair one among writers, one that is only tried, and one that
tells whether a store is in use.

Rule: a writer that has just released the fair lock cannot acquire it before a writer that waits.

SQLite's busy handler sleeps and retries, so an occasional writer loses against a busy one for
seconds. The fair lock is two ``flock``s, which the kernel releases when a process dies. The *turn*
is held while a transaction is open. To acquire it, a writer first locks the *queue*, until it has
the turn: a busy writer that has released the turn finds the queue locked, and has to wait.

An ``flock`` belongs to the open file, so open these after a fork, never before.
"""

import errno
import fcntl
import os
from typing import Final

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC


class FairLock:
    """The right to write to the database at ``path``. Raises OSError: no lock files."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._queue = open_lock_file(f"{path}-queue")
        try:
            self._turn = open_lock_file(f"{path}-turn")
        except OSError:
            os.close(self._queue)
            raise

    def try_acquire(self) -> bool:
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
        """Release the lock. Raises OSError when its file has to be opened again and cannot be."""
        try:
            fcntl.flock(self._turn, fcntl.LOCK_UN)
        except OSError:  # closing the file releases it in any case
            turn = open_lock_file(f"{self._path}-turn")
            os.close(self._turn)
            self._turn = turn

    def close(self) -> None:
        os.close(self._queue)
        os.close(self._turn)


class FileLock:
    """A lock on the file at ``path``, exclusive among processes and within this one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Raises OSError when the file cannot be opened."""
        if self._descriptor is not None:
            return False
        descriptor = open_lock_file(self._path)
        try:
            if _try_lock(descriptor):
                self._descriptor = descriptor
        finally:
            if self._descriptor is None:
                os.close(descriptor)
        return self._descriptor is not None

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class UsageLock:
    """Shared by all that have the store at ``path`` open, exclusive for what replaces its file.

    The lock file is empty, except from ``mark`` to ``clear_mark`` (both synced): a process that
    opens the store then knows of an interrupted replacement. Raises OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._descriptor = open_lock_file(f"{path}-open")

    def try_share(self) -> bool:
        """Acquire it shared, unless the store is being replaced."""
        return _try_lock(self._descriptor, fcntl.LOCK_SH)

    def try_exclude(self) -> bool:
        """Acquire it exclusively, unless a process has the store open."""
        return _try_lock(self._descriptor)

    def is_marked(self) -> bool:
        """Whether a replacement is under way, or was interrupted."""
        return os.fstat(self._descriptor).st_size > 0

    def mark(self) -> None:
        os.pwrite(self._descriptor, b"being replaced\n", 0)
        os.fsync(self._descriptor)

    def clear_mark(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


def open_lock_file(path: str) -> int:
    descriptor = os.open(path, _FLAGS, 0o600)
    give_to_owner_of_folder(descriptor, path)
    return descriptor


def give_to_owner_of_folder(descriptor: int, path: str) -> None:
    """What root creates belongs to the owner of the folder: the service has to open it too."""
    if os.geteuid() == 0:
        folder = os.stat(os.path.dirname(path) or ".")
        if os.fstat(descriptor).st_uid != folder.st_uid:
            os.fchown(descriptor, folder.st_uid, folder.st_gid)


def _try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True
