"""Queries whose index is missing: they look at every row of a table.

The one rule: nobody waits for one but whoever asked. It runs in a thread, on a connection of its
own, one after another; both are made when the first of them comes.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import apsw

from keytables.errors import Unavailable
from keytables.sqlite.database import translate

__all__ = ["Scans"]

_T = TypeVar("_T")

_BUSY_TIMEOUT: Final = 5_000
"""Milliseconds to wait for the file to be recovered after another process died."""

_PATIENCE: Final = 0.02


class Scans:
    """Those of one process, of the file at ``path``."""

    __slots__ = ("_closed", "_connection", "_path", "_thread")

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread: ThreadPoolExecutor | None = None
        self._connection: apsw.Connection | None = None
        self._closed = False

    async def ask(self, ask: Callable[[apsw.Connection], _T], table: str) -> _T:
        """Return what ``ask`` returns; SQLite's errors become ours."""
        if self._closed:
            raise Unavailable("the store is closed")
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "keytables-scan")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._ask, ask, table)

    async def close(self) -> None:
        """End the one that runs, and let go of the file."""
        self._closed = True
        if self._thread is None:
            return
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        while not closing.done():
            # Again and again: one that has not begun in earnest does not notice.
            with contextlib.suppress(apsw.ConnectionClosedError):
                if self._connection is not None:
                    self._connection.interrupt()
            await asyncio.wait([closing], timeout=_PATIENCE)
        await closing
        self._thread.shutdown(wait=False)

    def _ask(self, ask: Callable[[apsw.Connection], _T], table: str) -> _T:
        if self._closed:
            raise Unavailable("the store is closed")
        try:
            if self._connection is None:
                self._connection = apsw.Connection(self._path, apsw.SQLITE_OPEN_READWRITE)
                self._connection.set_busy_timeout(_BUSY_TIMEOUT)
                self._connection.execute("PRAGMA query_only = ON")
            return ask(self._connection)
        except apsw.Error as error:
            raise translate(error, table) from error

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
