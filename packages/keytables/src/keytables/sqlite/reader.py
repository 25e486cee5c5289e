"""Pages of queries, read on the event loop; in a thread where a whole table has to be read.

Rule: a page holds the loop for about a millisecond at most. A query whose index is missing delays
only its caller: it runs in a thread with a connection of its own, both created on first use.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final, TypeVar, cast

import apsw

from keytables.checks import check_limit
from keytables.errors import KeytablesError, StoreClosed
from keytables.failures import FailureReports
from keytables.packing import unpack_all
from keytables.schema import Cursor, Page
from keytables.sqlite.database import translate
from keytables.sqlite.statements import Row
from keytables.values import KeyTuple

_T = TypeVar("_T")

_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 512 << 10
"""Bounds of one page, about a millisecond. Expired rows count too: a page of them is empty and has
a cursor."""

_RECOVERY_TIMEOUT: Final = 5.0
"""Seconds a read waits while another process recovers the log of a dead one."""

_INTERRUPT_INTERVAL: Final = 0.02


class Reader:
    """Reads with ``connection`` on the loop; reports each read that fails to ``failures``."""

    def __init__(self, connection: apsw.Connection, path: str, failures: FailureReports) -> None:
        self.connection, self._failures = connection, failures
        self._path = path
        self._executor: ThreadPoolExecutor | None = None
        self._thread_connection: apsw.Connection | None = None
        self._is_closed = False

    async def page(self, sql: str, values: KeyTuple, limit: int | None, table: str) -> Page:
        """Return a page of a query. Raises SchemaError, Unavailable and TableNotFound."""
        rows = _page_rows(limit)
        try:
            return _collect(self.connection, sql, values, rows)
        except (apsw.Error, KeytablesError):
            return await self.retry(lambda: _collect(self.connection, sql, values, rows), table)

    async def page_in_thread(
        self, sql: str, values: KeyTuple, limit: int | None, table: str
    ) -> Page:
        rows = _page_rows(limit)
        return await self.run_in_thread(
            lambda connection: _collect(connection, sql, values, rows), table
        )

    async def retry(self, read: Callable[[], _T], table: str) -> _T:
        """Return what ``read`` returns; errors of SQLite are translated."""
        deadline = monotonic() + _RECOVERY_TIMEOUT
        while True:
            try:
                return read()
            except KeytablesError as error:  # a damaged item
                self._failures.report(error)
                raise
            except apsw.Error as error:
                # Writers never block a reader; only the recovery of a dead process's log does.
                if isinstance(error, apsw.BusyError) and monotonic() < deadline:
                    await asyncio.sleep(0.005)
                    continue
                failure = translate(error, table)
                self._failures.report(failure)
                raise failure from error

    async def run_in_thread(self, read: Callable[[apsw.Connection], _T], table: str) -> _T:
        """Call ``read`` in the thread, one at a time; errors of SQLite are translated."""
        if self._is_closed:
            raise StoreClosed("the store is closed")
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "keytables-reader")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, self._read_in_thread, read, table)
        except KeytablesError as error:
            if not self._is_closed:  # or it was interrupted
                self._failures.report(error)
            raise

    async def close(self) -> None:
        """Interrupt the thread's read and release the file. ``connection`` stays open."""
        self._is_closed = True
        if self._executor is None:
            return
        loop = asyncio.get_running_loop()
        closing = loop.run_in_executor(self._executor, self._close_in_thread)
        while not closing.done():
            # Repeated, because a statement that has not started is not interrupted.
            with contextlib.suppress(apsw.ConnectionClosedError):
                if self._thread_connection is not None:
                    self._thread_connection.interrupt()
            await asyncio.wait([closing], timeout=_INTERRUPT_INTERVAL)
        await closing
        self._executor.shutdown(wait=False)

    def _read_in_thread(self, read: Callable[[apsw.Connection], _T], table: str) -> _T:
        if self._is_closed:
            raise StoreClosed("the store is closed")
        try:
            if self._thread_connection is None:
                connection = apsw.Connection(self._path, apsw.SQLITE_OPEN_READWRITE)
                connection.set_busy_timeout(int(_RECOVERY_TIMEOUT * 1000))
                connection.execute("PRAGMA query_only = ON")
                self._thread_connection = connection
            return read(self._thread_connection)
        except apsw.Error as error:
            raise translate(error, table) from error

    def _close_in_thread(self) -> None:
        if self._thread_connection is not None:
            self._thread_connection.close()


def _page_rows(limit: int | None) -> int:
    check_limit(limit)
    return _PAGE_ROWS if limit is None else min(limit, _PAGE_ROWS)


def _collect(connection: apsw.Connection, sql: str, values: KeyTuple, limit: int) -> Page:
    blobs: list[bytes] = []
    size = 0
    last: Row = ()
    cursor = connection.execute(sql, values)
    for examined, row in enumerate(cursor):
        blob: bytes | None = row[0]
        if examined == _PAGE_ROWS:
            break
        if blob is None:
            limit += 1
        elif examined >= limit or size >= _PAGE_BYTES:
            break
        else:
            blobs.append(blob)
            size += len(blob)
        last = row
    else:
        return Page(unpack_all(blobs), None)
    cursor.close()  # ends the read transaction
    return Page(unpack_all(blobs), Cursor(cast(KeyTuple, last[1:])))
