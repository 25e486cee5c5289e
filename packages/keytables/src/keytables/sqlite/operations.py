"""One submitted write, of each kind.

The one rule: an operation is complete in itself. It is applied inside an open transaction, changes
one row (or a bounded number), and either takes effect or raises and leaves no trace.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias

import apsw

from keytables.errors import ConditionFailed
from keytables.expressions import Returning
from keytables.sqlite.codec import unpack
from keytables.sqlite.compile import Change, Predicate
from keytables.sqlite.statements import Statements
from keytables.values import Item, Scalar, Value

__all__ = [
    "Call",
    "Delete",
    "JudgedDelete",
    "JudgedPut",
    "Operation",
    "Put",
    "Puts",
    "Row",
    "Sink",
    "Update",
]

Row: TypeAlias = tuple[str | int | float | bytes | None, ...]
"""The values of a row, in the order of ``Statements.put``."""


_LEAST: Final = 400
"""Bytes that a row of a batch counts for at least: small ones take as long."""


class Sink(Protocol):
    """Where the answer of an operation goes: a future, or one share of a joint answer."""

    def done(self) -> bool: ...
    def set_result(self, result: object, /) -> None: ...
    def set_exception(self, error: Exception, /) -> None: ...


class Operation(ABC):
    """A write from its submission to its answer.

    ``pending`` is the map, of the table it belongs to, from a partition to the last operation on it
    that has no answer yet; ``waiters`` are reads waiting for that answer. ``size`` is in bytes.
    ``table`` is for messages.
    """

    __slots__ = ("error", "partition", "pending", "result", "sink", "size", "table", "waiters")

    heavy = False
    """Whether it may take long, and so runs in the thread, in a transaction of its own."""

    result: object
    error: Exception | None
    sink: Sink
    waiters: list[asyncio.Future[None]] | None

    def __init__(
        self,
        table: str,
        pending: "dict[Scalar, Operation] | None",
        partition: Scalar,
        size: int,
    ) -> None:
        self.table = table
        self.pending = pending
        self.partition = partition
        self.size = size
        self.waiters = self.error = self.result = None

    @abstractmethod
    def apply(self, cursor: apsw.Cursor) -> object:
        """Make the change and return the answer."""

    def becomes(self, _newer: "Operation") -> bool:
        """Do instead what the next operation on the partition does, if nobody can tell.

        Returns whether it is so; then the newer one need not be applied.
        """
        return False


class Put(Operation):
    """Store a row, whatever was there. ``last`` is the place of the last column of its key."""

    __slots__ = ("applied", "last", "row", "sql")

    def __init__(
        self,
        table: str,
        pending: dict[Scalar, Operation],
        sql: str,
        row: Row,
        last: int,
        size: int,
    ) -> None:
        self.table = table
        self.pending = pending
        self.partition = row[0]  # type: ignore[assignment]  # a checked key
        self.size = size
        self.waiters = self.error = self.result = None
        self.sql, self.row, self.last = sql, row, last
        self.applied = False

    def apply(self, cursor: apsw.Cursor) -> object:
        self.applied = True
        cursor.execute(self.sql, self.row)
        return None

    def becomes(self, newer: Operation) -> bool:
        # Of two that look at nothing, on one key, only the second leaves something.
        if type(newer) is not Put and type(newer) is not Delete:
            return False
        last = self.last
        if newer.row[last] != self.row[last] or self.applied:
            return False
        self.sql, self.row = newer.sql, newer.row
        return True


class Puts(Operation):
    """Store several rows of several partitions, whatever was there: a part of a batch.

    ``blob`` is the place of the item's blob in a row. Measured, one operation for many rows costs
    a third of as many operations.
    """

    __slots__ = ("rows", "sql")

    pending: dict[Scalar, Operation]

    def __init__(
        self, table: str, pending: dict[Scalar, Operation], sql: str, rows: list[Row], blob: int
    ) -> None:
        sizes = [max(len(row[blob]), _LEAST) for row in rows]  # type: ignore[arg-type]  # bytes
        super().__init__(table, pending, "", sum(sizes))
        self.sql, self.rows = sql, rows

    @property
    def partitions(self) -> list[Scalar]:
        return [row[0] for row in self.rows]  # type: ignore[misc]  # checked keys

    def apply(self, cursor: apsw.Cursor) -> object:
        cursor.executemany(self.sql, self.rows)
        return None


class Delete(Put):
    """Delete a row, whatever it holds. ``row`` is its key alone."""

    __slots__ = ()


class _Judged(Operation):
    """A write that looks at the stored item first."""

    __slots__ = ("clock", "condition", "key", "returning", "statements", "values")

    def __init__(
        self,
        pending: dict[Scalar, Operation],
        statements: Statements,
        key: tuple[Scalar, ...],
        size: int,
        *,
        clock: Callable[[], float],
        condition: Predicate | None,
        values: Mapping[str, Value],
        returning: Returning = Returning.NOTHING,
    ) -> None:
        super().__init__(statements.table.name, pending, key[0], size)
        self.statements, self.key, self.clock = statements, key, clock
        self.condition, self.values, self.returning = condition, values, returning

    def stored(self, cursor: apsw.Cursor) -> bytes | None:
        """Return the blob of the live item, once its condition is seen to hold."""
        key: Row = self.key
        if self.statements.table.expiry is not None:
            key = (*key, self.clock())
        blob: bytes | None = cursor.execute(self.statements.get, key).get
        condition = self.condition
        if condition is not None:
            item = None if blob is None else unpack(blob)
            if not condition(item or {}, self.values):
                raise ConditionFailed(item)
        return blob

    def old(self, blob: bytes | None) -> Item | None:
        """Return the old item, if it was asked for."""
        if blob is None or self.returning is not Returning.OLD:
            return None
        return unpack(blob)


class JudgedPut(_Judged):
    """Store ``row`` if the condition holds."""

    __slots__ = ("row",)

    row: Row

    def apply(self, cursor: apsw.Cursor) -> object:
        self.stored(cursor)
        cursor.execute(self.statements.put, self.row)
        return None


class JudgedDelete(_Judged):
    """Delete the item if the condition holds, and return it if asked for."""

    __slots__ = ()

    def apply(self, cursor: apsw.Cursor) -> object:
        blob = self.stored(cursor)
        cursor.execute(self.statements.delete, self.key)
        return self.old(blob)


class Update(_Judged):
    """Change attributes of the item if the condition holds, making it when absent."""

    __slots__ = ("change", "creates", "encode")

    change: Change
    creates: bool
    encode: Callable[[Item], tuple[bytes, Row]]

    def apply(self, cursor: apsw.Cursor) -> object:
        blob = self.stored(cursor)
        if blob is None and not self.creates:
            return None
        if blob is None:
            item: Item = dict(zip(self.statements.table.key_names, self.key, strict=True))
        else:
            item = unpack(blob)
        self.change(item, self.values)
        changed, row = self.encode(item)
        if changed != blob:
            cursor.execute(self.statements.put, row)
        return unpack(changed) if self.returning is Returning.NEW else self.old(blob)


class Call(Operation):
    """Anything else inside a transaction: ``function`` is given the cursor."""

    __slots__ = ("function", "heavy")

    def __init__(
        self, function: Callable[[apsw.Cursor], object], *, table: str = "", heavy: bool = False
    ) -> None:
        super().__init__(table, None, "", 0)
        self.function, self.heavy = function, heavy

    def apply(self, cursor: apsw.Cursor) -> object:
        return self.function(cursor)
