"""Space on the disk: room for what a transaction adds, a reserve, and how much is left.

Rule: a checkpoint never needs space. SQLite writes a transaction to its log, and the file grows
when the log is copied into it; if that fails the log cannot start over, and on a full disk nothing
could be deleted any more. So the file is grown *before* a commit, or the commit is refused.

Only the log still needs space. When it cannot grow, it is copied into the file, starts over, and
takes what fits into the space it has. For a log that is still short, for the first page that a
small write adds, and for opening the store, there is the *reserve*: a file beside the store that is
truncated when the disk is full, and allocated again when there is space. It is only for small
writes: a large one is refused while the reserve is incomplete.

None of this holds where a file system needs space to overwrite a block (btrfs, ZFS).
"""

import asyncio
import contextlib
import ctypes
import errno
import math
import os
from collections.abc import Callable
from typing import Final

import apsw

from keytables.errors import StorageFull
from keytables.sqlite.locks import open_lock_file

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
"""Errors of the operating system for a lack of space (or quota)."""

CHUNK: Final = 1 << 20
"""Bytes by which the file grows, and to which a checkpoint cuts it."""

RESERVE: Final = 4 << 20
"""Bytes of the reserve."""

SMALL: Final = 512
"""Bytes of the largest write that may use the reserve."""

_LOG: Final = 1 << 20
"""Bytes of the log to allocate when the reserve is released."""

_HYSTERESIS: Final = 1.25
"""Factor of the minimum that must be free again to end "nearly full"."""

_INTERVALS: Final = ((8, 0.2), (64, 1.0), (math.inf, 5.0))
"""Seconds between two checks of free space while less than so many times the minimum is free. The
disk would have to be written faster to be full before a check on it the more is free."""


def free_space(path: str) -> int:
    """Return the bytes free for a process without privileges. Raises OSError."""
    file_system = os.statvfs(os.path.dirname(path) or ".")
    return file_system.f_bavail * file_system.f_frsize


class FileSpace:
    """The size of the file at ``path``, and its reserve; other processes manage the same files.

    Used by the opening thread, then by the writer's. ``add`` connections that write to the file.
    """

    def __init__(self, path: str) -> None:
        self._path, self._reserve = path, f"{path}-reserve"
        self._page_size = 4096

    def add(self, connection: apsw.Connection) -> None:
        """Let checkpoints of ``connection`` keep the size a multiple of ``CHUNK``."""
        size = ctypes.c_int(CHUNK)
        connection.file_control("main", apsw.SQLITE_FCNTL_CHUNK_SIZE, ctypes.addressof(size))
        self._page_size = connection.execute("PRAGMA page_size").get

    def prepare_commit(self, cursor: apsw.Cursor, is_small: Callable[[], bool]) -> None:
        """Make the file as large as the commit needs. Raises StorageFull, and errors of SQLite."""
        needed = cursor.execute("PRAGMA page_count").get * self._page_size
        size = os.stat(self._path).st_size
        if needed <= size:
            return
        target = -(-needed // CHUNK) * CHUNK
        small = is_small()
        if not small and not self.make_reserve():
            raise StorageFull("there is no space left on the disk")
        if free_space(self._path) < target - size and not (small and self.release_reserve()):
            raise StorageFull("there is no space left on the disk")
        pointer = ctypes.c_int64(target)
        connection = cursor.connection
        try:
            connection.file_control("main", apsw.SQLITE_FCNTL_SIZE_HINT, ctypes.addressof(pointer))
        except apsw.IOError as error:
            raise StorageFull(f"the file cannot grow: {error}") from error

    def make_reserve(self) -> bool:
        """Make the reserve if there is space for it; return whether it is complete."""
        try:
            if os.stat(self._reserve).st_size >= RESERVE:
                return True
        except FileNotFoundError:
            pass
        if free_space(self._path) < 2 * RESERVE:  # so that it does not come and go
            return False
        try:
            descriptor = open_lock_file(self._reserve)
            try:
                os.posix_fallocate(descriptor, 0, RESERVE)
            except OSError:
                os.ftruncate(descriptor, 0)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:  # other errors: go without a reserve
            return error.errno not in NO_SPACE
        return True

    def release_reserve(self) -> bool:
        """Free the reserve, and allocate some of it for the log. Returns whether there was one."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self._reserve, os.O_RDWR | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                os.ftruncate(descriptor, 0)
            finally:
                os.close(descriptor)
            self.extend_log()
            return size > 0
        return False

    def extend_log(self) -> None:
        """Allocate some space for the log, before others take it."""
        # SQLite takes what is behind the last frame for no frame, as it does after starting over.
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{self._path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(descriptor, 0, _LOG)
            finally:
                os.close(descriptor)


class FreeSpace:
    """Whether less than ``minimum`` bytes are free, on the disk and in the file of ``reader``.

    Deleted rows leave space in the file for the next ones. Without a minimum only ``check`` looks.
    """

    def __init__(self, space: FileSpace, path: str, reader: apsw.Connection, minimum: int) -> None:
        self._space, self._path, self._reader, self._minimum = space, path, reader, minimum
        self.is_low = False
        self._interval = 1.0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look now, and from now on at intervals."""
        if self._minimum:
            await self.look()
            self._task = asyncio.get_running_loop().create_task(self._look_often())

    async def look(self) -> None:
        """Look at what is free; after an error nothing changes, as writes fail themselves."""
        with contextlib.suppress(OSError, apsw.Error):
            free = await self._free()
            self.is_low = free < self._minimum * (_HYSTERESIS if self.is_low else 1)
            below = (seconds for most, seconds in _INTERVALS if free < self._minimum * most)
            self._interval = next(below)

    async def check(self) -> None:
        """Without a minimum: raise StorageFull if the file is full and cannot grow."""
        if not self._minimum:
            with contextlib.suppress(OSError, apsw.Error):
                if await self._free() >= CHUNK:
                    return
                raise StorageFull("there is no space left on the disk")

    async def _free(self) -> int:
        free = await asyncio.get_running_loop().run_in_executor(None, self._free_on_disk)
        pages: int = self._reader.execute("PRAGMA freelist_count").get
        page_size: int = self._reader.execute("PRAGMA page_size").get
        return free + pages * page_size

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _free_on_disk(self) -> int:
        self._space.make_reserve()
        return free_space(self._path)

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.look()
