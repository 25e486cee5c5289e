"""The PostgreSQL engine: opens a store, creates, opens and drops its tables.

Rule: the catalog in the schema decides about its tables; a declaration that differs is refused.
What is created is created in one transaction, and by one process at a time.
"""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Self

import msgspec

from keytables.clock_guard import ClockGuard, ClockReading
from keytables.engine import Activity, Clock, Engine, OnFailure, TableHandle
from keytables.errors import KeytablesError, SchemaError, StoreDamaged, Unavailable
from keytables.failures import FailureReports
from keytables.postgresql.columns import Columns
from keytables.postgresql.commits import CommitConnection, commit_time
from keytables.postgresql.connections import Connector, Pool, Session
from keytables.postgresql.statements import TableStatements
from keytables.postgresql.table import PostgresTable
from keytables.postgresql.writer import GroupCommit
from keytables.schema import Capacity, Table
from keytables.sweeper import Sweeper

FORMAT: Final = 1
"""Version of what this engine keeps in a schema."""

SWEEP_ROWS: Final = 200
"""Rows of one statement of a sweep."""

COMMITS_AT_ONCE: Final = 2
"""Commits on their way at a time, each on a connection; of few connections a third."""

COMMITS_KEPT: Final = 900.0
"""Seconds for which the row of a commit is kept: many times as long as an answer is waited for."""

_MAX_NAME: Final = 63
"""Bytes of a name in PostgreSQL; a longer one is cut off."""

_LOCK: Final = 0x7AB1E501
"""Advisory lock of those who create or drop tables in the database."""


class PostgresEngine(Engine):
    """Tables in one schema of a database. Belongs to the event loop it was opened on."""

    def __init__(
        self,
        pool: Pool,
        writer: GroupCommit,
        schema: str,
        *,
        clock: Clock,
        failures: FailureReports,
        sweep_interval: float,
        guard: ClockGuard,
        connector: Connector,
    ) -> None:
        self._pool, self._writer, self._schema = pool, writer, schema
        self._clock, self._failures, self._guard = clock, failures, guard
        self._connector = connector
        self._removed = Counter[str]()
        self._handles: dict[str, PostgresTable] = {}
        self._sweeper = Sweeper(
            asyncio.get_running_loop(),
            self._remove_some,
            sweep_interval,
            full=SWEEP_ROWS,
            guard=guard,
            report=failures.report,
        )
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        schema: str = "keytables",
        settings: dict[str, str] | None = None,
        connections: int = 10,
        connect_timeout: float = 5.0,
        clock: Clock = time.time,
        sweep_interval: float = 60.0,
        max_waiting: int = 20_000,
        max_waiting_bytes: int = 64 << 20,
        first_reading: ClockReading | None = None,
        on_failure: OnFailure | None = None,
    ) -> Self:
        """Connect, and create the schema and its catalog when they are missing.

        ``url``: of libpq, without options of this engine; ``settings``: of the sessions.
        ``connections``: at most, 2 or more; up to COMMITS_AT_ONCE of them write.
        ``sweep_interval``: seconds between two removals of expired items, at random by ±50 %.
        ``max_waiting``, ``max_waiting_bytes``: incomplete writes; further ones are Throttled.
        ``first_reading``: clocks to compare with, to
        notice that the wall clock was set; else this moment's. Raises Unavailable: no connection,
        no right, or a server, database or schema that cannot be used.
        """
        quoted = _quoted(schema)
        connector = Connector(url, settings or {}, connect_timeout)
        session = await connector.connect()
        try:
            await _create_store(connector, session, schema, quoted)
        except BaseException:
            session.terminate()
            raise
        failures = FailureReports(on_failure)
        writing = max(min(COMMITS_AT_ONCE, connections // 3), 1)
        sessions = (session, *[None] * (writing - 1))
        writer = GroupCommit(
            connector,
            [CommitConnection(connector, quoted, clock, each) for each in sessions],
            failures,
            quoted,
            clock=clock,
            max_waiting=max_waiting,
            max_waiting_bytes=max_waiting_bytes,
        )
        return cls(
            Pool(connector, connections - writing, failures),
            writer,
            quoted,
            clock=clock,
            failures=failures,
            sweep_interval=sweep_interval,
            guard=ClockGuard(clock, first=first_reading),
            connector=connector,
        )

    @property
    def activity(self) -> Activity:
        return self._connector.activity

    @property
    def trouble(self) -> str:
        return self._writer.trouble

    async def clock_difference(self, clock: Clock) -> float:
        before = clock()
        [row] = await self._pool.fetch("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(row[0]) - (before + clock()) / 2

    @property
    def failovers(self) -> int:
        return self._connector.failovers

    @property
    def expired(self) -> Mapping[str, int]:
        return self._removed

    @property
    def clock_jump(self) -> float:
        return self._guard.jump()

    async def ensure_table(
        self,
        table: Table,
        *,
        capacity: Capacity | None = None,  # noqa: ARG002 - a database has none
    ) -> TableHandle:
        stored = await self._declaration(table.name)
        if stored is None:
            await self._create_table(table)
            stored = await self._declaration(table.name)
            if stored is None:  # dropped by another process in between
                return await self.ensure_table(table)
        table.check_stored(stored)
        handle = self._handles.get(table.name)
        if handle is None or handle.table != table:
            handle = self._handles[table.name] = PostgresTable(
                table,
                TableStatements(Columns(table), self._table_name(table.name)),
                writer=self._writer,
                pool=self._pool,
                clock=self._clock,
            )
        return handle

    async def drop_table(self, name: str) -> None:
        handle = self._handles.pop(name, None)
        if handle is not None:
            await self._writer.wait_for(handle.writes.all())
        async with self._changing() as session:
            catalog = f'{self._schema}."~catalog"'
            await session.fetch(f"DELETE FROM {catalog} WHERE name = $1", name)  # noqa: S608
            await session.fetch(
                f"DROP TABLE IF EXISTS {self._table_name(name)}", operation="DROP", table=name
            )

    async def table_names(self) -> list[str]:
        sql = f'SELECT name FROM {self._schema}."~catalog" ORDER BY name COLLATE "C"'  # noqa: S608
        rows = await self._pool.fetch(sql)
        return [name for (name,) in rows]

    async def sweep(self) -> int:
        """Remove all expired items, even if the clock may be wrong; return how many."""
        total = 0
        while count := await self._remove_some():
            total += count
        return total

    async def close(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        try:
            await self._sweeper.close()
            await self._writer.close()
            await self._pool.close()
        finally:
            self._closing.set_result(None)

    # --- parts --------------------------------------------------------------------------------

    def _table_name(self, name: str) -> str:
        return f"{self._schema}.{_quoted(name)}"

    async def _declaration(self, name: str) -> Table | None:
        rows = await self._pool.fetch(
            f'SELECT declaration FROM {self._schema}."~catalog" WHERE name = $1',  # noqa: S608
            name,
        )
        if not rows:
            return None
        try:
            return msgspec.json.decode(rows[0][0], type=Table)
        except (msgspec.DecodeError, SchemaError) as error:
            raise StoreDamaged(f"the catalog entry of table {name!r} is damaged") from error

    async def _create_table(self, table: Table) -> None:
        statements = TableStatements(Columns(table), self._table_name(table.name))
        async with self._changing() as session:
            added = await session.fetch(
                f'INSERT INTO {self._schema}."~catalog" (name, declaration) '  # noqa: S608
                "VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING name",
                table.name,
                msgspec.json.encode(table).decode(),
                operation="INSERT",
                table="~catalog",
            )
            if added:
                for statement in statements.create:
                    await session.fetch(statement, operation="CREATE")

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[Session]:
        """A transaction that creates or drops tables; one process at a time."""
        try:
            async with self._pool.session() as session, session.transaction():
                await session.fetch("SELECT pg_advisory_xact_lock($1)", _LOCK)
                yield session
        except KeytablesError as error:
            self._failures.report(error)
            raise

    async def _remove_some(self) -> int:
        """Remove at most SWEEP_ROWS expired items of one table; return how many.

        Rows that another process has locked are left to it: it removes or changes them.
        """
        now = self._clock()
        oldest = uuid.UUID(int=commit_time(now - COMMITS_KEPT))
        await self._pool.fetch(f'DELETE FROM {self._schema}."~commits" WHERE id < $1', oldest)  # noqa: S608
        for handle in list(self._handles.values()):
            if handle.table.expiry is None:
                continue
            removed = await self._pool.fetch(handle.statements.sweep, now, SWEEP_ROWS)
            if removed:
                self._removed[handle.table.name] += len(removed)
                return len(removed)
        return 0


async def _create_store(connector: Connector, session: Session, schema: str, quoted: str) -> None:
    """Create the schema and what the engine keeps there. Raises Unavailable."""
    try:
        version = await _stored_format(session, schema, quoted)
        if version is None:
            # Writes and reads need one each: with one alone nothing is begun that could not end.
            await (await connector.connect()).close()
            async with session.transaction():
                await session.fetch("SELECT pg_advisory_xact_lock($1)", _LOCK)
                if await _stored_format(session, schema, quoted) is None:
                    await _create_catalog(session, schema, quoted)
            version = await _stored_format(session, schema, quoted)
    except SchemaError as error:
        raise Unavailable(f"the schema {schema!r} is not a store: {error}") from error
    if version != FORMAT:
        raise Unavailable(
            f"the schema {schema!r} has format {version} of this store, and this program knows "
            f"{FORMAT}: use the program of that version, or another schema"
        )


async def _stored_format(session: Session, schema: str, quoted: str) -> int | None:
    tables = await session.fetch(
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = $1 AND relname = '~format'",
        schema,
    )
    if not tables:
        return None
    rows = await session.fetch(f'SELECT version FROM {quoted}."~format"', table="~format")  # noqa: S608
    return int(rows[0][0]) if rows else 0


async def _create_catalog(session: Session, schema: str, quoted: str) -> None:
    exists = await session.fetch("SELECT 1 FROM pg_namespace WHERE nspname = $1", schema)
    if not exists:
        await session.fetch(f"CREATE SCHEMA {quoted}", operation="CREATE")
    for statement in (
        f'CREATE TABLE {quoted}."~format" (version integer NOT NULL)',
        f'CREATE TABLE {quoted}."~catalog" (name text PRIMARY KEY, declaration text NOT NULL)',
        f'CREATE TABLE {quoted}."~commits" (id uuid PRIMARY KEY, rows bigint[] NOT NULL)',
        f'INSERT INTO {quoted}."~format" VALUES ({FORMAT})',  # noqa: S608
    ):
        await session.fetch(statement, operation="CREATE")


def _quoted(name: str) -> str:
    if len(name) > _MAX_NAME:
        # Unlike any name that is short enough, and different for each.
        digest = uuid.uuid5(uuid.NAMESPACE_OID, name).hex[:12]
        name = f"{name[: _MAX_NAME - 13]}~{digest}"
    return '"' + name.replace('"', '""') + '"'
