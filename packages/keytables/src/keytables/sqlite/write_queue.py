"""The kinds of writes, and the queue in which they wait for their commit.

Rule: writes to one partition are applied in the order submitted. A put or delete that is not
applied yet may be left out when the next write to its key overwrites it: the same commit completes
both, so no caller sees a difference.

Nothing here touches the disk or waits; :mod:`keytables.sqlite.writer` applies the writes.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast

import apsw

from keytables.checks import snapshot_all
from keytables.completions import Completion, clone_error
from keytables.engine import WriteOptions
from keytables.errors import (
    ConditionFailed,
    KeytablesError,
    StorageFull,
    StoreClosed,
    Throttled,
    Unavailable,
)
from keytables.expressions import Change, Returning, compile_condition
from keytables.packing import unpack
from keytables.sqlite.database import described
from keytables.sqlite.statements import Row, RowCodec, Statements
from keytables.values import Item, KeyTuple, Scalar

_MIN_ROW_SIZE: Final = 400
"""Bytes that a row of a batch counts for at least: smaller rows take as long."""


class Operation(ABC):
    """A write from its submission to its completion: it changes a bounded number of rows inside an
    open transaction, or raises and changes nothing.

    ``partition``: the key of ``pending``, if it has one. ``size``: bytes. ``table``: for errors.
    ``waiters``: reads that wait for the completion.
    """

    __slots__ = (
        "completion",
        "error",
        "partition",
        "pending",
        "result",
        "size",
        "table",
        "waiters",
    )

    is_slow = False
    """Whether it may take long: it then runs in the thread, in a transaction of its own."""

    completion: Completion
    error: Exception | None
    result: object
    waiters: list[asyncio.Future[None]] | None

    def __init__(self, table: str, pending: "Pending | None", partition: Scalar, size: int) -> None:
        self.table, self.pending = table, pending
        self.partition, self.size = partition, size
        self.waiters = self.error = self.result = None

    @abstractmethod
    def apply(self, cursor: apsw.Cursor) -> object:
        """Return the result of the change."""

    def replace_with(self, _newer: "Operation") -> bool:
        """Become the newer write if that leaves the same rows and results; return whether so."""
        return False


Pending: TypeAlias = dict[Scalar, Operation]
"""Of one table: partitions to the last incomplete write to each."""


class PutRow(Operation):
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

    def replace_with(self, newer: Operation) -> bool:
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


class PutRows(Operation):
    """Rows of several partitions, part of a batch: a third of the cost of one operation each.

    ``blob_column``: position of the item's blob in a row.
    """

    __slots__ = ("rows", "sql")

    pending: Pending

    def __init__(
        self, table: str, pending: Pending, sql: str, rows: list[Row], blob_column: int
    ) -> None:
        sizes = [max(len(row[blob_column]), _MIN_ROW_SIZE) for row in rows]  # type: ignore[arg-type]
        super().__init__(table, pending, "", sum(sizes))
        self.sql, self.rows = sql, rows

    @property
    def partitions(self) -> list[Scalar]:
        return [row[0] for row in self.rows]  # type: ignore[misc]  # checked keys

    def apply(self, cursor: apsw.Cursor) -> object:
        cursor.executemany(self.sql, self.rows)
        return None


class RunFunction(Operation):
    __slots__ = ("function", "is_slow")

    def __init__(
        self, function: Callable[[apsw.Cursor], object], *, table: str = "", is_slow: bool = False
    ) -> None:
        super().__init__(table, None, "", 0)
        self.function, self.is_slow = function, is_slow

    def apply(self, cursor: apsw.Cursor) -> object:
        return self.function(cursor)


# --- writes that read the stored item first -------------------------------------------------------


class _ConditionalOperation(Operation):
    __slots__ = ("clock", "condition", "key", "returning", "statements", "values")

    def __init__(
        self,
        pending: Pending,
        statements: Statements,
        key: KeyTuple,
        size: int,
        clock: Callable[[], float],
        options: WriteOptions,
    ) -> None:
        self.table, self.pending = statements.table.name, pending
        self.partition, self.size = key[0], size
        self.waiters = self.error = self.result = None
        self.statements, self.key, self.clock = statements, key, clock
        condition, values, self.returning = options.condition, options.values, options.returning
        self.condition = None if condition is None else compile_condition(condition)
        self.values = snapshot_all(values)

    def read(self, cursor: apsw.Cursor) -> tuple[Item | None, bytes | None]:
        """Return the stored item and its blob, unless it is expired. Raises ConditionFailed."""
        key: Row = self.key
        if self.statements.table.expiry is not None:
            key = (*key, self.clock())
        blob: bytes | None = cursor.execute(self.statements.get, key).get
        item = None if blob is None else unpack(blob)
        if self.condition is not None and not self.condition(item or {}, self.values):
            raise ConditionFailed(item)
        return item, blob


class ConditionalPutRow(_ConditionalOperation):
    __slots__ = ("row",)

    row: Row

    def apply(self, cursor: apsw.Cursor) -> object:
        self.read(cursor)
        cursor.execute(self.statements.put, self.row)
        return None


class ConditionalDeleteRow(_ConditionalOperation):
    __slots__ = ()

    def apply(self, cursor: apsw.Cursor) -> object:
        item, _ = self.read(cursor)
        cursor.execute(self.statements.delete, self.key)
        return item if self.returning is Returning.OLD else None


class UpdateRow(_ConditionalOperation):
    """``only_blob``: the update changes no other column."""

    __slots__ = ("change", "codec", "creates", "only_blob")

    change: Change
    codec: RowCodec
    creates: bool
    only_blob: bool

    def apply(self, cursor: apsw.Cursor) -> object:
        old, blob = self.read(cursor)
        if old is None and not self.creates:
            return None
        if old is None:
            item: Item = dict(zip(self.statements.table.key_names, self.key, strict=True))
        else:
            item = old.copy()
        self.change(item, self.values)
        row = self.codec.row(item)
        changed = cast(bytes, row[self.codec.blob_column])
        if changed != blob:
            if old is not None and self.only_blob:
                cursor.execute(self.statements.put_blob, (changed, *self.key))
            else:
                cursor.execute(self.statements.put, row)
        if self.returning is Returning.NEW:
            return unpack(changed)
        return old if self.returning is Returning.OLD else None


# --- the queue ------------------------------------------------------------------------------------


class FanOutFuture:
    __slots__ = ("completions",)

    def __init__(self, first: Completion) -> None:
        self.completions = [first]

    def done(self) -> bool:
        return False

    def set_result(self, result: object, /) -> None:
        for completion in self.completions:
            if not completion.done():
                completion.set_result(result)

    def set_exception(self, error: Exception, /) -> None:
        for number, completion in enumerate(self.completions):
            if not completion.done():
                completion.set_exception(clone_error(error) if number else error)


class WriteQueue:
    """The incomplete writes of one process; those over ``max_waiting`` or ``max_waiting_bytes`` are
    Throttled.

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
        self._max_waiting, self._max_waiting_bytes = max_waiting, max_waiting_bytes
        self.waiting: deque[Operation] = deque()
        self._count = self._bytes = 0
        self._is_active = self.is_closed = False
        self._idle_waiters: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        """The number of incomplete writes, including replaced ones."""
        return self._count

    def submit(self, operation: Operation) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        self.submit_to(future, operation)
        return future

    def submit_to(self, completion: Completion, operation: Operation) -> None:
        if self.is_closed:
            completion.set_exception(StoreClosed("the store is closed"))
            return
        if self._count >= self._max_waiting or self._bytes >= self._max_waiting_bytes:
            completion.set_exception(
                Throttled(f"{self._count} writes with {self._bytes} bytes are waiting already")
            )
            return
        pending = operation.pending
        if type(operation) is PutRows:
            operation.pending.update(dict.fromkeys(operation.partitions, operation))
        elif pending is not None:
            latest = pending.get(operation.partition)
            if latest is not None and latest.replace_with(operation):
                self._replaced(latest, operation, completion)
                return
            pending[operation.partition] = operation
        operation.completion = completion
        self._count += 1
        self._bytes += operation.size
        self.waiting.append(operation)
        if not self._is_active:
            self._is_active = True
            self._on_work()

    def _replaced(self, latest: Operation, newer: Operation, completion: Completion) -> None:
        self._count += 1
        self._bytes += newer.size - latest.size
        latest.size = newer.size
        fan_out = latest.completion
        if not isinstance(fan_out, FanOutFuture):
            fan_out = latest.completion = FanOutFuture(fan_out)
        fan_out.completions.append(completion)

    def wait_for(self, operation: Operation) -> "asyncio.Future[None]":
        waiter = self._loop.create_future()
        if operation.waiters is None:
            operation.waiters = []
        operation.waiters.append(waiter)
        return waiter

    def complete(self, operation: Operation, error: Exception | None) -> None:
        self._count -= 1
        self._bytes -= operation.size
        pending = operation.pending
        if type(operation) is PutRows:
            for partition in operation.partitions:
                if operation.pending.get(partition) is operation:
                    del operation.pending[partition]
        elif pending is not None and pending.get(operation.partition) is operation:
            del pending[operation.partition]
        completion = operation.completion
        if isinstance(completion, FanOutFuture):
            self._count -= len(completion.completions) - 1
        if not completion.done():
            if error is None:
                completion.set_result(operation.result)
            else:
                completion.set_exception(error)
        if operation.waiters is not None:
            _wake(operation.waiters)

    def fail(self, operations: Iterable[Operation], failure: Exception) -> None:
        """Give each its own error, for a failure of their transaction."""
        kind: type[KeytablesError] = Unavailable
        if isinstance(failure, Throttled | StorageFull):
            kind = type(failure)
        text = str(described(failure))
        for operation in operations:
            error = kind(text)
            error.__cause__ = failure
            self.complete(operation, error)

    def finish(self, batch: Iterable[Operation], failure: Exception | None = None) -> None:
        """End a transaction (``failure``: it failed): complete its writes, go on or become idle."""
        if failure is None:
            for operation in batch:
                self.complete(operation, operation.error)
        else:
            self.fail(batch, failure)
        if self.waiting:
            # In a later iteration of the loop, so that what the completed ones lead to is included.
            self._on_work()
            return
        self._is_active = False
        if self._idle_waiters:
            self.wake_idle_waiters()

    def wake_idle_waiters(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        _wake(waiters)

    def wait_idle(self) -> "asyncio.Future[None]":
        """Return a future that is done when the queue becomes idle or empty the next time."""
        waiter = self._loop.create_future()
        self._idle_waiters.append(waiter)
        return waiter


def _wake(waiters: list["asyncio.Future[None]"]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
