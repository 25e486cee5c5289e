"""The embedded engine: opens a file, creates, opens and drops its tables.

Rule: the catalog in the file decides about its tables; a declaration that differs is refused.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, Self, TypeVar

import apsw

from keytables.clock_guard import ClockGuard, ClockReading
from keytables.engine import Clock, Engine, OnFailure, TableHandle
from keytables.errors import KeytablesError
from keytables.failures import FailureReports
from keytables.schema import Capacity, Table
from keytables.sqlite import catalog
from keytables.sqlite.database import Database, Part, StoreLocked, failure_reports, translate
from keytables.sqlite.reader import Reader
from keytables.sqlite.space import FreeSpace
from keytables.sqlite.sweeper import SWEEP_ROWS, SWEEP_WRITES, ExpiredItems
from keytables.sqlite.table import Indexes, SqliteTable
from keytables.sqlite.write_queue import RunFunction
from keytables.sqlite.writer import Writer
from keytables.sweeper import Sweeper

_T = TypeVar("_T")

OPENING_TIMEOUT: Final = 60.0
"""Seconds to wait for another program that has the file locked: longer than its backup takes."""

_OPENING_INTERVAL: Final = 0.1
"""Seconds between two attempts."""


class SqliteEngine(Engine):
    """Tables in one SQLite file, which several processes may use at once.

    Belongs to the event loop it was opened on. Beside the file are ``-wal`` and ``-shm``, the lock
    files ``-queue``, ``-turn``, ``-open`` and, after a bulk load, ``-indexes``, and ``-reserve``
    for a full disk. Open it after a fork, never before.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        failures: FailureReports,
        writer: Writer,
        free_space: FreeSpace,
        sweep_interval: float | None,
        guard: ClockGuard,
    ) -> None:
        self._database, self._clock, self._failures = database, clock, failures
        self._writer, self._queue, self._free_space = writer, writer.queue, free_space
        self._reader = Reader(database.reader, database.path, failures)
        self._indexes = Indexes(database, self._queue)
        self._handles: dict[str, SqliteTable] = {}
        self._expired = ExpiredItems(self._queue, self._reader, clock)
        self._guard = guard
        self._sweeper: Sweeper | None = None
        if sweep_interval is not None:
            self._sweeper = Sweeper(
                asyncio.get_running_loop(),
                self._expired.remove_some,
                sweep_interval,
                full=SWEEP_ROWS * SWEEP_WRITES,
                guard=guard,
                report=failures.report,
            )
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock = time.time,
        sweep_interval: float = 60.0,
        lock_timeout: float = 2.5,
        opening_timeout: float = OPENING_TIMEOUT,
        max_waiting: int = 20_000,
        max_waiting_bytes: int = 64 << 20,
        wipe: bool = False,
        min_free_space: int = 0,
        first_reading: ClockReading | None = None,
        on_failure: OnFailure | None = None,
        part: Part | None = None,
        sweeps: bool = True,
    ) -> Self:
        """Open the file at ``path``; it and its folder are created when missing.

        ``sweep_interval``: seconds between two removals of expired items, at random by ±50 %;
        ``sweeps``: whether there are any.
        ``lock_timeout``: seconds a write waits for other processes before it is Throttled, at most
        twice that; also the longest wait of ``close`` for them. ``opening_timeout``: seconds to
        wait for another program that has the file locked. ``max_waiting``, ``max_waiting_bytes``:
        incomplete writes; further ones are Throttled. ``wipe``: deleted data is overwritten in the
        file, and ``close`` empties the log unless another process is writing. ``min_free_space``:
        bytes on the disk and in the file, with fewer of which it ``is_nearly_full``; 0 for never.
        ``first_reading``: clocks to compare with, to notice that the wall clock was set; else this
        moment's. ``part``: what of a store the file must be, which then exists. Raises Unavailable:
        the folder cannot be created, or the file is not writable, not a database, of another
        program or a newer version, another part, or locked; or SQLite is too old.
        """
        failures = failure_reports(on_failure)
        database = await retry_locked(
            partial(Database, path, wipe=wipe, part=part), opening_timeout
        )
        free_space = FreeSpace(database.space, database.path, database.reader, min_free_space)
        await free_space.start()
        return cls(
            database,
            clock=clock,
            failures=failures,
            writer=Writer(
                database,
                failures,
                max_waiting=max_waiting,
                max_waiting_bytes=max_waiting_bytes,
                lock_timeout=lock_timeout,
                writers=1 if part is None else part.count,
            ),
            free_space=free_space,
            sweep_interval=sweep_interval if sweeps else None,
            guard=ClockGuard(clock, first=first_reading),
        )

    @property
    def is_nearly_full(self) -> bool:
        return self._free_space.is_low

    async def check_space(self) -> None:
        await self._free_space.check()

    @property
    def clock_jump(self) -> float:
        return self._guard.jump()

    async def ensure_table(
        self,
        table: Table,
        *,
        capacity: Capacity | None = None,  # noqa: ARG002 - a file has none
    ) -> TableHandle:
        handle = self.find_table(table)
        while handle is None:  # again if another process drops it in between
            create = RunFunction(lambda cursor: _create(cursor, table), is_slow=True)
            await self._queue.submit(create)
            handle = self.find_table(table)
        # A store that cannot be written now is read without its indexes.
        with contextlib.suppress(KeytablesError):
            await self._indexes.create_missing(handle.statements)
        return handle

    def find_table(self, table: Table) -> SqliteTable | None:
        """Return the table if it exists. Raises SchemaError as :meth:`ensure_table` does."""
        entry = self._find(table.name)
        if entry is None:
            return None
        table.check_stored(entry.table)
        handle = self._handles.get(table.name)
        if handle is None or handle.statements.name != entry.sql_name:
            handle = self._handles[table.name] = SqliteTable(
                table,
                entry.statements,
                queue=self._queue,
                reader=self._reader,
                indexes=self._indexes,
                clock=self._clock,
            )
            self._expired.tables[table.name] = handle.statements
        return handle

    async def drop_table(self, name: str) -> None:
        entry = self._find(name)
        if entry is None:
            return
        statements = entry.statements

        def delete_some(cursor: apsw.Cursor) -> int:
            with contextlib.suppress(apsw.SQLError):  # another process dropped it too
                cursor.execute(statements.delete_some, (SWEEP_ROWS,))
                return cursor.connection.changes()
            return 0

        def drop(cursor: apsw.Cursor) -> None:
            catalog.remove(cursor, entry)
            cursor.execute(statements.drop)

        # The rows first: dropping a full table holds the lock for as long as the table is large.
        while await self._queue.submit(RunFunction(delete_some)) == SWEEP_ROWS:
            pass
        await self._queue.submit(RunFunction(drop, is_slow=True))
        self._handles.pop(name, None)
        self._expired.tables.pop(name, None)

    async def table_names(self) -> list[str]:
        try:
            return catalog.names(self._database.reader)
        except apsw.Error as error:
            raise self._read_failure(error) from error

    @property
    def expired(self) -> Mapping[str, int]:
        return self._expired.removed

    async def sweep(self) -> int:
        """Remove all expired items, even if the clock may be wrong; return how many."""
        return await self._expired.remove_all()

    async def close(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        loop = asyncio.get_running_loop()
        self._closing = loop.create_future()
        close = self._database.close
        try:
            await self._attempt(self._free_space.close)
            if self._sweeper is not None:
                await self._attempt(self._sweeper.close)
            await self._attempt(self._reader.close)
            close_writer = partial(self._writer.close, self._database.close_writer)
            if await self._attempt(close_writer) is False:
                close = self._database.close_readers
            await self._attempt(partial(loop.run_in_executor, None, close))
        finally:
            self._closing.set_result(None)

    async def _attempt(self, close: Callable[[], Awaitable[bool | None]]) -> bool | None:
        """Close one part; report what it raises, so that the others are closed too."""
        try:
            return await close()
        except Exception as error:  # noqa: BLE001 - reported to the owner of the engine
            self._failures.report(error)
            return None

    def _read_failure(self, error: apsw.Error) -> KeytablesError:
        failure = translate(error)
        self._failures.report(failure)
        return failure

    def _find(self, name: str) -> catalog.Entry | None:
        try:
            return catalog.find(self._database.reader, name)
        except apsw.Error as error:
            raise self._read_failure(error) from error


async def retry_locked(opening: Callable[[], _T], opening_timeout: float) -> _T:
    """Call ``opening`` in a thread, again while another program has the file locked.

    Can be cancelled in between. Raises StoreLocked after ``opening_timeout`` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + opening_timeout
    while True:
        try:
            return await loop.run_in_executor(None, opening)
        except StoreLocked:
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(_OPENING_INTERVAL)


def _create(cursor: apsw.Cursor, table: Table) -> None:
    if catalog.find(cursor.connection, table.name) is None:
        for statement in catalog.add(cursor, table).statements.create:
            cursor.execute(statement)
