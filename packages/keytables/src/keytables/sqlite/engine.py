"""The embedded engine: opens a file, creates, opens and drops its tables.

Rule: the catalog in the file decides about its tables; a declaration that differs is refused.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Self, cast

import apsw
import msgspec

from keytables.clock_guard import ClockGuard, ClockReading
from keytables.engine import Clock, Engine, OnFailure, TableHandle
from keytables.errors import KeytablesError, SchemaError, StoreDamaged
from keytables.schema import Capacity, Table
from keytables.sqlite.database import Database, Failures, StoreLocked, translate
from keytables.sqlite.reader import Reader
from keytables.sqlite.space import FreeSpace
from keytables.sqlite.statements import Statements
from keytables.sqlite.sweeper import SWEEP_ROWS, SWEEP_WRITES, ExpiredItems
from keytables.sqlite.table import Indexes, SqliteTable
from keytables.sqlite.write_queue import RunFunction
from keytables.sqlite.writer import Writer
from keytables.sweeper import Sweeper

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
        failures: Failures,
        writer: Writer,
        free_space: FreeSpace,
        sweep_interval: float,
        guard: ClockGuard,
    ) -> None:
        self._database, self._clock, self._failures = database, clock, failures
        self._writer, self._queue, self._free_space = writer, writer.queue, free_space
        self._reader = Reader(database.reader, database.path, failures)
        self._indexes = Indexes(database, self._queue)
        self._handles: dict[str, SqliteTable] = {}
        self._expired = ExpiredItems(self._queue, self._reader, clock)
        self._guard = guard
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
    ) -> Self:
        """Open the file at ``path``; it and its folder are created when missing.

        ``sweep_interval``: seconds between two removals of expired items, at random by ±50 %.
        ``lock_timeout``: seconds a write waits for other processes before it is Throttled, at most
        twice that; also the longest wait of ``close`` for them. ``opening_timeout``: seconds to
        wait for another program that has the file locked. ``max_waiting``, ``max_waiting_bytes``:
        incomplete writes; further ones are Throttled. ``wipe``: deleted data is overwritten in the
        file, and ``close`` empties the log unless another process is writing. ``min_free_space``:
        bytes on the disk and in the file, with fewer of which it ``is_nearly_full``; 0 for never.
        ``first_reading``: clocks to compare with, to notice that the wall clock was set; else this
        moment's. Raises Unavailable: the folder cannot be created, or the file is not writable, not
        a database, of another program or a newer version, or locked; or SQLite is too old.
        """
        failures = Failures(asyncio.get_running_loop(), on_failure)
        database = await _open_database(path, wipe=wipe, opening_timeout=opening_timeout)
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
            ),
            free_space=free_space,
            sweep_interval=sweep_interval,
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
        entry = self._catalog_entry(table.name)
        if entry is None:
            create = RunFunction(lambda cursor: _create(cursor, table), is_slow=True)
            await self._queue.submit(create)
            entry = self._catalog_entry(table.name)
            if entry is None:  # dropped by another process in between
                return await self.ensure_table(table)
        number, stored = entry
        if not _is_same(stored, table):
            raise SchemaError(
                f"table {table.name!r} exists with other keys, indexes or expiry: "
                f"{stored} instead of {table}"
            )
        handle = self._handles.get(table.name)
        name = _sql_name(table.name, number)
        if handle is None or handle.statements.name != name:
            handle = self._handles[table.name] = SqliteTable(
                table,
                Statements(stored, name),
                queue=self._queue,
                reader=self._reader,
                indexes=self._indexes,
                clock=self._clock,
            )
            self._expired.tables[table.name] = handle.statements
        # A store that cannot be written now is read without its indexes.
        with contextlib.suppress(KeytablesError):
            await self._indexes.create_missing(handle.statements)
        return handle

    async def drop_table(self, name: str) -> None:
        entry = self._catalog_entry(name)
        if entry is None:
            return
        number, stored = entry
        statements = Statements(stored, _sql_name(name, number))

        def delete_some(cursor: apsw.Cursor) -> int:
            with contextlib.suppress(apsw.SQLError):  # another process dropped it too
                cursor.execute(statements.delete_some, (SWEEP_ROWS,))
                return cursor.connection.changes()
            return 0

        def drop(cursor: apsw.Cursor) -> None:
            cursor.execute("DELETE FROM catalog WHERE id = ?", (number,))
            cursor.execute(statements.drop)

        # The rows first: dropping a full table holds the lock for as long as the table is large.
        while await self._queue.submit(RunFunction(delete_some)) == SWEEP_ROWS:
            pass
        await self._queue.submit(RunFunction(drop, is_slow=True))
        self._handles.pop(name, None)
        self._expired.tables.pop(name, None)

    async def table_names(self) -> list[str]:
        try:
            rows = self._database.reader.execute("SELECT name FROM catalog ORDER BY name")
            return [cast(str, name) for (name,) in rows]
        except apsw.Error as error:
            raise self._read_failure(error) from error

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

    def _catalog_entry(self, name: str) -> tuple[int, Table] | None:
        try:
            rows = self._database.reader.execute(
                "SELECT id, declaration FROM catalog WHERE name = ?", (name,)
            ).fetchall()
        except apsw.Error as error:
            raise self._read_failure(error) from error
        if not rows:
            return None
        number, declaration = rows[0]
        try:
            table = msgspec.json.decode(cast(str, declaration), type=Table)
        except (msgspec.DecodeError, SchemaError) as error:
            raise StoreDamaged(f"the catalog entry of table {name!r} is damaged") from error
        return cast(int, number), table


async def _open_database(
    path: str | os.PathLike[str], *, wipe: bool, opening_timeout: float
) -> Database:
    """Open the file, retrying here, cancellably, while another program has it locked."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + opening_timeout
    while True:
        try:
            return await loop.run_in_executor(None, partial(Database, path, wipe=wipe))
        except StoreLocked:
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(_OPENING_INTERVAL)


def _create(cursor: apsw.Cursor, table: Table) -> None:
    if cursor.execute("SELECT 1 FROM catalog WHERE name = ?", (table.name,)).get:
        return
    cursor.execute(
        "INSERT INTO catalog (name, declaration) VALUES (?, ?)",
        (table.name, msgspec.json.encode(table).decode()),
    )
    number = cursor.connection.last_insert_rowid()
    for statement in Statements(table, _sql_name(table.name, number)).create:
        cursor.execute(statement)


def _is_same(stored: Table, declared: Table) -> bool:
    """Whether two declarations are equal apart from the order of their indexes."""
    return (stored.partition, stored.sort, stored.expiry) == (
        declared.partition,
        declared.sort,
        declared.expiry,
    ) and set(stored.indexes) == set(declared.indexes)


def _sql_name(name: str, number: int) -> str:
    # The number distinguishes a table from a dropped one of its name; and SQLite ignores case.
    return f'"{name}~{number}"'
