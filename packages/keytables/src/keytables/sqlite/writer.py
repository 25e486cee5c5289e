"""Group commit: the queued writes, a transaction at a time.

Rule: no write is completed before the commit that holds it is on the disk, and the event loop never
blocks.

    IDLE ─submit─▶ LOCKING (thread: lock, BEGIN) ───▶ APPLYING (loop, slices of 0.5 ms)
     ▲ └──── lock and BEGIN succeed at once ────────────▲ ▲    │
     │                                    more waiting ───┤    ▼
     └──────────── nothing waiting ──────────── COMMITTING (thread: COMMIT, checkpoint, unlock)

An exception in any of these states fails the writes of that transaction, or all that wait for it,
and the next transaction starts normally. A write that ends the transaction itself, because it meets
a damaged page, fails alone: the others are applied again.

A transaction that finds no space on the disk is repeated: as it is when the log has been emptied,
then without its large writes when the reserve has been given back (:mod:`keytables.sqlite.space`).

Statements run on the loop because they only touch memory (4 µs each), while in a thread each of
them would release the interpreter lock and wait for it again behind a busy loop: measured, 100
waiting writes then took up to 14 seconds instead of 7 ms.
"""

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic, perf_counter, sleep
from typing import Final, TypeAlias

import apsw

from keytables.errors import KeytablesError, StorageFull, StoreClosed, Throttled
from keytables.failures import FailureReports
from keytables.sqlite.checkpoint import Checkpointer
from keytables.sqlite.database import Database, translate
from keytables.sqlite.space import SMALL
from keytables.sqlite.write_queue import RowOperation, WriteQueue

Job: TypeAlias = Callable[[], Exception | None]
"""Runs in the thread; returns the error, if any."""

_FIRST_WAIT: Final = 0.001
_MAX_INTERVAL: Final = 0.016
"""Seconds until the loop first waits for a job, and at most between two waits."""

_WAIT: Final = 0.0003
"""Seconds of one wait."""


class WorkerThread:
    """A daemon thread that runs one job at a time for one event loop, which notices the end of a
    job within milliseconds, even if it is never idle.

    A thread that returns from the disk needs the interpreter lock. A busy loop releases it only for
    the microsecond of its poll, and has it again before the thread wakes; each release also
    restarts the interval after which the interpreter forces a switch. Measured, a commit was
    noticed up to ten seconds late. So while a job runs, the loop now and then waits for it a
    fraction of a millisecond *without* the interpreter lock. On an idle loop the job ends before
    the first of these waits.

    ``ThreadPoolExecutor`` cannot replace it: it has no such wait, and the interpreter does not exit
    before its threads end, while another process may block a job of this one for good.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._finished = threading.Lock()
        self._finished.acquire()
        self._error: Exception | None = None
        self._on_done: Callable[[Exception | None], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._on_abandoned: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._on_done is not None

    def submit(self, job: Job, on_done: Callable[[Exception | None], None]) -> None:
        """Run ``job`` in the thread, then ``on_done`` with its error on the loop."""
        assert self._on_done is None, "one job at a time"
        self._timer = self._loop.call_later(_FIRST_WAIT, self._wait, _FIRST_WAIT)
        self._on_done = on_done
        self._jobs.put(job)

    def stop(self, on_abandoned: Callable[[], None] | None = None) -> None:
        """End the thread after its job, without waiting; after an unfinished job it calls
        ``on_abandoned``, unless the process exits before.
        """
        if self._timer is not None:
            self._timer.cancel()
        if self._on_done is not None:
            self._on_abandoned = on_abandoned
        self._on_done = None
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._error = job()
            except Exception as error:  # noqa: BLE001 - given to the callback on the loop
                self._error = error
            except BaseException as error:  # noqa: BLE001 - the thread goes on in any case
                self._error = RuntimeError(f"{type(error).__name__}: {error}")
            self._finished.release()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._on_message)
            del job
        if self._on_abandoned is not None:
            self._on_abandoned()

    def _on_message(self) -> None:
        # If a wait has noticed the end first, no job is running, or the next one.
        if self._on_done is not None and self._finished.acquire(False):
            self._end()

    def _wait(self, interval: float) -> None:
        if self._finished.acquire(timeout=_WAIT):
            self._end()
        else:
            interval = min(interval * 1.5, _MAX_INTERVAL)
            self._timer = self._loop.call_later(interval, self._wait, interval)

    def _end(self) -> None:
        on_done, error = self._on_done, self._error
        if self._timer is not None:
            self._timer.cancel()
        self._on_done = self._timer = self._error = None
        assert on_done is not None
        on_done(error)


TIME_SLICE: Final = 0.0005
"""Seconds for which statements run on the loop without a break."""

PAUSE: Final = 0.002
"""Seconds between two transactions of a burst, in which writes gather: each fsync then serves more
of them (measured: a third less CPU per write)."""

BURST: Final = 8
BURST_INTERVAL: Final = 0.005
"""It is a burst after ``BURST`` transactions more than one per ``BURST_INTERVAL`` seconds. Before
that a pause would only delay."""

MAX_SHARING: Final = 8.0
"""Writers of a processor that are counted. With each of them both times are so much longer: a
transaction costs as much as many writes, and more where the processor changes between processes."""

_ABANDON_TIMEOUT: Final = 0.1
"""Seconds that ``close`` waits for a thread that no other process blocks."""

_LOCKED: Final = "other processes kept the store locked"

MAX_BATCH: Final = 1000
MAX_BATCH_BYTES: Final = 4 << 20
"""Bounds of one transaction, so that other processes can write too."""


def _processors() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # the system has no such limit
        return os.cpu_count() or 1


class Writer:
    """Applies the writes of ``queue`` to the database.

    ``lock_timeout``: seconds a write waits for other processes (at most twice that if others were
    waiting already). ``failures`` gets each transaction that fails, and each failure of the
    database that a single write meets. ``writers``: to as many parts of the store as there are.
    """

    def __init__(
        self,
        database: Database,
        failures: FailureReports,
        *,
        max_waiting: int,
        max_waiting_bytes: int,
        lock_timeout: float,
        writers: int = 1,
    ) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._connection, self._lock = database.writer, database.lock
        self._space, self._failures = database.space, failures
        self._write_a_page = f"PRAGMA user_version = {database.version}"
        """Changes nothing, but writes its page to the log."""
        self._cursor = database.writer.cursor()
        self._thread = WorkerThread(loop, "keytables-writer")
        self._checkpointer = Checkpointer(database.writer, database.checkpointer, failures)
        self._lock_timeout = lock_timeout
        self.queue = WriteQueue(
            loop, self._schedule, max_waiting=max_waiting, max_waiting_bytes=max_waiting_bytes
        )
        self._batch: list[RowOperation] = []
        self._batch_bytes = 0
        self._max_batch = MAX_BATCH
        self._full_attempts = 0
        self._must_write = False
        self._overdue: asyncio.TimerHandle | None = None
        self._is_abandoned = False
        self._pause_until = self._burst_until = 0.0
        self._sharing = min(MAX_SHARING, max(1.0, writers / _processors()))

    async def close(self, on_abandoned: Callable[[], None]) -> bool:
        """Complete everything submitted, stop the threads, and return whether that succeeded.

        If another process keeps the lock for ``lock_timeout``, the thread that waits for it is
        abandoned with the connection and the lock; it calls ``on_abandoned`` if it ever ends.
        """
        queue, thread = self.queue, self._thread
        queue.writes.is_closed = True
        if self._overdue is not None:  # from now on for all that are waiting
            self._cancel_timeout()
            self._set_timeout()
        await queue.writes.wait_empty()
        if thread.is_busy:
            self._cancel_timeout()
            self._is_abandoned = True
            # Unless it waits for the lock, it ends in a moment.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(queue.wait_idle(), _ABANDON_TIMEOUT)
        has_ended = not thread.is_busy
        thread.stop(on_abandoned)
        await self._loop.run_in_executor(None, self._checkpointer.stop)
        return has_ended

    def _schedule(self) -> None:
        pause = self._pause_until - monotonic()
        if pause > 0:
            self._loop.call_later(pause, self._begin)
        else:
            self._loop.call_soon(self._begin)

    # --- acquiring the lock -------------------------------------------------------------------

    def _begin(self) -> None:
        try:
            if self._try_begin():
                self._apply()
                return
            self._set_timeout()
            self._thread.submit(self._begin_in_thread, self._on_begun)
        except Exception as error:  # noqa: BLE001 - the waiting callers receive it
            self._cancel_timeout()
            self._abandon_transaction(error)

    def _try_begin(self) -> bool:
        if not self._lock.try_acquire():
            return False
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:  # a program that does not use our lock
            self._lock.release()
            return False
        return True

    def _begin_in_thread(self) -> Exception | None:
        deadline = monotonic() + self._lock_timeout
        self._lock.acquire()
        has_begun = False
        try:
            while not self._is_abandoned:
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                except apsw.BusyError:
                    if monotonic() >= deadline:
                        raise
                    sleep(0.005)
                else:
                    has_begun = True
                    return None
        finally:
            if not has_begun:
                self._lock.release()
        return StoreClosed("the store is closed")

    def _on_begun(self, error: Exception | None) -> None:
        self._cancel_timeout()
        if error is not None:
            self._abandon_transaction(error)
        else:
            self._apply()

    def _set_timeout(self) -> None:
        """Fail what waits for longer than ``lock_timeout`` (at most twice that)."""
        self._overdue = self._loop.call_later(
            self._lock_timeout, self._on_timeout, len(self.queue.waiting)
        )

    def _on_timeout(self, count: int) -> None:
        queue = self.queue
        late = [queue.waiting.popleft() for _ in range(min(count, len(queue.waiting)))]
        self._set_timeout()
        for operation in late:
            queue.complete(operation, Throttled(_LOCKED))
        if late:
            self._failures.report(Throttled(_LOCKED))

    def _cancel_timeout(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    # --- one transaction ----------------------------------------------------------------------

    def _apply(self) -> None:
        try:
            self._apply_slice()
        except Exception as error:  # noqa: BLE001 - the waiting callers receive it
            self._abandon_transaction(error)

    def _apply_slice(self) -> None:
        waiting, batch, cursor = self.queue.waiting, self._batch, self._cursor
        end = perf_counter() + TIME_SLICE
        while waiting:
            operation = waiting[0]
            if operation.is_slow:
                if batch:
                    break
                batch.append(waiting.popleft())
                self._thread.submit(self._apply_slow, self._on_committed)
                return
            waiting.popleft()
            batch.append(operation)
            try:
                operation.result = operation.apply(cursor)
            except Exception as error:  # noqa: BLE001 - the caller of the operation receives it
                if not self._note_error(operation, error):
                    self._thread.submit(partial(self._clean_up, operation), self._on_broken)
                    return
            self._batch_bytes += operation.size
            if len(batch) >= self._max_batch or self._batch_bytes >= MAX_BATCH_BYTES:
                break
            if perf_counter() >= end:
                self._loop.call_soon(self._apply)
                return
        self._thread.submit(self._commit, self._on_committed)

    def _note_error(self, operation: RowOperation, error: Exception) -> bool:
        """Keep the error for the operation's caller; return whether the transaction goes on."""
        operation.error = error
        if isinstance(error, apsw.Error):
            operation.error = self._translate(error, operation.table)
            if not isinstance(error, apsw.SQLError | apsw.ConstraintError):
                # Such as of a damaged page: what follows in the transaction fails too (measured).
                return False
        return self._connection.in_transaction

    def _translate(self, error: apsw.Error, table: str = "") -> KeytablesError:
        return translate(error, table, self._connection.system_errno)

    def _clean_up(self, operation: RowOperation) -> Exception | None:
        assert operation.error is not None
        return self._fail(operation.error)

    def _apply_slow(self) -> Exception | None:
        operation = self._batch[0]
        try:
            cursor = self._connection.cursor()
            cursor.execute("SAVEPOINT slow")
            try:
                operation.result = operation.apply(cursor)
            except Exception as error:
                if not self._note_error(operation, error):
                    raise operation.error or error from error
                cursor.execute("ROLLBACK TO slow")
        except Exception as error:  # noqa: BLE001 - all of the batch receive it
            return self._fail(error)
        return self._commit()

    def _commit(self) -> Exception | None:
        try:
            self._space.prepare_commit(self._cursor, self._is_small)
            if self._must_write:
                self._connection.execute(self._write_a_page)
            self._connection.execute("COMMIT")
            self._must_write = False
            self._checkpointer.after_commit()
        except Exception as error:  # noqa: BLE001 - all of the batch receive it
            self._must_write = True
            return self._fail(error)
        self._lock.release()
        return None

    def _write_over_failed_commit(self) -> None:
        """A failed commit may have left all but the sync in the log. A recovery would take that for
        committed: for example a message that was acked since, whose deletion had nothing to write.
        So another page replaces it in the log, now or in the next transaction.
        """
        with contextlib.suppress(apsw.Error):
            with self._connection:
                self._connection.execute(self._write_a_page)
            self._must_write = False

    def _is_small(self) -> bool:
        return all(operation.size <= SMALL for operation in self._batch)

    def _has_small(self) -> bool:
        return any(operation.size <= SMALL for operation in self._batch)

    def _fail(self, error: Exception) -> Exception:
        """Undo the transaction and release the lock. In the thread."""
        if isinstance(error, apsw.Error):
            error = self._translate(error)
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if self._must_write:
                self._write_over_failed_commit()
            if isinstance(error, StorageFull):
                if self._full_attempts == 0:
                    self._checkpointer.complete()
                elif self._full_attempts == 1 and self._has_small():
                    self._space.release_reserve()
        finally:
            self._lock.release()
        return error

    def _on_committed(self, error: Exception | None) -> None:
        if isinstance(error, StorageFull):
            self._repeat_without_space(error)
            return
        batch = self._take_batch()
        self._end_attempts()
        if error is not None:
            self._failures.report(error)
            self.queue.finish(batch, error)
            return
        now, interval = monotonic(), BURST_INTERVAL * self._sharing
        self._burst_until = max(self._burst_until, now) + interval
        is_burst = self._burst_until > now + BURST * interval
        self._pause_until = now + PAUSE * self._sharing if is_burst else now
        for operation in batch:
            if operation.error is not None and isinstance(operation.error, KeytablesError):
                self._failures.report(operation.error)
        self.queue.finish(batch)

    def _on_broken(self, error: Exception | None) -> None:
        """Fail the last of the batch, which ended the transaction; apply the others again."""
        if isinstance(error, StorageFull):
            self._repeat_without_space(error)
            return
        batch = self._take_batch()
        broken = batch.pop()
        self._end_attempts()
        if isinstance(broken.error, KeytablesError):
            self._failures.report(broken.error)
        self.queue.complete(broken, broken.error or error)
        if batch:
            self._requeue(batch)
        else:
            self.queue.finish([])

    def _take_batch(self) -> list[RowOperation]:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        return batch

    def _end_attempts(self) -> None:
        self._max_batch, self._full_attempts = MAX_BATCH, 0

    def _repeat_without_space(self, error: StorageFull) -> None:
        """Repeat the batch, or its small writes, in the next transaction; fail the rest."""
        self._full_attempts += 1
        batch, repeated = self._take_batch(), []
        if self._full_attempts == 1:
            repeated = batch
        elif self._full_attempts == 2:
            repeated = [operation for operation in batch if operation.size <= SMALL]
        if len(repeated) < len(batch):
            self._failures.report(error)
            failed = [operation for operation in batch if not repeated or operation.size > SMALL]
            self.queue.fail(failed, error)
        if not repeated:
            self._end_attempts()
            self.queue.finish([])
            return
        self._requeue(repeated)

    def _requeue(self, operations: list[RowOperation]) -> None:
        """Apply them again, first and in a transaction of their own."""
        for operation in operations:
            operation.error = operation.result = None
        self.queue.waiting.extendleft(reversed(operations))
        self._max_batch = len(operations)
        self._schedule()

    def _abandon_transaction(self, error: Exception) -> None:
        """Fail all waiting and applied writes, for an error that none of them caused."""
        with contextlib.suppress(Exception):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        with contextlib.suppress(OSError):
            self._lock.release()
        if isinstance(error, apsw.Error):
            error = self._translate(error)
        failed = [*self._take_batch(), *self.queue.waiting]
        self.queue.waiting.clear()
        self._end_attempts()
        self._failures.report(error)
        self.queue.finish(failed, error)
