"""The primitives of one table on SQLite.

The one rule: what can be refused is refused here, before anything is queued.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from time import monotonic
from typing import Any, Final, TypeVar, cast

import apsw

from tablestore.checks import KeyCheck, index_checks, key_check, key_checks, snapshot
from tablestore.engine import Clock, TableHandle, Values
from tablestore.errors import SchemaError, TablestoreError
from tablestore.expressions import Condition, Returning, Update
from tablestore.schema import (
    MAX_SORT_KEY,
    Cursor,
    Index,
    Item,
    Key,
    KeyTuple,
    Kind,
    Page,
    Range,
    Scalar,
    Table,
    Value,
)
from tablestore.sqlite import operations
from tablestore.sqlite.codec import pack, unpack
from tablestore.sqlite.compile import Change, Predicate, compile_condition, compile_update
from tablestore.sqlite.database import translate
from tablestore.sqlite.joint import Joint
from tablestore.sqlite.ranges import Bounds, bounds
from tablestore.sqlite.statements import Statements
from tablestore.sqlite.writer import Writer

__all__ = ["SqliteTable"]

_T = TypeVar("_T")

_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 512 << 10
"""Bounds of one page: about a millisecond of the loop."""

_READ_TIMEOUT: Final = 5.0
"""Seconds a read waits for the file to be recovered after another process died."""

_MEMO: Final = 1000
"""Compiled expressions kept. Declared ones are few; this bounds those made for each call."""

_INT64: Final = 2**63
_NO_VALUES: Final[Mapping[str, Value]] = {}


class SqliteTable(TableHandle):
    """A table in a SQLite file. Made by the engine."""

    def __init__(
        self,
        table: Table,
        statements: Statements,
        *,
        writer: Writer,
        reader: apsw.Connection,
        clock: Clock,
    ) -> None:
        self.table = table
        self.statements = statements
        self._writer, self._reader, self._clock = writer, reader, clock
        self._loop = asyncio.get_running_loop()
        self._pending: dict[Scalar, operations.Operation] = {}
        self._names = table.key_names
        self._checks = key_checks(table)
        self._extra = tuple((key.name, key_check(key, MAX_SORT_KEY)) for key in statements.extra)
        self._index_checks: dict[str, tuple[KeyCheck, ...]] = {
            index.name: index_checks(index) for index in table.indexes
        }
        self._expires = table.expiry is not None
        self._predicates: dict[Condition, Predicate] = {}
        self._changes: dict[Update, Change] = {}

    # --- writes ---------------------------------------------------------------------------------

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        try:
            blob, row = self._encode(item)
            operation: operations.Operation
            if condition is None:
                operation = operations.Put(
                    self.table.name, self._pending, self.statements.put, row, len(blob)
                )
            else:
                judged = operations.JudgedPut(
                    self._pending,
                    self.statements,
                    cast(KeyTuple, row[: len(self._names)]),
                    len(blob),
                    clock=self._clock,
                    condition=self._predicate(condition),
                    values=_taken(values),
                )
                judged.row = row
                operation = judged
        except TablestoreError as error:
            return self._refused(error)
        return self._writer.submit(operation)

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
            taken = _taken(values)
            operation = operations.Update(
                self._pending,
                self.statements,
                self._key(key),
                256,
                clock=self._clock,
                condition=None if condition is None else self._predicate(condition),
                values=taken,
                returning=returning,
            )
            operation.change = self._change(update)
            operation.creates = update.creates
            operation.encode = self._encode
        except TablestoreError as error:
            return self._refused(error)
        return self._writer.submit(operation)

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
            operation: operations.Operation
            if condition is None and returning is Returning.NOTHING:
                operation = operations.Delete(
                    self.table.name, self._pending, self.statements.delete, checked, 64
                )
            elif returning is Returning.NEW:
                raise SchemaError("a delete can return nothing or the old item")
            else:
                operation = operations.JudgedDelete(
                    self._pending,
                    self.statements,
                    checked,
                    64,
                    clock=self._clock,
                    condition=None if condition is None else self._predicate(condition),
                    values=_taken(values),
                    returning=returning,
                )
        except TablestoreError as error:
            return self._refused(error)
        return self._writer.submit(operation)

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        name, pending, statements = self.table.name, self._pending, self.statements
        batch: list[operations.Operation] = []
        keys: set[KeyTuple] = set()
        try:
            for item in puts:
                blob, row = self._encode(item)
                batch.append(operations.Put(name, pending, statements.put, row, len(blob)))
                keys.add(cast(KeyTuple, row[: len(self._names)]))
            gone = {self._key(key): None for key in deletes}
            batch.extend(
                operations.Delete(name, pending, statements.delete, key, 64) for key in gone
            )
            if len(keys) + len(gone) < len(batch) or not keys.isdisjoint(gone):
                raise SchemaError("a batch puts a key twice, or puts and deletes it")
        except TablestoreError as error:
            return self._refused(error)
        future = self._loop.create_future()
        joint = Joint(future, len(batch))
        for operation in batch:
            self._writer.submit_to(operation, joint)
        return future

    # --- reads ----------------------------------------------------------------------------------

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
        return await self._page(sql, row, limit, self._names[1:])

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
        sql = self.statements.query_index(
            index, limits.lower, limits.upper, descending=descending, after=after is not None
        )
        page = await self._page(sql, (checked, *limits.values, *position), limit, names)
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
        return await self._page(sql, position, limit, self._names)

    # --- for the engine -------------------------------------------------------------------------

    async def sweep(self, most: int) -> int:
        """Delete at most ``most`` expired items; return how many."""
        if not self._expires:
            return 0
        now = self._clock()
        if await self._read(lambda: self._reader.execute(self.statements.any_expired, (now,)).get):

            def delete(cursor: apsw.Cursor) -> int:
                cursor.execute(self.statements.sweep, (now, most))
                return cursor.connection.changes()

            call = operations.Call(delete, table=self.table.name)
            return cast(int, await self._writer.submit(call))
        return 0

    # --- within ---------------------------------------------------------------------------------

    def _refused(self, error: TablestoreError) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        future.set_exception(error)
        return future

    def _key(self, key: KeyTuple) -> KeyTuple:
        checks = self._checks
        if len(key) != len(checks):
            raise SchemaError(
                f"table {self.table.name!r}: expected a key of {len(checks)}, got {len(key)} values"
            )
        if len(checks) == 1:
            return (checks[0](key[0]),)
        return (checks[0](key[0]), checks[1](key[1]))

    def _encode(self, item: Item) -> tuple[bytes, operations.Row]:
        """Return the blob and the row of an item."""
        names, checks = self._names, self._checks
        key: operations.Row = (checks[0](item.get(names[0])),)
        if len(names) > 1:
            key = (key[0], checks[1](item.get(names[1])))
        blob = pack(item)
        row = (*key, self._expiry(item), blob) if self._expires else (*key, blob)
        for name, check in self._extra:
            row = (*row, check(item[name]) if name in item else None)
        return blob, row

    def _expiry(self, item: Item) -> float | None:
        value = item.get(cast(str, self.table.expiry))
        if value is None or (type(value) is int and 0 < value < _INT64):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(
                f"expiry {self.table.expiry!r}: expected a number, got {type(value).__name__}"
            )
        if value >= _INT64:
            raise SchemaError(f"expiry {self.table.expiry!r} is out of range")
        return value if value > 0 else None

    def _predicate(self, condition: Condition) -> Predicate:
        found = self._predicates.get(condition)
        if found is None:
            if len(self._predicates) >= _MEMO:
                self._predicates.clear()
            found = self._predicates[condition] = compile_condition(condition)
        return found

    def _change(self, update: Update) -> Change:
        found = self._changes.get(update)
        if found is None:
            if len(self._changes) >= _MEMO:
                self._changes.clear()
            found = self._changes[update] = compile_update(self.table, update)
        return found

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
        self, sql: str, row: KeyTuple, limit: int | None, position: tuple[str, ...]
    ) -> Page:
        if limit is not None and limit < 1:
            raise SchemaError("a limit must be at least 1")
        most = _PAGE_ROWS if limit is None else min(limit, _PAGE_ROWS)
        if self._expires:
            row = (*row, self._clock())
        items, more = await self._read(lambda: self._collect(sql, row, most))
        if not more:
            return Page(items, None)
        last = items[-1]
        return Page(items, Cursor(tuple(cast(Scalar, last[name]) for name in position)))

    def _collect(self, sql: str, row: KeyTuple, most: int) -> tuple[list[Item], bool]:
        items: list[Item] = []
        size = 0
        cursor = self._reader.execute(sql, row)
        for (blob,) in cursor:
            if len(items) >= most or size >= _PAGE_BYTES:
                cursor.close()  # ends the read transaction
                return items, True
            assert isinstance(blob, bytes)
            items.append(unpack(blob))
            size += len(blob)
        return items, False

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


def _taken(values: Values | None) -> Mapping[str, Value]:
    if not values:
        return _NO_VALUES
    return {name: snapshot(value, name) for name, value in values.items()}


def _position(after: Cursor, checks: tuple[KeyCheck, ...]) -> KeyTuple:
    if len(after.position) != len(checks):
        raise SchemaError("the cursor belongs to another query")
    return tuple(check(value) for check, value in zip(checks, after.position, strict=True))
