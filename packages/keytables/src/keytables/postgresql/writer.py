"""Group commit: all writes that are ready go in one statement, one round trip and one commit.

Rule: the writes to an item are applied in the order submitted; no write is completed before the
commit that holds it. A write whose guard fails is evaluated again, and does not affect the others.

    submit ─▶ read the item, if the first operation needs it ─▶ ready ─▶ commit ─▶ completed
                        ▲                                                  │
                        └──────── another process changed the row ◀────────┘

What is submitted to an item meanwhile waits for the next commit. An answer that is lost leaves the
question whether its commit was made: the server's process is ended, so that it cannot be made any
more, and then the row is looked for that each commit leaves in ``~commits``.
"""

import asyncio
import itertools
import random
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from keytables.completions import Completion, clone_error
from keytables.engine import Clock
from keytables.errors import (
    AccessRefused,
    KeytablesError,
    SchemaError,
    StorageFull,
    StoreClosed,
    Throttled,
    Unavailable,
)
from keytables.postgresql.connections import (
    ANSWER_TIMEOUT,
    STATEMENT_TIMEOUT,
    Backend,
    Connector,
    Session,
)
from keytables.postgresql.failures import ConnectionLost, FailureReports, NotApplied
from keytables.postgresql.operations import UNREAD, ItemOperation, RowChange, Stored, fold
from keytables.postgresql.reads import ItemReads
from keytables.postgresql.statements import GUARDED, Change, TableStatements
from keytables.retries import Backoff
from keytables.values import KeyTuple, Scalar

WRITE_TIMEOUT: Final = 5.0
"""Seconds for which a commit is tried again; longer only for one that may have been made."""

_SETTLED_AFTER: Final = STATEMENT_TIMEOUT + 1.0
"""Seconds after which a statement that was sent has ended in the server, seen or not."""

MAX_BATCH: Final = 1000
MAX_BATCH_BYTES: Final = 4 << 20
"""Bounds of one commit."""

_MAX_EVALUATIONS: Final = 50
"""Of a write whose row other processes keep changing."""

_BACKOFF: Final = Backoff(0.02, 0.5)
_FENCE_INTERVAL: Final = 0.02

_END_BACKEND: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2"
)


class TableWrites:
    """The incomplete writes of one table: partitions to keys to the writes of one item."""

    def __init__(self, statements: TableStatements, reads: ItemReads) -> None:
        self.statements, self.reads = statements, reads
        self.encode_key = statements.columns.encode_key
        self.partitions: dict[Scalar, dict[KeyTuple, ItemWrites]] = {}

    def of_key(self, key: KeyTuple) -> "list[ItemWrites]":
        found = self.partitions.get(key[0], {}).get(key)
        return [] if found is None else [found]

    def of_partition(self, partition: Scalar) -> "list[ItemWrites]":
        return list(self.partitions.get(partition, {}).values())

    def all(self) -> "list[ItemWrites]":
        return [writes for keys in self.partitions.values() for writes in keys.values()]


class ItemWrites:
    """The incomplete writes to one item, in order. ``taken``: how many are in the commit."""

    __slots__ = ("evaluations", "key", "operations", "stored", "table", "taken")

    def __init__(self, table: TableWrites, key: KeyTuple) -> None:
        self.table, self.key = table, key
        self.operations: list[ItemOperation] = []
        self.stored: object = UNREAD
        self.taken = self.evaluations = 0


class GroupCommit:
    """The incomplete writes of one process; those over ``max_waiting`` or ``max_waiting_bytes`` are
    Throttled. ``schema``: the quoted name of the store's schema.
    """

    def __init__(
        self,
        connector: Connector,
        session: Session,
        failures: FailureReports,
        schema: str,
        *,
        clock: Clock,
        max_waiting: int,
        max_waiting_bytes: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._connector, self._failures, self._clock = connector, failures, clock
        self._session: Session | None = session
        self._max_waiting, self._max_waiting_bytes = max_waiting, max_waiting_bytes
        self._ready: deque[ItemWrites] = deque()
        self._count = self._bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._lost: list[Backend] = []
        self._random = random.Random()  # noqa: S311 - numbers that are not alike, no secrets
        self._log = f'INSERT INTO {schema}."~commits" (id, rows) SELECT $1, '
        # An update, so that the answer waits for what the lost one waited for: with a synchronous
        # standby, a session that is ended leaves a commit that may be on the primary alone.
        self._find = f'UPDATE {schema}."~commits" SET rows = rows WHERE id = $1 RETURNING rows'  # noqa: S608
        self.is_closed = False

    def new_number(self) -> int:
        return self._random.getrandbits(62)

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
        if self.is_closed:
            completion.set_exception(StoreClosed("the store is closed"))
            return
        if self._count >= self._max_waiting or self._bytes >= self._max_waiting_bytes:
            completion.set_exception(
                Throttled(f"{self._count} writes with {self._bytes} bytes are waiting already")
            )
            return
        operation.completion = completion
        self._count += 1
        self._bytes += operation.size
        self._idle.clear()
        keys = table.partitions.setdefault(key[0], {})
        writes = keys.get(key)
        if writes is None:
            writes = keys[key] = ItemWrites(table, key)
            writes.operations.append(operation)
            self._prepare(writes)
        else:
            writes.operations.append(operation)

    async def wait_for(self, writes: Iterable[ItemWrites]) -> None:
        """Wait for what was submitted to these items until now."""
        futures = []
        for each in writes:
            operation, future = each.operations[-1], self._loop.create_future()
            operation.waiters = [*(operation.waiters or ()), future]
            futures.append(future)
        for future in futures:
            await future

    async def close(self) -> None:
        """Complete everything submitted, then close the session."""
        self.is_closed = True
        await self._idle.wait()
        if self._session is not None:
            await self._session.close()

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
            writes.taken = len(writes.operations)
            self._fail([writes], error)

        writes.table.reads.read(writes.key).add_done_callback(on_read)

    def _set_ready(self, writes: ItemWrites) -> None:
        self._ready.append(writes)
        if self._task is None:
            # It begins in the next turn of the loop, with what else this one submits.
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._ready:
                batch = self._take()
                try:
                    await self._commit(batch)
                except Exception as error:  # noqa: BLE001 - the writes of the batch get it
                    self._failures.report(error)
                    self._fail(batch, error)
        finally:
            self._task = None

    def _take(self) -> list[ItemWrites]:
        batch: list[ItemWrites] = []
        count = size = 0
        while self._ready and count < MAX_BATCH and size < MAX_BATCH_BYTES:
            writes = self._ready.popleft()
            writes.taken = len(writes.operations)
            count += writes.taken
            size += sum(operation.size for operation in writes.operations)
            batch.append(writes)
        return batch

    async def _commit(self, batch: list[ItemWrites]) -> None:
        now = self._clock()
        changes: list[tuple[ItemWrites, RowChange]] = []
        unchanged: list[ItemWrites] = []
        for writes in batch:
            operations = writes.operations[: writes.taken]
            change = fold(
                operations,
                writes.key,
                writes.table.encode_key,
                writes.stored,
                now,
                self.new_number,
            )
            if change is None:
                unchanged.append(writes)
            else:
                changes.append((writes, change))
        self._finish(unchanged)
        if not changes:
            return
        try:
            done = await self._execute(changes)
        except (SchemaError, StorageFull, AccessRefused) as error:
            if len(changes) == 1:
                self._failures.report(error)
                self._fail([changes[0][0]], error)
                return
            # One of them may be the only one that the database does not take.
            for writes, _ in changes:
                await self._commit([writes])
            return
        except KeytablesError as error:
            self._failures.report(error)
            failure = Throttled(str(error)) if isinstance(error, NotApplied) else error
            self._fail([writes for writes, _ in changes], failure)
            return
        applied = [
            w for w, change in changes if change.kind not in GUARDED or change.number in done
        ]
        self._connector.activity.commits += 1
        self._connector.activity.written += len(applied)
        self._finish(applied)
        for writes, change in changes:
            if change.kind in GUARDED and change.number not in done:
                self._evaluate_again(writes)

    def _evaluate_again(self, writes: ItemWrites) -> None:
        writes.evaluations += 1
        if writes.evaluations >= _MAX_EVALUATIONS:
            self._fail([writes], Throttled("other processes keep changing the item"))
            return
        writes.taken = 0
        self._prepare(writes)

    # --- completion ---------------------------------------------------------------------------

    def _fail(self, batch: Iterable[ItemWrites], error: BaseException) -> None:
        failure = error if isinstance(error, KeytablesError) else Unavailable(str(error))
        batch = [writes for writes in batch if writes.taken]
        for writes in batch:
            for operation in writes.operations[: writes.taken]:
                operation.error = clone_error(failure)
        self._finish(batch)

    def _finish(self, batch: Iterable[ItemWrites]) -> None:
        for writes in batch:
            done, writes.operations = (
                writes.operations[: writes.taken],
                writes.operations[writes.taken :],
            )
            writes.taken = writes.evaluations = 0
            if not writes.operations:
                keys = writes.table.partitions[writes.key[0]]
                del keys[writes.key]
                if not keys:
                    del writes.table.partitions[writes.key[0]]
            for operation in done:
                self._complete(operation)
            if writes.operations:
                self._prepare(writes)
        if not self._count:
            self._idle.set()

    def _complete(self, operation: ItemOperation) -> None:
        self._count -= 1
        self._bytes -= operation.size
        if not operation.completion.done():
            if operation.error is None:
                operation.completion.set_result(operation.result)
            else:
                operation.completion.set_exception(operation.error)
        for waiter in operation.waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    # --- the commit ---------------------------------------------------------------------------

    async def _execute(self, changes: Sequence[tuple[ItemWrites, RowChange]]) -> frozenset[int]:
        """Commit the changes; return the numbers of those whose guard held."""
        sql, arrays, tables = _statement(self._log, changes)
        identifier = self._new_identifier()
        deadline = self._loop.time() + WRITE_TIMEOUT
        sent_at: float | None = None
        for attempt in itertools.count(1):
            try:
                session = await self._open()
                if sent_at is not None:
                    found = await session.fetch(self._find, identifier)
                    if found:
                        return frozenset(found[0][0])
                    sent_at = None
                sent_at = self._loop.time()
                rows = await session.fetch(
                    sql, identifier, *arrays, operation="INSERT", table=tables
                )
                return frozenset(rows[0][0])
            except ConnectionLost as error:
                last: KeytablesError = error
            except NotApplied as error:
                last, sent_at = error, None
            limit = deadline if sent_at is None else max(deadline, sent_at + _SETTLED_AFTER)
            pause = _BACKOFF.delay(attempt)
            if self._loop.time() + pause >= limit:
                raise last if sent_at is not None else NotApplied(str(last)) from last
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    def _new_identifier(self) -> uuid.UUID:
        bits = self._random.getrandbits(74)
        high, low = bits >> 62, bits & (2**62 - 1)
        return uuid.UUID(int=commit_time(self._clock()) | high << 64 | 2 << 62 | low)

    async def _open(self) -> Session:
        """Return the session; a new one only after those that were lost have ended."""
        if self._session is None or self._session.is_closed:
            if self._session is not None:
                self._lost.append(self._session.backend)
                self._session = None
            session = await self._connector.connect()
            try:
                await self._end_lost(session)
            except BaseException:
                session.terminate()
                raise
            self._session = session
        return self._session

    async def _end_lost(self, session: Session) -> None:
        deadline = self._loop.time() + ANSWER_TIMEOUT
        while self._lost:
            backend = self._lost[0]
            while await session.fetch(_END_BACKEND, backend.pid, backend.started):
                if self._loop.time() > deadline:
                    raise ConnectionLost("an earlier connection to the database does not end")
                await asyncio.sleep(_FENCE_INTERVAL)
            self._lost.pop(0)


def commit_time(now: float) -> int:
    """Return the least ID of a commit at this time (RFC 9562, UUIDv7)."""
    return (int(now * 1000) & (2**48 - 1)) << 80 | 7 << 76


def _statement(
    log: str, changes: Sequence[tuple[ItemWrites, RowChange]]
) -> tuple[str, list[list[object]], str]:
    """Return the statement of a commit, its arrays, and the names of its tables for errors."""
    groups: dict[tuple[TableWrites, Change], list[tuple[object, ...]]] = {}
    for writes, change in changes:
        groups.setdefault((writes.table, change.kind), []).append(change.values)
    parts: list[str] = []
    numbers: list[str] = []
    arrays: list[list[object]] = []
    for (table, kind), rows in sorted(
        groups.items(), key=lambda group: (group[0][0].statements.name, group[0][1].value)
    ):
        # Locks are taken in the order of the keys by every process.
        rows.sort(key=lambda row: row[: len(table.statements.keys)])
        sql = table.statements.change(kind, len(arrays) + 2)
        name = f"part{len(parts)}"
        parts.append(f"{name} AS ({sql})")
        if kind in GUARDED:
            numbers.append(f"SELECT row FROM {name}")  # noqa: S608
        arrays += map(list, zip(*rows, strict=True))
    collected = f"ARRAY({' UNION ALL '.join(numbers)})" if numbers else "'{}'::bigint[]"
    tables = {table.statements.columns.table.name for table, _ in groups}
    return (
        f"WITH {', '.join(parts)} {log}{collected} RETURNING rows",
        arrays,
        ", ".join(sorted(tables)),
    )
