"""The writes of one table on SQLite; its reads are in `reads`.

The one rule: what can be refused is refused here, before anything is queued.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, cast

import apsw

from keytables.checks import key_check, snapshot
from keytables.engine import Clock
from keytables.errors import KeytablesError, SchemaError
from keytables.expressions import Condition, Returning, Update
from keytables.schema import Table
from keytables.sqlite import operations
from keytables.sqlite.codec import pack
from keytables.sqlite.compile import Change, Predicate, compile_condition, compile_update
from keytables.sqlite.indexes import Indexes
from keytables.sqlite.joint import Joint
from keytables.sqlite.reads import SqliteReads
from keytables.sqlite.scans import Scans
from keytables.sqlite.statements import Statements
from keytables.sqlite.writer import Writer
from keytables.values import MAX_SORT_KEY, Item, KeyTuple, Value, Values

__all__ = ["SqliteTable"]

_MEMO: Final = 1000
"""Compiled expressions kept. Declared ones are few; this bounds those made for each call."""

_TOGETHER: Final = 32
"""Rows of a batch that are one operation: a quarter of a millisecond of the loop."""

_INT64: Final = 2**63
_NO_VALUES: Final[Mapping[str, Value]] = {}


class SqliteTable(SqliteReads):
    """A table in a SQLite file. Made by the engine."""

    def __init__(
        self,
        table: Table,
        statements: Statements,
        *,
        writer: Writer,
        reader: apsw.Connection,
        scans: Scans,
        indexes: Indexes,
        clock: Clock,
    ) -> None:
        super().__init__(table, statements, writer=writer, reader=reader, scans=scans, clock=clock)
        self._indexes = indexes
        self._loop = asyncio.get_running_loop()
        self._last = len(self._names) - 1
        self._blob = self._last + 1 + self._expires
        self._keys = tuple(zip(self._names, self._checks, strict=True))
        self._extra = tuple((key.name, key_check(key, MAX_SORT_KEY)) for key in statements.extra)
        self._predicates: dict[Condition, Predicate] = {}
        self._changes: dict[Update, Change] = {}

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        try:
            blob, row = self._encode(item)
            operation: operations.Operation
            if condition is None:
                operation = operations.Put(
                    self.table.name,
                    self._pending,
                    self.statements.put,
                    row,
                    self._last,
                    len(blob),
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
        except KeytablesError as error:
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
        except KeytablesError as error:
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
                    self.table.name,
                    self._pending,
                    self.statements.delete,
                    checked,
                    self._last,
                    64,
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
        except KeytablesError as error:
            return self._refused(error)
        return self._writer.submit(operation)

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        name, pending, statements = self.table.name, self._pending, self.statements
        last = self._last
        batch: list[operations.Operation] = []
        try:
            rows = [self._encode(item)[1] for item in puts]
            keys = {row[: last + 1] for row in rows}
            gone = {self._key(key): None for key in deletes}
            if len(keys) < len(rows) or not keys.isdisjoint(gone):
                raise SchemaError("a batch puts a key twice, or puts and deletes it")
            for begin in range(0, len(rows), _TOGETHER):
                some = rows[begin : begin + _TOGETHER]
                batch.append(operations.Puts(name, pending, statements.put, some, self._blob))
            batch.extend(
                operations.Delete(name, pending, statements.delete, key, last, 64) for key in gone
            )
        except KeytablesError as error:
            return self._refused(error)
        future = self._loop.create_future()
        joint = Joint(future, len(batch))
        for operation in batch:
            self._writer.submit_to(operation, joint)
        return future

    def loading(self) -> AbstractAsyncContextManager[None]:
        return self._indexes.loading(self.statements)

    async def sweep(self, most: int, writes: int) -> int:
        """Delete expired items, at most ``most`` in each of so many writes; return how many."""
        if not self._expires:
            return 0
        now = self._clock()
        sql = self.statements.any_expired
        if not await self._read(lambda: self._reader.execute(sql, (now,)).get):
            return 0

        def delete(cursor: apsw.Cursor) -> int:
            cursor.execute(self.statements.sweep, (now, most))
            return cursor.connection.changes()

        calls = (operations.Call(delete, table=self.table.name) for _ in range(writes))
        return sum(await asyncio.gather(*map(self._writer.submit, calls)))

    def _refused(self, error: KeytablesError) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        future.set_exception(error)
        return future

    def _encode(self, item: Item) -> tuple[bytes, operations.Row]:
        """Return the blob and the row of an item."""
        row: list[str | int | float | bytes | None]
        row = [check(item.get(name)) for name, check in self._keys]
        blob = pack(item)
        if self._expires:
            row.append(self._expiry(item))
        row.append(blob)
        row += [check(item[name]) if name in item else None for name, check in self._extra]
        return blob, tuple(row)

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


def _taken(values: Values | None) -> Mapping[str, Value]:
    if not values:
        return _NO_VALUES
    return {name: snapshot(value, name) for name, value in values.items()}
