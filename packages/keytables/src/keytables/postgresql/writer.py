"""Group commit: all writes that are ready go in one statement, one round trip and one commit.

Rule: the writes to an item are applied in the order submitted; no write is completed before the
commit that holds it. A write whose guard fails is evaluated again, and does not affect the others.

    submit ─▶ read the item, if the first operation needs it ─▶ ready ─▶ commit ─▶ completed
                        ▲                                                  │
                        └──────── another process changed the row ◀────────┘

What is submitted to an item meanwhile waits for its next commit. So several commits of a process
may be on their way at once: no two of them change one item.

A caller waits TIMEOUT at most. Then those whose commit was sent get Unconfirmed, and those that
wait behind it OutOfReach, as do all that come until the fate of that commit is known.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypeAlias

from keytables.commit.completions import Completion, clone_error
from keytables.commit.writes import IncompleteWrites
from keytables.engine import Clock
from keytables.errors import (
    AccessRefused,
    KeytablesError,
    OutOfReach,
    SchemaError,
    StorageFull,
    Throttled,
    Unavailable,
    Unconfirmed,
)
from keytables.failures import FailureReports
from keytables.postgresql.commits import CommitConnection
from keytables.postgresql.connections import TIMEOUT, Connector
from keytables.postgresql.failures import ConnectionLost, NoConnection, NotApplied
from keytables.postgresql.operations import UNREAD, ItemOperation, RowChange, Stored, fold
from keytables.postgresql.reads import ItemReads
from keytables.postgresql.statements import GUARDED, Change, TableStatements
from keytables.retries import Backoff
from keytables.values import KeyTuple, Scalar

MAX_BATCH: Final = 1000
MAX_BATCH_BYTES: Final = 4 << 20
"""Bounds of one commit."""

_MAX_EVALUATIONS: Final = 50
"""Of a write whose row other processes keep changing."""

_OPEN_AGAIN: Final = Backoff(1.0, 30.0, jitter=0.5)
"""Pauses between attempts to open a further connection: writes do without it."""

_GIVE_UP_AFTER: Final = 0.9 * TIMEOUT
"""Seconds after which callers get an error: before the connection is given up."""

_LOOK_FOR: Final = 1.0
"""Seconds before that in which the reason is looked for."""

_NO_ANSWER: Final = "the database did not answer in time"

_LONGEST_PAUSE: Final = 0.005
"""Seconds that writes which are ready wait at most, while a connection is free."""


class TableWrites:
    """The incomplete writes of one table: partitions to keys to the writes of one item."""

    def __init__(self, statements: TableStatements, reads: ItemReads) -> None:
        self.statements, self.reads = statements, reads
        self.encode_key = statements.columns.encode_key
        self.partitions: dict[Scalar, dict[KeyTuple, ItemWrites]] = {}

    def of_key(self, key: KeyTuple) -> "list[ItemWrites]":
        writes = self.partitions.get(key[0], {}).get(key)
        return [] if writes is None else [writes]

    def of_partition(self, partition: Scalar) -> "list[ItemWrites]":
        return list(self.partitions.get(partition, {}).values())

    def all(self) -> "list[ItemWrites]":
        return [writes for keys in self.partitions.values() for writes in keys.values()]


class ItemWrites:
    """The incomplete writes to one item, in order. ``in_commit``: how many are in the commit;
    ``is_overdue``: whether their callers have got an error, as it takes too long.
    """

    __slots__ = ("evaluations", "in_commit", "is_overdue", "key", "operations", "stored", "table")

    def __init__(self, table: TableWrites, key: KeyTuple, first: ItemOperation) -> None:
        self.table, self.key, self.operations = table, key, [first]
        self.stored: object = UNREAD
        self.in_commit = self.evaluations = 0
        self.is_overdue = False


class GroupCommit:
    """The incomplete writes of one process; those over ``max_waiting`` or ``max_waiting_bytes`` are
    Throttled. ``connections``: commits on their way at once; the first one is open.
    """

    def __init__(
        self,
        connector: Connector,
        connections: Sequence[CommitConnection],
        failures: FailureReports,
        schema: str,
        *,
        clock: Clock,
        max_waiting: int,
        max_waiting_bytes: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connector, self._failures, self._clock = connector, failures, clock
        self._connections = connections
        self._free, self._unopened = deque(connections[:1]), deque(connections[1:])
        self._writes = IncompleteWrites(
            self._loop, max_waiting=max_waiting, max_waiting_bytes=max_waiting_bytes
        )
        self._ready: deque[ItemWrites] = deque()
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_beginning = False
        self._timer: asyncio.TimerHandle | None = None
        self._next_begin = self._usual = 0.0
        self._failed_openings, self._open_again_at = 0, 0.0
        self._given_up: set[CommitConnection] = set()  # their callers have an error already
        self.trouble = ""
        """Why commits are not confirmed now, as far as it is known."""
        self._random = random.Random()  # noqa: S311 - numbers that are not alike, no secrets
        self._log = f'INSERT INTO {schema}."~commits" (id, rows) SELECT $1, '

    @property
    def is_closed(self) -> bool:
        return self._writes.is_closed

    def new_number(self) -> int:
        return self._random.getrandbits(62) + 1  # 0 is none

    # --- submission ---------------------------------------------------------------------------

    def submit(
        self, table: TableWrites, key: KeyTuple, operation: ItemOperation
    ) -> "asyncio.Future[Any]":
        future = self._loop.create_future()
        self.submit_to(future, table, key, operation)
        return future

    def submit_to(
        self, completion: Completion, table: TableWrites, key: KeyTuple, operation: ItemOperation
    ) -> None:
        if self._given_up and self._is_blocked and not self.is_closed:
            completion.set_exception(OutOfReach(self.trouble or _NO_ANSWER))
            return
        keys = table.partitions.get(key[0])
        writes = None if keys is None else keys.get(key)
        if writes is not None and writes.is_overdue:
            if not self._writes.refuses(completion):
                completion.set_exception(OutOfReach(self.trouble or _NO_ANSWER))
            return
        if not self._writes.add(operation, completion):
            return
        if writes is None:
            writes = ItemWrites(table, key, operation)
            table.partitions.setdefault(key[0], {})[key] = writes
            self._prepare(writes)
        else:
            writes.operations.append(operation)

    async def wait_for(self, writes: Iterable[ItemWrites]) -> None:
        """Wait for what was submitted to these items until now."""
        for future in [self._writes.wait_for(each.operations[-1]) for each in writes]:
            await future

    async def close(self) -> None:
        """Complete everything submitted, then close the connections."""
        self._writes.is_closed = True
        await self._writes.wait_empty()
        for task in self._tasks:  # at most one that opens a connection
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in self._connections:
            await connection.close()

    # --- from submission to commit ------------------------------------------------------------

    def _prepare(self, writes: ItemWrites) -> None:
        """Read the item if its first operation needs it; then it is ready."""
        if not writes.operations[0].needs_stored:
            writes.stored = UNREAD
            self._set_ready(writes)
            return

        def on_read(future: "asyncio.Future[Stored | None]") -> None:
            error = future.exception()
            if error is None:
                writes.stored = future.result()
                self._set_ready(writes)
                return
            self._fail_all([writes], error)

        writes.table.reads.read(writes.key).add_done_callback(on_read)

    def _set_ready(self, writes: ItemWrites) -> None:
        if self._given_up and self._is_blocked:
            self._fail_all([writes], OutOfReach(self.trouble or _NO_ANSWER))
            return
        self._ready.append(writes)
        if not self._is_beginning and self._timer is None:
            self._begin()

    def _begin(self) -> None:
        """Begin the next commit: at once if none is on its way, else at an even distance to the
        others, so that a database far away does not make commits smaller than they need to be.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._free:
            self._open_another()
            return
        pause = self._next_begin - self._loop.time() if self._under_way else 0.0
        if pause > 0.0:
            self._timer = self._loop.call_later(pause, self._begin)
            return
        self._is_beginning = True
        self._under_way += 1
        self._start(self._commit_ready(self._free.popleft()))

    def _start(self, coroutine: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _commit_ready(self, connection: CommitConnection) -> None:
        """Commit what is ready when this begins: with what else that turn of the loop submits."""
        self._is_beginning = False
        begun = self._loop.time()
        self._next_begin = begun + min(self._usual / len(self._connections), _LONGEST_PAUSE)
        batch = self._take()
        timer = self._loop.call_later(
            _GIVE_UP_AFTER - _LOOK_FOR, self._start_giving_up, connection, batch
        )
        try:
            await self._commit(connection, batch)
        except Exception as error:  # noqa: BLE001 - the writes of the batch get it
            self._failures.report(error)
            self._fail(batch, error)
        finally:
            timer.cancel()
            self._given_up.discard(connection)
            self._usual += (self._loop.time() - begun - self._usual) / 8
            self._under_way -= 1
            is_usable = connection.is_open or connection is self._connections[0]
            (self._free if is_usable else self._unopened).append(connection)
            if self._ready and not self._is_beginning:
                self._begin()

    @property
    def _is_blocked(self) -> bool:
        return len(self._given_up) == self._under_way

    def _start_giving_up(self, connection: CommitConnection, batch: list[ItemWrites]) -> None:
        self._start(self._give_up(connection, batch))

    async def _give_up(self, connection: CommitConnection, batch: list[ItemWrites]) -> None:
        """Give the callers of a commit their error. It goes on, and its items keep their order."""
        deadline = self._loop.time() + _LOOK_FOR
        if connection.is_sent:
            self.trouble = await connection.what_it_waits_for(deadline)
        await asyncio.sleep(deadline - self._loop.time())
        late = [writes for writes in batch if writes.in_commit]
        if not late:
            return  # it has ended
        reason = self.trouble or _NO_ANSWER
        failure = Unconfirmed(reason) if connection.is_sent else OutOfReach(reason)
        self._failures.report(failure)
        self._given_up.add(connection)
        for writes in late:
            writes.is_overdue = True
            waiting = writes.operations[writes.in_commit :]
            del writes.operations[writes.in_commit :]
            for operation in writes.operations:
                self._writes.answer(operation, failure)
            for operation in waiting:
                self._writes.complete(operation, OutOfReach(reason))
        if self._is_blocked:
            ready = list(self._ready)
            self._ready.clear()
            self._fail_all(ready, OutOfReach(reason))

    def _open_another(self) -> None:
        """Open a further connection, in the background."""
        if self._unopened and self._loop.time() >= self._open_again_at:
            self._start(self._open(self._unopened.popleft()))

    async def _open(self, connection: CommitConnection) -> None:
        # Others wait until this attempt has ended.
        self._open_again_at = math.inf
        try:
            await connection.open()
        except KeytablesError as error:
            self._failures.report(error)
            self._failed_openings += 1
            self._unopened.append(connection)
            self._open_again_at = self._loop.time() + _OPEN_AGAIN.delay(self._failed_openings)
            return
        self._failed_openings, self._open_again_at = 0, 0.0
        self._free.append(connection)
        if self._ready and not self._is_beginning:
            self._begin()

    def _take(self) -> list[ItemWrites]:
        ready, batch = self._ready, list[ItemWrites]()
        if (
            self._writes.count <= MAX_BATCH and self._writes.bytes <= MAX_BATCH_BYTES
        ):  # all of them fit
            batch += ready
            ready.clear()
            for writes in batch:
                writes.in_commit = len(writes.operations)
            return batch
        count = size = 0
        while ready and count < MAX_BATCH and size < MAX_BATCH_BYTES:
            writes = ready.popleft()
            writes.in_commit = len(writes.operations)
            count += writes.in_commit
            size += sum(operation.size for operation in writes.operations)
            batch.append(writes)
        return batch

    async def _commit(self, connection: CommitConnection, batch: list[ItemWrites]) -> None:
        now = self._clock()
        changes: list[tuple[ItemWrites, RowChange]] = []
        unchanged: list[ItemWrites] = []
        new_number = self.new_number
        for writes in batch:
            operations = writes.operations[: writes.in_commit]
            encode_key = writes.table.encode_key
            change = fold(operations, writes.key, encode_key, writes.stored, now, new_number)
            if change is None:
                unchanged.append(writes)
            else:
                changes.append((writes, change))
        self._finish(unchanged)
        if not changes:
            return
        try:
            done = await connection.commit(*_statement(self._log, changes))
        except (SchemaError, StorageFull, AccessRefused) as error:
            if len(changes) == 1:
                self._failures.report(error)
                self._fail([changes[0][0]], error)
                return
            # One of them may be the only one that the database does not take.
            half = len(changes) // 2
            for some in (changes[:half], changes[half:]):
                await self._commit(connection, [writes for writes, _ in some])
            return
        except KeytablesError as error:
            self._failures.report(error)
            self._fail([writes for writes, _ in changes], _of_caller(error))
            return
        applied = [each for each, (_, _, number) in changes if not number or number in done]
        self.trouble = ""
        self._connector.activity.commits += 1
        self._connector.activity.written += len(applied)
        self._finish(applied)
        if len(applied) < len(changes):
            for writes, (_, _, number) in changes:
                if number and number not in done:
                    self._evaluate_again(writes)

    def _evaluate_again(self, writes: ItemWrites) -> None:
        writes.evaluations += 1
        if writes.evaluations >= _MAX_EVALUATIONS:
            self._fail([writes], Throttled("other processes keep changing the item"))
            return
        writes.in_commit = 0
        self._prepare(writes)

    # --- completion ---------------------------------------------------------------------------

    def _fail(self, batch: Iterable[ItemWrites], error: BaseException) -> None:
        failure = error if isinstance(error, KeytablesError) else Unavailable(str(error))
        batch = [writes for writes in batch if writes.in_commit]
        for writes in batch:
            for operation in writes.operations[: writes.in_commit]:
                operation.error = clone_error(failure)
        self._finish(batch)

    def _fail_all(self, batch: Sequence[ItemWrites], error: BaseException) -> None:
        """With what was not taken yet."""
        for writes in batch:
            writes.in_commit = len(writes.operations)
        self._fail(batch, error)

    def _finish(self, batch: Iterable[ItemWrites]) -> None:
        for writes in batch:
            done, left = writes.operations, writes.operations[writes.in_commit :]
            if left:
                del done[writes.in_commit :]
                writes.operations = left
            writes.in_commit = writes.evaluations = 0
            writes.is_overdue = False
            if not left:
                key, partitions = writes.key, writes.table.partitions
                keys = partitions[key[0]]
                del keys[key]
                if not keys:
                    del partitions[key[0]]
            for operation in done:
                self._writes.complete(operation, operation.error)
            if left:
                self._prepare(writes)


def _of_caller(error: KeytablesError) -> KeytablesError:
    if isinstance(error, NoConnection):
        return OutOfReach(str(error))
    if isinstance(error, NotApplied):
        return Throttled(str(error))
    return Unconfirmed(str(error)) if isinstance(error, ConnectionLost) else error


Shape: TypeAlias = tuple[tuple[TableStatements, Change], ...]
"""The kinds of changes of a commit, in the order of its statement."""


def _statement(
    log: str, changes: Sequence[tuple[ItemWrites, RowChange]]
) -> tuple[str, list[list[object]], str]:
    """Return the statement of a commit, its arrays, and the names of its tables for errors."""
    groups: dict[tuple[TableStatements, Change], list[tuple[object, ...]]] = {}
    for writes, (kind, values, _) in changes:
        group = writes.table.statements, kind
        rows = groups.get(group)
        if rows is None:
            groups[group] = [values]
        else:
            rows.append(values)
    shape = tuple(sorted(groups, key=lambda group: (group[0].name, group[1])))
    arrays: list[list[object]] = []
    for group in shape:
        rows = groups[group]
        # Locks are taken in the order of the keys by every process.
        rows.sort(key=itemgetter(slice(len(group[0].keys))))
        arrays += map(list, zip(*rows, strict=True))
    sql, tables = _statement_of(log, shape)
    return sql, arrays, tables


@lru_cache(maxsize=500)
def _statement_of(log: str, shape: Shape) -> tuple[str, str]:
    """Return the SQL of commits with these changes, and the names of their tables."""
    parts: list[str] = []
    numbers: list[str] = []
    first = 2
    for statements, kind in shape:
        sql, count = statements.change(kind, first)
        name = f"part{len(parts)}"
        parts.append(f"{name} AS ({sql})")
        if kind in GUARDED:
            numbers.append(f"SELECT row FROM {name}")  # noqa: S608
        first += count
    collected = f"ARRAY({' UNION ALL '.join(numbers)})" if numbers else "'{}'::bigint[]"
    tables = {statements.columns.table.name for statements, _ in shape}
    return (f"WITH {', '.join(parts)} {log}{collected} RETURNING rows", ", ".join(sorted(tables)))
