"""The reads of one table on SQLite.

The one rule: a read is answered on the loop at once, unless a write of this process to what it
reads is still on its way, or the index it needs is missing: then it is answered in a thread.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Final, TypeVar, cast

import apsw

from keytables.checks import KeyCheck, index_checks, key_checks
from keytables.engine import Clock, TableHandle
from keytables.errors import SchemaError
from keytables.schema import Cursor, Index, Key, Kind, Page, Range, Table
from keytables.sqlite.codec import unpack
from keytables.sqlite.database import IndexMissing, translate
from keytables.sqlite.operations import Operation, Row
from keytables.sqlite.ranges import Bounds, bounds
from keytables.sqlite.scans import Scans
from keytables.sqlite.statements import Statements
from keytables.sqlite.writer import Writer
from keytables.values import Item, KeyTuple, Scalar

__all__ = ["SqliteReads"]

_T = TypeVar("_T")

_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 512 << 10
"""Bounds of one page, about a millisecond of the loop. Expired rows count too: a page of them is
empty and has a cursor."""

_READ_TIMEOUT: Final = 5.0
"""Seconds a read waits for the file to be recovered after another process died."""


class SqliteReads(TableHandle):
    """The reading half of a table in a SQLite file."""

    def __init__(
        self,
        table: Table,
        statements: Statements,
        *,
        writer: Writer,
        reader: apsw.Connection,
        scans: Scans,
        clock: Clock,
    ) -> None:
        self.table = table
        self.statements = statements
        self._writer, self._reader, self._clock = writer, reader, clock
        self._scans = scans
        self._pending: dict[Scalar, Operation] = {}
        self._names = table.key_names
        self._checks = key_checks(table)
        self._index_checks: dict[str, tuple[KeyCheck, ...]] = {
            index.name: index_checks(index) for index in table.indexes
        }
        self._expires = table.expiry is not None

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._key(key)
        if (operation := self._pending.get(checked[0])) is not None:
            await self._writer.settled(operation)
        try:
            blob = self._get(checked)
        except apsw.Error:
            blob = await self._read(lambda: self._get(checked))
        return None if blob is None else unpack(blob)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        found = []
        for number, key in enumerate({self._key(key): None for key in keys}, 1):
            if number % 64 == 0:
                await asyncio.sleep(0)
            if (item := await self.get(key)) is not None:
                found.append(item)
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
        checked = self._checks[0](partition)
        limits = self._bounds(sort, self.table.sort, self._checks[1:])
        if after is not None:
            if self.table.sort is None:
                raise SchemaError(f"table {self.table.name!r} has one item in a partition")
            limits = limits.beyond(*_position(after, self._checks[1:]), descending=descending)
            await asyncio.sleep(0)  # whoever follows a long query lets others in between
        if (operation := self._pending.get(checked)) is not None:
            await self._writer.settled(operation)
        sql = self.statements.query(limits.lower, limits.upper, descending=descending)
        row = (checked, *limits.values)
        return await self._page(sql, row, limit)

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
        checks = self._index_checks[index_name]
        checked = checks[0](partition)
        limits = self._bounds(sort, index.sort, checks[1:])
        names = self._order(index)
        position: KeyTuple = ()
        if after is not None:
            every = dict(zip(self._names, self._checks, strict=True))
            if index.sort is not None:
                every[index.sort.name] = checks[1]
            position = _position(after, tuple(every[name] for name in names))
            limits = limits.without_start(descending=descending)
            await asyncio.sleep(0)
        await self._all_settled()
        statement = partial(
            self.statements.query_index,
            index,
            limits.lower,
            limits.upper,
            descending=descending,
            after=after is not None,
        )
        row = (checked, *limits.values, *position)
        try:
            page = await self._page(statement(), row, limit)
        except IndexMissing:
            page = await self._page(statement(indexed=False), row, limit, aside=True)
        if not index.keys_only:
            return page
        shown = {index.partition.name, *names}
        return Page(
            [{name: item[name] for name in item if name in shown} for item in page.items],
            page.cursor,
        )

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        position: KeyTuple = ()
        if after is not None:
            position = _position(after, self._checks)
            await asyncio.sleep(0)
        await self._all_settled()
        sql = self.statements.scan(after=after is not None)
        return await self._page(sql, position, limit)

    def _key(self, key: KeyTuple) -> KeyTuple:
        checks = self._checks
        if len(key) != len(checks):
            raise SchemaError(
                f"table {self.table.name!r}: expected a key of {len(checks)}, got {len(key)} values"
            )
        if len(checks) == 1:
            return (checks[0](key[0]),)
        return (checks[0](key[0]), checks[1](key[1]))

    def _bounds(self, sort: Range | None, key: Key | None, checks: tuple[KeyCheck, ...]) -> Bounds:
        if sort is None:
            return Bounds()
        if key is None:
            raise SchemaError("a range needs a sort key")
        if sort.prefix is not None and key.kind is Kind.NUMBER:
            raise SchemaError(f"key {key.name!r}: a number has no prefix")
        return bounds(sort, checks[0])

    def _order(self, index: Index) -> tuple[str, ...]:
        first = () if index.sort is None else (index.sort.name,)
        return tuple(dict.fromkeys((*first, *self._names)))

    def _get(self, key: KeyTuple) -> bytes | None:
        row = (*key, self._clock()) if self._expires else key
        return cast("bytes | None", self._reader.execute(self.statements.get, row).get)

    async def _all_settled(self) -> None:
        """Wait for every write to this table submitted until now."""
        if self._pending:
            for waiter in [self._writer.settled(operation) for operation in self._pending.values()]:
                await waiter

    async def _page(
        self, sql: str, row: KeyTuple, limit: int | None, *, aside: bool = False
    ) -> Page:
        if limit is not None and limit < 1:
            raise SchemaError("a limit must be at least 1")
        most = _PAGE_ROWS if limit is None else min(limit, _PAGE_ROWS)
        if self._expires:
            row = (self._clock(), *row)
        if aside:
            name = self.table.name
            return await self._scans.ask(lambda reader: _collect(reader, sql, row, most), name)
        return await self._read(lambda: _collect(self._reader, sql, row, most))

    async def _read(self, ask: Callable[[], _T]) -> _T:
        """Return what ``ask`` returns; SQLite's errors become ours.

        A reader is never blocked by writers, only for a moment while the log is recovered after a
        process died.
        """
        deadline: float | None = None
        while True:
            try:
                return ask()
            except apsw.BusyError as error:
                now = monotonic()
                deadline = deadline or now + _READ_TIMEOUT
                if now > deadline:
                    raise translate(error, self.table.name) from error
                await asyncio.sleep(0.005)
            except apsw.Error as error:
                raise translate(error, self.table.name) from error


def _collect(reader: apsw.Connection, sql: str, row: KeyTuple, most: int) -> Page:
    items: list[Item] = []
    size = 0
    last: Row = ()
    cursor = reader.execute(sql, row)
    for examined, shown in enumerate(cursor):
        blob = shown[0]
        full = len(items) >= most or size >= _PAGE_BYTES
        if examined >= _PAGE_ROWS or (full and blob is not None):
            cursor.close()  # ends the read transaction
            return Page(items, Cursor(cast(KeyTuple, last[1:])))
        if blob is not None:
            assert isinstance(blob, bytes)
            items.append(unpack(blob))
            size += len(blob)
        last = shown
    return Page(items, None)


def _position(after: Cursor, checks: tuple[KeyCheck, ...]) -> KeyTuple:
    if len(after.position) != len(checks):
        raise SchemaError("the cursor belongs to another query")
    return tuple(check(value) for check, value in zip(checks, after.position, strict=True))
