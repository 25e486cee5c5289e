"""The embedded engine: opens the file, makes and drops tables, keeps the sweeper going.

The one rule: the file's catalog says what tables there are; a declaration that disagrees with it is
refused, never adapted to.
"""

import asyncio
import contextlib
import os
import time
from typing import Self, cast

import apsw
import msgspec

from keytables.engine import Clock, Engine, TableHandle
from keytables.errors import KeytablesError, SchemaError, Unavailable
from keytables.schema import Capacity, Table
from keytables.sqlite.database import Database, translate
from keytables.sqlite.handle import SqliteTable
from keytables.sqlite.indexes import Indexes
from keytables.sqlite.operations import Call
from keytables.sqlite.scans import Scans
from keytables.sqlite.statements import Statements
from keytables.sqlite.sweeper import AT_ONCE, BATCH, Sweeper
from keytables.sqlite.writer import Writer

__all__ = ["SqliteEngine"]


class SqliteEngine(Engine):
    """Tables in one SQLite file, which several processes may use at once.

    Belongs to the event loop it was opened on. Beside the file lie its ``-wal`` and ``-shm``, and
    the lock files ``-queue``, ``-turn`` and, once a table was loaded, ``-indexes``. Open it after a
    fork, never before.
    """

    def __init__(
        self, database: Database, *, clock: Clock, writer: Writer, sweep_interval: float
    ) -> None:
        self._database, self._clock, self._writer = database, clock, writer
        self._indexes, self._scans = Indexes(database, writer), Scans(database.path)
        self._handles: dict[str, SqliteTable] = {}
        self._closing: asyncio.Future[None] | None = None
        loop = asyncio.get_running_loop()
        self._sweeper = Sweeper(loop, self._sweep_some, sweep_interval)

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
        """Open the file at ``path``, making it and its folder when missing.

        ``sweep_interval``: seconds between two removals of expired items, spread by ±50 %.
        ``lock_timeout``: seconds a write waits for other processes before it is Throttled, and so
        what ``close`` waits for one that has the turn and does nothing.
        ``max_waiting``, ``max_waiting_bytes``: writes submitted and not answered; further ones are
        Throttled. ``wipe``: what is deleted is overwritten in the file, and ``close`` empties the
        log unless another process is using it right then. Raises Unavailable: no such folder and
        none can be made, not writable, not a database, another program's, of a newer version, kept
        locked before it was made, SQLite too old.
        """
        loop = asyncio.get_running_loop()
        database = await loop.run_in_executor(None, Database, path, wipe)
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
        found = self._declared(table.name)
        if found is None:
            await self._writer.submit(Call(lambda cursor: _make(cursor, table), heavy=True))
            found = self._declared(table.name)
            if found is None:  # dropped by another process in between
                return await self.ensure_table(table)
        number, declared = found
        if not _same(declared, table):
            raise SchemaError(
                f"table {table.name!r} exists with other keys, indexes or expiry: "
                f"{declared} instead of {table}"
            )
        handle = self._handles.get(table.name)
        name = _sql_name(table.name, number)
        if handle is None or handle.statements.name != name:
            handle = self._handles[table.name] = SqliteTable(
                table,
                Statements(declared, name),
                writer=self._writer,
                reader=self._database.reader,
                scans=self._scans,
                indexes=self._indexes,
                clock=self._clock,
            )
        # A store that cannot be written now is read without them, and tells those who write.
        with contextlib.suppress(KeytablesError):
            await self._indexes.complete(handle.statements)
        return handle

    async def drop_table(self, name: str) -> None:
        found = self._declared(name)
        if found is None:
            return
        statements = Statements(found[1], _sql_name(name, found[0]))

        def empty(cursor: apsw.Cursor) -> int:
            with contextlib.suppress(apsw.SQLError):  # another process dropped it too
                cursor.execute(statements.empty, (BATCH,))
                return cursor.connection.changes()
            return 0

        def drop(cursor: apsw.Cursor) -> None:
            cursor.execute("DELETE FROM catalog WHERE id = ?", (found[0],))
            cursor.execute(statements.drop)

        # Row by row first: dropping a full table holds the turn for as long as the table is large.
        while await self._writer.submit(Call(empty)) == BATCH:
            pass
        await self._writer.submit(Call(drop, heavy=True))
        self._handles.pop(name, None)

    async def table_names(self) -> list[str]:
        try:
            rows = self._database.reader.execute("SELECT name FROM catalog ORDER BY name")
            return [cast(str, name) for (name,) in rows]
        except apsw.Error as error:
            raise translate(error) from error

    async def sweep(self) -> int:
        """Remove all items expired by now, in all tables used so far; return how many."""
        total = 0
        while count := await self._sweep_some():
            total += count
        return total

    async def close(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        loop = asyncio.get_running_loop()
        self._closing = loop.create_future()
        await self._sweeper.close()
        await self._scans.close()
        close = self._database.close
        if not await self._writer.close(self._database.close_writer):
            close = self._database.close_readers
        await loop.run_in_executor(None, close)
        self._closing.set_result(None)

    async def _sweep_some(self) -> int:
        for handle in list(self._handles.values()):
            if count := await handle.sweep(BATCH, AT_ONCE):
                return count
        return 0

    def _declared(self, name: str) -> tuple[int, Table] | None:
        """Return id and declaration of a table of the file."""
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


def _make(cursor: apsw.Cursor, table: Table) -> None:
    """Make a table unless another process has done so."""
    if cursor.execute("SELECT 1 FROM catalog WHERE name = ?", (table.name,)).get:
        return
    cursor.execute(
        "INSERT INTO catalog (name, declaration) VALUES (?, ?)",
        (table.name, msgspec.json.encode(table).decode()),
    )
    number = cursor.connection.last_insert_rowid()
    for statement in Statements(table, _sql_name(table.name, number)).create:
        cursor.execute(statement)


def _same(stored: Table, declared: Table) -> bool:
    """Whether two declarations are one, whatever the order of their indexes."""
    return (stored.partition, stored.sort, stored.expiry) == (
        declared.partition,
        declared.sort,
        declared.expiry,
    ) and set(stored.indexes) == set(declared.indexes)


def _sql_name(name: str, number: int) -> str:
    # The number tells a table from a former one of the same name, and SQLite ignores case.
    return f'"{name}~{number}"'
