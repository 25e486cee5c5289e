"""One table of a SQLite file.

Rule: what can be refused is refused before anything is queued. A read returns at once, on the loop,
unless a write of this process to what it reads is not committed yet.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache, partial
from typing import Final

import apsw

from keytables.checks import check_batch
from keytables.commit.completions import CompletionCounter
from keytables.commit.conditional import (
    ItemChange,
    conditional_delete,
    conditional_put,
    conditional_update,
)
from keytables.commit.rows import RowEncoder
from keytables.commit.writes import DELETE_SIZE, UPDATE_SIZE
from keytables.engine import Clock, Query, TableHandle, WriteOptions
from keytables.errors import KeytablesError, Unavailable
from keytables.expressions import MAX_COMPILED, Update, compile_update
from keytables.packing import unpack
from keytables.schema import Cursor, Page, Table
from keytables.sqlite.database import Database, MissingIndex, translate
from keytables.sqlite.locks import FileLock
from keytables.sqlite.reader import Reader
from keytables.sqlite.statements import BLOB, Queries, Statements
from keytables.sqlite.write_queue import (
    DeleteRow,
    Pending,
    PutRow,
    PutRows,
    RowOperation,
    RunFunction,
    WriteQueue,
    WriteRow,
)
from keytables.values import Item, KeyTuple


class Indexes:
    """The indexes of all tables of one file: dropped during a bulk load, of one table at a time,
    and created where they are missing.

    Updating an index for every row of a bulk load costs several times what creating it afterwards
    does: the rows arrive in another order, and each changes another page. Results never depend on
    whether an index exists. A process that opens a table creates its missing indexes, unless the
    process that dropped them is alive and will do so.
    """

    def __init__(self, database: Database, queue: WriteQueue) -> None:
        self._reader, self._queue = database.reader, queue
        self._lock = FileLock(f"{database.path}-indexes")

    async def create_missing(self, statements: Statements) -> None:
        """Create the missing indexes, unless a table is being loaded or they are being created."""
        if self._missing(statements) and self._try_acquire():
            try:
                await self._create(statements)
            finally:
                self._lock.release()

    @asynccontextmanager
    async def loading(self, statements: Statements) -> AsyncIterator[None]:
        """See ``TableHandle.loading``. After an error, the next opening creates the indexes."""
        if not self._try_acquire():
            yield
            return
        try:
            if not await self._run(statements, partial(_drop_if_empty, statements)):
                await self._create(statements)
            yield
            await self._create(statements)
        finally:
            self._lock.release()

    def _try_acquire(self) -> bool:
        try:
            return self._lock.try_acquire()
        except OSError as error:
            raise Unavailable(f"cannot open a lock file: {error.strerror}") from error

    def _missing(self, statements: Statements) -> list[str]:
        if not statements.indexes:
            return []
        try:
            rows = self._reader.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")
            existing = {name for (name,) in rows}
        except apsw.Error as error:
            raise translate(error, statements.table.name) from error
        return [sql for name, sql in statements.indexes.items() if name not in existing]

    async def _create(self, statements: Statements) -> None:
        # One by one, so that other processes can write in between.
        for sql in self._missing(statements):
            await self._run(statements, partial(_execute, sql))

    async def _run(self, statements: Statements, function: Callable[[apsw.Cursor], bool]) -> bool:
        operation = RunFunction(function, table=statements.table.name, is_slow=True)
        result: bool = await self._queue.submit(operation)
        return result


def _execute(sql: str, cursor: apsw.Cursor) -> bool:
    cursor.execute(sql)
    return True


def _drop_if_empty(statements: Statements, cursor: apsw.Cursor) -> bool:
    if cursor.execute(statements.any_row).get:
        return False
    for sql in statements.drop_indexes:
        cursor.execute(sql)
    return True


_BATCH_ROWS: Final = 32
"""Rows of a batch per operation: a quarter of a millisecond of the loop."""


class SqliteTable(TableHandle):
    def __init__(
        self,
        table: Table,
        statements: Statements,
        *,
        queue: WriteQueue,
        reader: Reader,
        indexes: Indexes,
        clock: Clock,
    ) -> None:
        super().__init__(table)
        self.statements = statements
        self._loop = asyncio.get_running_loop()
        self._queue, self._reader, self._indexes, self._clock = queue, reader, indexes, clock
        self._codec = RowEncoder(table)
        self._queries = Queries(statements)
        self._sort_column = len(table.key_names) - 1
        self._expires = table.expiry is not None
        self._pending: Pending = {}
        self._compiled = lru_cache(maxsize=MAX_COMPILED)(self._compile)

    # --- writes -------------------------------------------------------------------------------

    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]:
        (key, row), statements = self._codec.row(item), self.statements
        size = len(row[BLOB])
        operation: RowOperation
        if options is None:
            operation = PutRow(
                self.table.name, self._pending, statements.put, row, self._sort_column, size
            )
        else:
            operation = WriteRow(
                self._pending, statements, key, size, self._clock, options, conditional_put, row
            )
        return self._queue.submit(operation)

    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]:
        change, only_blob = self._compiled(update)
        operation = WriteRow(
            self._pending,
            self.statements,
            key,
            UPDATE_SIZE,
            self._clock,
            options,
            conditional_update,
            change,
            only_blob,
        )
        return self._queue.submit(operation)

    def _compile(self, update: Update) -> tuple[ItemChange, bool]:
        """Return the change, and whether no attribute with a column of its own is named."""
        table = self.table
        change = ItemChange(*compile_update(table, update), table.key_names, self._codec.row)
        columns = {table.expiry, *(key.name for key in table.key_attributes)}
        named = (*update.assigned, *update.remove, *update.added, *update.taken)
        return change, columns.isdisjoint(named)

    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]:
        operation: RowOperation
        if options is None:
            operation = DeleteRow(
                self.table.name,
                self._pending,
                self.statements.delete,
                key,
                self._sort_column,
                DELETE_SIZE,
            )
        else:
            operation = WriteRow(
                self._pending,
                self.statements,
                key,
                DELETE_SIZE,
                self._clock,
                options,
                conditional_delete,
            )
        return self._queue.submit(operation)

    def _batch_write(self, puts: Sequence[Item], deletes: Collection[KeyTuple]) -> Awaitable[None]:
        name, pending, sql = self.table.name, self._pending, self.statements.put
        column = self._sort_column
        encoded = [self._codec.row(item) for item in puts]
        check_batch([key for key, _ in encoded], deletes)
        operations: list[RowOperation] = []
        for begin in range(0, len(encoded), _BATCH_ROWS):
            rows = [row for _, row in encoded[begin : begin + _BATCH_ROWS]]
            operations.append(PutRows(name, pending, sql, rows))
        operations += [
            DeleteRow(name, pending, self.statements.delete, key, column, DELETE_SIZE)
            for key in deletes
        ]
        future = self._loop.create_future()
        counter = CompletionCounter(future, len(operations))
        for operation in operations:
            self._queue.submit_to(counter, operation)
        return future

    def loading(self) -> AbstractAsyncContextManager[None]:
        return self._indexes.loading(self.statements)

    # --- reads --------------------------------------------------------------------------------

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._check_key(key)
        if (operation := self._pending.get(checked[0])) is not None:
            await self._queue.wait_for(operation)
        try:
            return self._select(checked)
        except (apsw.Error, KeytablesError):
            return await self._reader.retry(lambda: self._select(checked), self.table.name)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        items = []
        for number, key in enumerate({self._check_key(key): None for key in keys}, 1):
            if number % 64 == 0:
                await asyncio.sleep(0)
            if (item := await self.get(key)) is not None:
                items.append(item)
        return items

    async def _query(self, query: Query) -> Page:
        index, name = query.index, self.table.name
        sql, values = self._queries.query(query)
        if query.after is not None:
            await asyncio.sleep(0)  # lets others run between the pages of a long query
        if index is not None:
            await self._wait_for_pending()
        elif (operation := self._pending.get(values[0])) is not None:
            await self._queue.wait_for(operation)
        if self._expires:
            values = (self._clock(), *values)
        if index is None:
            return await self._reader.page(sql, values, query.limit, name)
        try:
            page = await self._reader.page(sql, values, query.limit, name)
        except MissingIndex:
            sql = self._queries.query(query, use_index=False).sql
            page = await self._reader.page_in_thread(sql, values, query.limit, name)
        return self.table.projected(page, index)

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        sql, values = self._queries.scan(after)
        if after is not None:
            await asyncio.sleep(0)
        await self._wait_for_pending()
        if self._expires:
            values = (self._clock(), *values)
        return await self._reader.page(sql, values, limit, self.table.name)

    # --- parts of both ------------------------------------------------------------------------

    def _select(self, key: KeyTuple) -> Item | None:
        values = (*key, self._clock()) if self._expires else key
        blob: bytes | None = self._reader.connection.execute(self.statements.get, values).get
        return None if blob is None else unpack(blob)

    async def _wait_for_pending(self) -> None:
        """Wait for every write to this table submitted until now."""
        if self._pending:
            for waiter in [self._queue.wait_for(operation) for operation in self._pending.values()]:
                await waiter
