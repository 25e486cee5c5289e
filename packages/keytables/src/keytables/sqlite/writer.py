"""Group commit: submitted writes, in their order, a transaction at a time.

The one rule: what was submitted first to a partition is applied first, and nothing is answered
before the commit that holds it is on the disk.

A transaction goes through these states; the loop is held in none of them:

    IDLE ──submit──▶ WAITING (thread: turn, BEGIN) ──▶ APPLYING (loop, slices of 0.5 ms)
      ▲   └─turn and BEGIN at once───────────────────────▲            │
      └──────nothing left────── COMMITTING (thread: COMMIT, checkpoint, turn given) ◀─┘

Statements run on the loop because they only touch memory (4 µs each), while in a thread each of
them would let go of the interpreter lock and queue for it again behind a busy loop: measured, 100
waiting writes then took up to 14 seconds instead of 7 ms.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from time import monotonic, perf_counter, sleep
from typing import Any, Final

import apsw

from keytables.errors import Throttled, Unavailable
from keytables.sqlite.aide import Aide
from keytables.sqlite.checkpoint import Checkpointer
from keytables.sqlite.database import Database, translate
from keytables.sqlite.operations import Operation, Puts, Sink
from keytables.sqlite.shared import Shared

__all__ = ["Writer"]

_SLICE: Final = 0.0005
"""Seconds of one stretch of statements on the loop."""

_REST: Final = 0.002
"""Seconds between two transactions, in which writes gather: under load each fsync serves more of
them (measured: a third less CPU for each), and a write that comes alone does not wait."""

_CALM: Final = 0.005
_BURST: Final = 8
"""Transactions are followed by a rest only once there were this many more than one in so many
seconds: a few writes at a time have nothing to gather and need not wait."""

_GRACE: Final = 0.1
"""Seconds a thread without anything to write is given to end."""

_MAX_BATCH: Final = 1000
_MAX_BATCH_BYTES: Final = 4 << 20
"""Bounds of one transaction, so that other processes get their turn."""


class Writer:
    """Applies operations to the database of one process.

    ``max_waiting`` and ``max_waiting_bytes`` bound what is submitted and not answered;
    ``lock_timeout`` (seconds) bounds the wait for other processes.
    """

    __slots__ = (
        "_aide",
        "_batch",
        "_batch_bytes",
        "_bytes",
        "_calm",
        "_checkpointer",
        "_closed",
        "_connection",
        "_count",
        "_cursor",
        "_given_up",
        "_idle",
        "_lock_timeout",
        "_loop",
        "_max_waiting",
        "_max_waiting_bytes",
        "_overdue",
        "_queue",
        "_rested",
        "_running",
        "_turns",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        database: Database,
        *,
        max_waiting: int,
        max_waiting_bytes: int,
        lock_timeout: float,
    ) -> None:
        self._loop = loop
        self._connection, self._turns = database.writer, database.turns
        self._cursor = database.writer.cursor()
        self._aide = Aide(loop, "keytables-writer")
        self._checkpointer = Checkpointer(database.writer, database.checkpointer)
        self._max_waiting, self._max_waiting_bytes = max_waiting, max_waiting_bytes
        self._lock_timeout = lock_timeout
        self._queue: deque[Operation] = deque()
        self._batch: list[Operation] = []
        self._batch_bytes = self._bytes = self._count = 0
        self._overdue: asyncio.TimerHandle | None = None
        self._idle: list[asyncio.Future[None]] = []
        self._running = self._closed = self._given_up = False
        self._rested = self._calm = 0.0

    def submit(self, operation: Operation) -> "asyncio.Future[Any]":
        """Queue an operation; the future is its answer."""
        future = self._loop.create_future()
        self.submit_to(operation, future)
        return future

    def submit_to(self, operation: Operation, sink: Sink) -> None:
        """Queue an operation whose answer goes to ``sink``."""
        if self._closed:
            sink.set_exception(Unavailable("the store is closed"))
            return
        if self._count >= self._max_waiting or self._bytes >= self._max_waiting_bytes:
            sink.set_exception(
                Throttled(f"{self._count} writes with {self._bytes} bytes are waiting already")
            )
            return
        pending = operation.pending
        if type(operation) is Puts:
            operation.pending.update(dict.fromkeys(operation.partitions, operation))
        elif pending is not None:
            latest = pending.get(operation.partition)
            if latest is not None and latest.becomes(operation):
                self._share(latest, operation, sink)
                return
            pending[operation.partition] = operation
        operation.sink = sink
        self._count += 1
        self._bytes += operation.size
        self._queue.append(operation)
        if not self._running:
            self._running = True
            self._schedule()

    def _share(self, latest: Operation, newer: Operation, sink: Sink) -> None:
        """Answer for a newer operation too: a waiting one does its work, at its own place.

        Nothing came between them on their partition. So a message that is acked before it was
        written never is.
        """
        self._count += 1
        self._bytes += newer.size - latest.size
        latest.size = newer.size
        shared = latest.sink
        if not isinstance(shared, Shared):
            shared = latest.sink = Shared(shared)
        shared.sinks.append(sink)

    def settled(self, operation: Operation) -> "asyncio.Future[None]":
        """Return a future that is done when an operation without answer yet has it."""
        waiter = self._loop.create_future()
        if operation.waiters is None:
            operation.waiters = []
        operation.waiters.append(waiter)
        return waiter

    async def close(self, let_go: Callable[[], None]) -> bool:
        """Answer everything submitted, then stop the threads.

        Returns whether that succeeded. If another process has not given its turn within
        ``lock_timeout``, the thread that waits for it is left behind, with the connection and the
        turn it waits for; should it ever get there, it calls ``let_go``.
        """
        self._closed = True
        if self._overdue is not None:  # all of them, and from now
            self._cancel_watch()
            self._watch_waiting()
        while self._count:
            await self._when_idle()
        if self._aide.busy:
            self._cancel_watch()
            self._given_up = True
            # Unless it waits for a turn, and nothing else, it ends in a moment.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._when_idle(), _GRACE)
        stopped = not self._aide.busy
        self._aide.stop(let_go)
        await self._loop.run_in_executor(None, self._checkpointer.stop)
        return stopped

    def _when_idle(self) -> "asyncio.Future[None]":
        waiter = self._loop.create_future()
        self._idle.append(waiter)
        return waiter

    def _schedule(self) -> None:
        """Begin at once, or when the last transaction is long enough ago."""
        pause = self._rested - monotonic()
        if pause > 0:
            self._loop.call_later(pause, self._begin)
        else:
            self._loop.call_soon(self._begin)

    # --- getting the turn ---------------------------------------------------------------------

    def _begin(self) -> None:
        if self._turns.try_take():
            try:
                self._cursor.execute("BEGIN IMMEDIATE")
            except apsw.BusyError:  # a program that does not know our turns
                self._turns.give()
            except apsw.Error as error:
                self._turns.give()
                self._fail(list(self._queue), translate(error))
                return
            else:
                self._apply()
                return
        self._watch_waiting()
        self._aide.do(self._wait_for_turn, self._have_turn)

    def _wait_for_turn(self) -> Exception | None:
        deadline = monotonic() + self._lock_timeout
        self._turns.take()
        error: Exception | None = None
        while not self._given_up:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except apsw.Error as failed:
                error = translate(failed)
                if isinstance(failed, apsw.BusyError) and monotonic() < deadline:
                    sleep(0.005)
                    continue
                break
            return None
        self._turns.give()
        return error or Throttled("the store is closed")

    def _watch_waiting(self) -> None:
        """Fail what waits for longer than ``lock_timeout`` (and at most twice that)."""
        self._overdue = self._loop.call_later(
            self._lock_timeout, self._waited_too_long, len(self._queue)
        )

    def _waited_too_long(self, count: int) -> None:
        late = [self._queue.popleft() for _ in range(min(count, len(self._queue)))]
        self._watch_waiting()
        for operation in late:
            self._answer(operation, Throttled("other processes kept the store locked"))
        if not self._count:
            self._tell_idle()

    def _cancel_watch(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _have_turn(self, error: Exception | None) -> None:
        self._cancel_watch()
        if error is not None:
            self._fail(list(self._queue), error)
        else:
            self._apply()

    # --- one transaction ----------------------------------------------------------------------

    def _apply(self) -> None:
        queue, batch, cursor = self._queue, self._batch, self._cursor
        end = perf_counter() + _SLICE
        while queue:
            operation = queue[0]
            if operation.heavy:
                if batch:
                    break
                batch.append(queue.popleft())
                self._aide.do(self._apply_heavy, self._committed)
                return
            queue.popleft()
            batch.append(operation)
            try:
                operation.result = operation.apply(cursor)
            except Exception as error:  # noqa: BLE001 - judged there
                if not self._judge(operation, error):
                    self._turns.give()
                    self._fail(batch, operation.error or error)
                    return
            self._batch_bytes += operation.size
            if len(batch) >= _MAX_BATCH or self._batch_bytes >= _MAX_BATCH_BYTES:
                break
            if perf_counter() >= end:
                self._loop.call_soon(self._apply)
                return
        self._aide.do(self._commit, self._committed)

    def _judge(self, operation: Operation, error: Exception) -> bool:
        """Note how an operation failed; return whether the transaction is still open.

        A refusal, and a defect of ours, reach the caller of this operation alone.
        """
        operation.error = error
        if isinstance(error, apsw.Error):
            operation.error = translate(error, operation.table)
        return self._connection.in_transaction

    def _apply_heavy(self) -> Exception | None:
        operation = self._batch[0]
        cursor = self._connection.cursor()
        cursor.execute("SAVEPOINT heavy")
        try:
            operation.result = operation.apply(cursor)
        except Exception as error:  # noqa: BLE001 - judged there
            if not self._judge(operation, error):
                self._turns.give()
                return operation.error
            cursor.execute("ROLLBACK TO heavy")
        return self._commit()

    def _commit(self) -> Exception | None:
        try:
            self._connection.execute("COMMIT")
            self._checkpointer.after_commit()
        except apsw.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            return translate(error)
        finally:
            self._turns.give()
        return None

    def _committed(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(self._batch, error)
            return
        now = monotonic()
        self._calm = max(self._calm, now) + _CALM
        self._rested = now + _REST if self._calm > now + _BURST * _CALM else now
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        answer = self._answer
        for operation in batch:
            answer(operation, operation.error)
        self._go_on()

    # --- answers --------------------------------------------------------------------------------

    def _answer(self, operation: Operation, error: Exception | None) -> None:
        self._count -= 1
        self._bytes -= operation.size
        pending = operation.pending
        if type(operation) is Puts:
            for partition in operation.partitions:
                if operation.pending.get(partition) is operation:
                    del operation.pending[partition]
        elif pending is not None and pending.get(operation.partition) is operation:
            del pending[operation.partition]
        sink = operation.sink
        if isinstance(sink, Shared):
            self._count -= len(sink.sinks) - 1
        if not sink.done():
            if error is None:
                sink.set_result(operation.result)
            else:
                sink.set_exception(error)
        if operation.waiters is not None:
            for waiter in operation.waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _fail(self, operations: list[Operation], error: Exception) -> None:
        if operations is self._batch:
            self._batch, self._batch_bytes = [], 0
        else:
            self._queue.clear()
        kind = Throttled if isinstance(error, Throttled) else Unavailable
        for operation in operations:
            own = kind(str(error))  # one each: a traceback grows wherever it is raised
            own.__cause__ = error
            self._answer(operation, own)
        self._go_on()

    def _go_on(self) -> None:
        if self._queue:
            # After those who were just answered, so that what they write next comes along.
            self._schedule()
            return
        self._running = False
        self._tell_idle()

    def _tell_idle(self) -> None:
        idle, self._idle = self._idle, []
        for waiter in idle:
            if not waiter.done():
                waiter.set_result(None)
