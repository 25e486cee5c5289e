"""A table in PostgreSQL.

Rule: what can be refused is refused before anything is sent. A read waits for this process's
writes to what it reads, and for no others.
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, cast

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
from keytables.expressions import MAX_COMPILED, Update, compile_update
from keytables.packing import unpack
from keytables.postgresql.columns import ITEM, Row
from keytables.postgresql.connections import Pool
from keytables.postgresql.operations import (
    ItemOperation,
    ReadingOperation,
    Stored,
    UnconditionalDelete,
    UnconditionalPut,
)
from keytables.postgresql.reads import ItemReads, Pages
from keytables.postgresql.statements import TableStatements
from keytables.postgresql.writer import GroupCommit, TableWrites
from keytables.schema import Cursor, Page, Table
from keytables.values import Item, KeyTuple

_GET_TOGETHER: Final = 100
"""Items of a batch that are asked for at once: at most 40 MB."""


class PostgresTable(TableHandle):
    def __init__(
        self,
        table: Table,
        statements: TableStatements,
        *,
        writer: GroupCommit,
        pool: Pool,
        clock: Clock,
    ) -> None:
        super().__init__(table)
        self.statements = statements
        self._writer, self._clock = writer, clock
        self._codec = RowEncoder(table, statements.columns.encoders)
        self._reads = ItemReads(statements, pool)
        self._pages = Pages(statements, pool, clock)
        self.writes = TableWrites(statements, self._reads)
        self._compiled = lru_cache(maxsize=MAX_COMPILED)(self._compile)

    # --- writes -------------------------------------------------------------------------------

    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]:
        return self._writer.submit(self.writes, *self._put_operation(item, options))

    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]:
        change = self._compiled(update)
        operation = ReadingOperation(UPDATE_SIZE, options, conditional_update, change)
        return self._writer.submit(self.writes, key, operation)

    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]:
        operation: ItemOperation
        if options is None:
            operation = UnconditionalDelete()
        else:
            operation = ReadingOperation(DELETE_SIZE, options, conditional_delete)
        return self._writer.submit(self.writes, key, operation)

    def _batch_write(self, puts: Sequence[Item], deletes: Collection[KeyTuple]) -> Awaitable[None]:
        put = [self._put_operation(item, None) for item in puts]
        check_batch([key for key, _ in put], deletes)
        future = asyncio.get_running_loop().create_future()
        counter = CompletionCounter(future, len(put) + len(deletes))
        for key, operation in put:
            self._writer.submit_to(counter, self.writes, key, operation)
        for key in deletes:
            self._writer.submit_to(counter, self.writes, key, UnconditionalDelete())
        return future

    def _put_operation(
        self, item: Item, options: WriteOptions | None
    ) -> tuple[KeyTuple, ItemOperation]:
        key, row = self._row(item)
        if options is None:
            return key, UnconditionalPut(row)
        size = len(cast(bytes, row[ITEM]))
        return key, ReadingOperation(size, options, conditional_put, row)

    def _compile(self, update: Update) -> ItemChange:
        table = self.table
        return ItemChange(*compile_update(table, update), table.key_names, self._row)

    def _row(self, item: Item) -> tuple[KeyTuple, Row]:
        key, row = self._codec.row(item)
        row.append(self._writer.new_number())
        return key, tuple(row)

    # --- reads --------------------------------------------------------------------------------

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._check_key(key)
        if self.writes.partitions:
            await self._writer.wait_for(self.writes.of_key(checked))
        return self._live_item(await self._reads.read(checked))

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        wanted = list({self._check_key(key): None for key in keys})
        items: list[Item] = []
        for begin in range(0, len(wanted), _GET_TOGETHER):
            some = wanted[begin : begin + _GET_TOGETHER]
            for key in some:
                await self._writer.wait_for(self.writes.of_key(key))
            rows = await asyncio.gather(*map(self._reads.read, some))
            items += [item for row in rows if (item := self._live_item(row)) is not None]
        return items

    async def _query(self, query: Query) -> Page:
        selection, index = self._pages.query(query), query.index
        if index is None:
            if self.writes.partitions:
                await self._writer.wait_for(self.writes.of_partition(query.partition))
            return await self._pages.page(selection)
        await self._writer.wait_for(self.writes.all())
        return self.table.projected(await self._pages.page(selection), index)

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        selection = self._pages.scan(limit, after)
        await self._writer.wait_for(self.writes.all())
        return await self._pages.page(selection)

    def _live_item(self, row: Stored | None) -> Item | None:
        return unpack(row.packed) if row is not None and row.is_live(self._clock()) else None
