"""A table in PostgreSQL.

Rule: what can be refused is refused before anything is sent. A read waits for this process's
writes to what it reads, and for no others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import lru_cache, partial
from typing import Final

from keytables.checks import check_batch, check_limit, key_tuple_check
from keytables.completions import CompletionCounter
from keytables.engine import Clock, TableHandle, refused_write
from keytables.errors import KeytablesError, SchemaError
from keytables.expressions import MAX_COMPILED, Change, Condition, Returning, Update, compile_update
from keytables.packing import unpack
from keytables.postgresql.columns import RowEncoder
from keytables.postgresql.operations import (
    ConditionalDelete,
    ConditionalPut,
    ConditionalUpdate,
    ItemOperation,
    Stored,
    UnconditionalDelete,
    UnconditionalPut,
)
from keytables.postgresql.reads import ItemReads, Pages, RepeatedReads
from keytables.postgresql.statements import TableStatements
from keytables.postgresql.writer import GroupCommit, ItemWrites, TableWrites
from keytables.schema import Cursor, Page, Range, Table
from keytables.values import Item, KeyTuple, Scalar, Values

_DELETE_SIZE: Final = 64
_UPDATE_SIZE: Final = 256
"""Bytes that an operation without an item counts for while it waits."""

_GET_TOGETHER: Final = 100
"""Items of a batch that are asked for at once: at most 40 MB."""


class PostgresTable(TableHandle):
    def __init__(
        self,
        table: Table,
        statements: TableStatements,
        *,
        writer: GroupCommit,
        reader: RepeatedReads,
        clock: Clock,
    ) -> None:
        self.table, self.statements = table, statements
        self._writer, self._clock = writer, clock
        self._codec = RowEncoder(statements.columns, writer.new_number)
        self._reads = ItemReads(statements, reader)
        self._pages = Pages(statements, reader, clock)
        self.writes = TableWrites(statements, self._reads)
        self._key = key_tuple_check(table)
        self._compile: Callable[[Update], tuple[Change, bool]]
        self._compile = lru_cache(maxsize=MAX_COMPILED)(partial(compile_update, table))

    # --- writes -------------------------------------------------------------------------------

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        try:
            key, operation = self._put(item, condition, values)
        except KeytablesError as error:
            return refused_write(error)
        return self._writer.submit(self.writes, key, operation)

    def update(
        self,
        key: KeyTuple,
        update: Update,
        values: Values | None = None,
        *,
        condition: Condition | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        try:
            checked = self._key(key)
            change, creates = self._compile(update)
            operation = ConditionalUpdate(
                _UPDATE_SIZE,
                condition,
                values,
                returning,
                change=change,
                creates=creates,
                codec=self._codec,
            )
        except KeytablesError as error:
            return refused_write(error)
        return self._writer.submit(self.writes, checked, operation)

    def delete(
        self,
        key: KeyTuple,
        *,
        condition: Condition | None = None,
        values: Values | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        try:
            checked = self._key(key)
            operation: ItemOperation
            if returning is Returning.NEW:
                raise SchemaError("a delete can return nothing or the old item")
            if condition is None and returning is Returning.NOTHING:
                operation = UnconditionalDelete(_DELETE_SIZE)
            else:
                operation = ConditionalDelete(_DELETE_SIZE, condition, values, returning)
        except KeytablesError as error:
            return refused_write(error)
        return self._writer.submit(self.writes, checked, operation)

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        try:
            put = [self._put(item, None, None) for item in puts]
            deleted = {self._key(key): None for key in deletes}
            check_batch([key for key, _ in put], deleted)
        except KeytablesError as error:
            return refused_write(error)
        future = asyncio.get_running_loop().create_future()
        counter = CompletionCounter(future, len(put) + len(deleted))
        for key, operation in put:
            self._writer.submit_to(counter, self.writes, key, operation)
        for key in deleted:
            self._writer.submit_to(counter, self.writes, key, UnconditionalDelete(_DELETE_SIZE))
        return future

    def _put(
        self, item: Item, condition: Condition | None, values: Values | None
    ) -> tuple[KeyTuple, ItemOperation]:
        key, row = self._codec.row(item)
        packed = row[-2]
        assert isinstance(packed, bytes)
        if condition is None:
            return key, UnconditionalPut(row, packed)
        return key, ConditionalPut(row, packed, condition, values)

    # --- reads --------------------------------------------------------------------------------

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._key(key)
        if self.writes.partitions:
            await self._writer.wait_for(self.writes.of_key(checked))
        return self._live_item(await self._reads.read(checked))

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        wanted = list({self._key(key): None for key in keys})
        found: list[Item] = []
        for begin in range(0, len(wanted), _GET_TOGETHER):
            some = wanted[begin : begin + _GET_TOGETHER]
            for key in some:
                await self._writer.wait_for(self.writes.of_key(key))
            rows = await asyncio.gather(*map(self._reads.read, some))
            found += [item for row in rows if (item := self._live_item(row)) is not None]
        return found

    async def query(
        self,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        checked = self._pages.check_partition(partition)
        check_limit(limit)
        read = self._pages.partition(checked, sort, limit, after, descending=descending)
        return await self._after_writes(self.writes.of_partition(checked), read)

    async def query_index(
        self,
        index_name: str,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        index = self.table.index(index_name)
        check_limit(limit)
        read = self._pages.index(index, partition, sort, limit, after, descending=descending)
        page = await self._after_writes(self.writes.all(), read)
        if not index.keys_only:
            return page
        names = {index.partition.name, *self.table.key_names}
        if index.sort is not None:
            names.add(index.sort.name)
        return Page(
            [{name: item[name] for name in item if name in names} for item in page.items],
            page.cursor,
        )

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        check_limit(limit)
        return await self._after_writes(self.writes.all(), self._pages.scan(limit, after))

    async def _after_writes(
        self, writes: list[ItemWrites], read: Coroutine[object, object, Page]
    ) -> Page:
        """Await the writes submitted to these items until now, then the read."""
        try:
            await self._writer.wait_for(writes)
        except BaseException:
            read.close()
            raise
        return await read

    def _live_item(self, row: Stored | None) -> Item | None:
        return unpack(row.packed) if row is not None and row.is_live(self._clock()) else None
