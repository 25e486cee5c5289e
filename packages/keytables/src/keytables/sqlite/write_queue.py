"""The kinds of writes, and the queue in which they wait for their commit.

Rule: writes to one partition are applied in the order submitted. A put or delete that is not
applied yet may be left out when the next write to its key overwrites it: the same commit completes
both, so no caller sees a difference.

Nothing here touches the disk or waits; :mod:`keytables.sqlite.writer` applies the writes.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import apsw

from keytables.commit.completions import Completion, wake
from keytables.commit.conditional import Action, evaluated
from keytables.commit.writes import IncompleteWrites, Operation
from keytables.engine import Clock, WriteOptions
from keytables.errors import KeytablesError, StorageFull, Throttled, Unavailable
from keytables.packing import unpack
from keytables.sqlite.database import described
from keytables.sqlite.statements import BLOB, Row, Statements
from keytables.values import KeyTuple, Scalar

_MIN_ROW_SIZE: Final = 400
"""Bytes that a row of a batch counts for at least: smaller rows take as long."""


class RowOperation(Operation):
    """Changes a bounded number of rows inside an open transaction, or raises and changes nothing.

    ``partition``: the key of ``pending``, if it has one. ``table``: for errors.
    """

    __slots__ = ("partition", "pending", "table")

    is_slow = False
    """Whether it may take long: it then runs in the thread, in a transaction of its own."""

    def __init__(self, table: str, pending: "Pending | None", partition: Scalar, size: int) -> None:
        self.table, self.pending = table, pending
        self.partition, self.size = partition, size
        self.waiters = self.error = self.result = None

    @abstractmethod
    def apply(self, cursor: apsw.Cursor) -> object:
        """Return the result of the change."""

    def replace_with(self, _newer: "RowOperation") -> bool:
        """Become the newer write if that leaves the same rows and results; return whether so."""
        return False


Pending: TypeAlias = dict[Scalar, RowOperation]
"""Of one table: partitions to the last incomplete write to each."""


class PutRow(RowOperation):
    """``sort_column``: position in the row of the last column of the key."""

    __slots__ = ("is_applied", "row", "sort_column", "sql")

    def __init__(
        self, table: str, pending: Pending, sql: str, row: Row, sort_column: int, size: int
    ) -> None:
        self.table, self.pending = table, pending
        self.partition = row[0]  # type: ignore[assignment]  # a checked key
        self.size = size
        self.waiters = self.error = self.result = None
        self.sql, self.row, self.sort_column = sql, row, sort_column
        self.is_applied = False

    def apply(self, cursor: apsw.Cursor) -> object:
        self.is_applied = True
        cursor.execute(self.sql, self.row)
        return None

    def replace_with(self, newer: RowOperation) -> bool:
        if type(newer) is not PutRow and type(newer) is not DeleteRow:
            return False
        column = self.sort_column
        if newer.row[column] != self.row[column] or self.is_applied:
            return False
        self.sql, self.row = newer.sql, newer.row
        return True


class DeleteRow(PutRow):
    """``row`` holds the key only."""

    __slots__ = ()


class PutRows(RowOperation):
    """Rows of several partitions, part of a batch: a third of the cost of one operation each."""

    __slots__ = ("rows", "sql")

    pending: Pending

    def __init__(self, table: str, pending: Pending, sql: str, rows: Sequence[Row]) -> None:
        sizes = [max(len(row[BLOB]), _MIN_ROW_SIZE) for row in rows]  # type: ignore[arg-type]
        super().__init__(table, pending, "", sum(sizes))
        self.sql, self.rows = sql, rows

    @property
    def partitions(self) -> list[Scalar]:
        return [row[0] for row in self.rows]  # type: ignore[misc]  # checked keys

    def apply(self, cursor: apsw.Cursor) -> object:
        cursor.executemany(self.sql, self.rows)
        return None


class RunFunction(RowOperation):
    __slots__ = ("function", "is_slow")

    def __init__(
        self, function: Callable[[apsw.Cursor], object], *, table: str = "", is_slow: bool = False
    ) -> None:
        super().__init__(table, None, "", 0)
        self.function, self.is_slow = function, is_slow

    def apply(self, cursor: apsw.Cursor) -> object:
        return self.function(cursor)


class WriteRow(RowOperation):
    """A conditional write. ``only_blob``: it changes no other column. While it is applied, it is
    the stored item too.
    """

    __slots__ = (
        "_action",
        "_blob",
        "_clock",
        "_cursor",
        "_only_blob",
        "_statements",
        "argument",
        "condition",
        "item",
        "key",
        "returning",
        "values",
    )

    def __init__(
        self,
        pending: Pending,
        statements: Statements,
        key: KeyTuple,
        size: int,
        clock: Clock,
        options: WriteOptions,
        action: Action,
        argument: object = None,
        only_blob: bool = False,
    ) -> None:
        self.table, self.pending = statements.table.name, pending
        self.partition, self.size = key[0], size
        self.waiters = self.error = self.result = None
        self.key, self._statements, self._clock = key, statements, clock
        self.condition, self.values, self.returning = evaluated(options)
        self._action, self.argument, self._only_blob = action, argument, only_blob

    def apply(self, cursor: apsw.Cursor) -> object:
        key: Row = self.key
        statements = self._statements
        if statements.table.expiry is not None:
            key = (*key, self._clock())
        self._blob: bytes | None = cursor.execute(statements.get, key).get
        self.item = None if self._blob is None else unpack(self._blob)
        self._cursor = cursor
        return self._action(self, self)

    def put(self, row: Row) -> None:
        self._cursor.execute(self._statements.put, row)

    def replace(self, row: Row) -> bytes:
        changed: bytes = row[BLOB]  # type: ignore[assignment]
        if changed != self._blob:
            if self._blob is not None and self._only_blob:
                self._cursor.execute(self._statements.put_blob, (changed, *self.key))
            else:
                self._cursor.execute(self._statements.put, row)
        return changed

    def delete(self) -> None:
        self._cursor.execute(self._statements.delete, self.key)


class WriteQueue:
    """The incomplete writes of one process, in the order in which they are applied.

    ``on_work`` schedules a transaction, and never starts it at once. It is called when a write
    comes to an idle queue, and by :meth:`finish` when more are waiting.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_work: Callable[[], None],
        *,
        max_waiting: int,
        max_waiting_bytes: int,
    ) -> None:
        self._loop, self._on_work = loop, on_work
        self.writes = IncompleteWrites(
            loop, max_waiting=max_waiting, max_waiting_bytes=max_waiting_bytes
        )
        self.wait_for = self.writes.wait_for
        self.waiting: deque[RowOperation] = deque()
        self._is_active = False
        self._idle_waiters: list[asyncio.Future[None]] = []

    def submit(self, operation: RowOperation) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        self.submit_to(future, operation)
        return future

    def submit_to(self, completion: Completion, operation: RowOperation) -> None:
        if not self.writes.add(operation, completion):
            return
        pending = operation.pending
        if type(operation) is PutRows:
            operation.pending.update(dict.fromkeys(operation.partitions, operation))
        elif pending is not None:
            latest = pending.get(operation.partition)
            if latest is not None and latest.replace_with(operation):
                self.writes.replace(latest, operation)
                return
            pending[operation.partition] = operation
        self.waiting.append(operation)
        if not self._is_active:
            self._is_active = True
            self._on_work()

    def complete(self, operation: RowOperation, error: Exception | None) -> None:
        operation.error = error
        self._complete_all((operation,))

    def _complete_all(self, operations: Iterable[RowOperation]) -> None:
        complete = self.writes.complete
        for operation in operations:
            pending = operation.pending
            if type(operation) is PutRows:
                for partition in operation.partitions:
                    if operation.pending.get(partition) is operation:
                        del operation.pending[partition]
            elif pending is not None and pending.get(operation.partition) is operation:
                del pending[operation.partition]
            complete(operation, operation.error)

    def fail(self, operations: Iterable[RowOperation], failure: Exception) -> None:
        """Give each its own error, for a failure of their transaction."""
        kind: type[KeytablesError] = Unavailable
        if isinstance(failure, Throttled | StorageFull):
            kind = type(failure)
        text = str(described(failure))
        for operation in operations:
            error = kind(text)
            error.__cause__ = failure
            self.complete(operation, error)

    def finish(self, batch: Iterable[RowOperation], failure: Exception | None = None) -> None:
        """End a transaction (``failure``: it failed): complete its writes, go on or become idle."""
        if failure is None:
            self._complete_all(batch)
        else:
            self.fail(batch, failure)
        if self.waiting:
            # In a later iteration of the loop, so that what the completed ones lead to is included.
            self._on_work()
            return
        self._is_active = False
        waiters, self._idle_waiters = self._idle_waiters, []
        wake(waiters)

    def wait_idle(self) -> "asyncio.Future[None]":
        """Return a future that is done when the queue becomes idle the next time."""
        waiter = self._loop.create_future()
        self._idle_waiters.append(waiter)
        return waiter
