"""The embedded engine: opens a file, creates, opens and drops its tables.

Rule: the catalog in the file is the truth about its tables; a declaration that differs is refused.
"""

import asyncio
import contextlib
import os
import time
from functools import partial
from typing import Self, cast

import apsw
import msgspec

from keytables.engine import Clock, Engine, TableHandle
from keytables.errors import KeytablesError, SchemaError, Unavailable
from keytables.schema import Capacity, Table
from keytables.sqlite.database import Database, translate
from keytables.sqlite.indexes import Indexes
from keytables.sqlite.reader import Reader
from keytables.sqlite.statements import Statements
from keytables.sqlite.sweeper import SWEEP_ROWS, ExpiredItems, Sweeper
from keytables.sqlite.table import SqliteTable
from keytables.sqlite.write_queue import RunFunction
from keytables.sqlite.writer import Writer

__all__ = ["SqliteEngine"]


class SqliteEngine(Engine):
    """Tables in one SQLite file, which several processes may use at once.

    Belongs to the event loop it was opened on. Beside the file are its ``-wal`` and ``-shm``, and
    the lock files ``-queue``, ``-turn``, ``-open`` and, after a bulk load, ``-indexes``. Open it
    after a fork, never before.
    """

    def __init__(
        self, database: Database, *, clock: Clock, writer: Writer, sweep_interval: float
    ) -> None:
        self._database, self._clock, self._writer = database, clock, writer
        self._queue = writer.queue
        self._reader = Reader(database.reader, database.path)
        self._indexes = Indexes(database, self._queue)
        self._handles: dict[str, SqliteTable] = {}
        self._expired = ExpiredItems(self._queue, self._reader, clock)
        loop = asyncio.get_running_loop()
        self._sweeper = Sweeper(loop, self._expired.remove_some, sweep_interval)
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        clock: Clock = time.time,
        sweep_interval: float = 60.0,
        lock_timeout: float = 5.0,
        max_waiting: int = 20_000,
        max_waiting_bytes: int = 64 << 20,
        wipe: bool = False,
    ) -> Self:
        """Open the file at ``path``; it and its folder are created when missing.

        ``sweep_interval``: seconds between two removals of expired items, at random by ±50 %.
        ``lock_timeout``: seconds a write waits for other processes before it is Throttled; also the
        longest wait of ``close`` for another process. ``max_waiting``, ``max_waiting_bytes``: the
        writes that may be incomplete; further ones are Throttled. ``wipe``: deleted data is
        overwritten in the file, and ``close`` empties the log unless another process is writing.
        Raises Unavailable: the folder cannot be created, or the file is not writable, not a
        database, of another program, of a newer version, or locked; or SQLite is too old.
        """
        loop = asyncio.get_running_loop()
        database = await loop.run_in_executor(None, partial(Database, path, wipe=wipe))
        writer = Writer(
            loop,
            database,
            max_waiting=max_waiting,
            max_waiting_bytes=max_waiting_bytes,
            lock_timeout=lock_timeout,
        )
        return cls(database, clock=clock, writer=writer, sweep_interval=sweep_interval)

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
            raise translate(error) from error

    async def sweep(self) -> int:
        """Remove all items that are expired by now, of all open tables; return how many."""
        return await self._expired.remove_all()

    async def close(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        loop = asyncio.get_running_loop()
        self._closing = loop.create_future()
        await self._sweeper.close()
        await self._reader.close()
        close = self._database.close
        if not await self._writer.close(self._database.close_writer):
            close = self._database.close_readers
        await loop.run_in_executor(None, close)
        self._closing.set_result(None)

    def _catalog_entry(self, name: str) -> tuple[int, Table] | None:
        """Return the id and the declaration of a table of the file."""
        try:
            rows = self._database.reader.execute(
                "SELECT id, declaration FROM catalog WHERE name = ?", (name,)
            ).fetchall()
        except apsw.Error as error:
            raise translate(error) from error
        if not rows:
            return None
        number, declaration = rows[0]
        try:
            table = msgspec.json.decode(cast(str, declaration), type=Table)
        except (msgspec.DecodeError, SchemaError) as error:
            raise Unavailable(f"the catalog entry of table {name!r} is damaged") from error
        return cast(int, number), table


def _create(cursor: apsw.Cursor, table: Table) -> None:
    """Create a table unless another process has done so."""
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
