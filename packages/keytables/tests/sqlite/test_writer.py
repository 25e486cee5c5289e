"""Group commit: order, durability, and which writes a failure reaches."""

import asyncio
import errno
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from keytables import (
    Item,
    Key,
    KeytablesError,
    StorageFull,
    Table,
    TableHandle,
    Throttled,
    Unavailable,
)
from keytables.sqlite import SqliteEngine, writer
from keytables.sqlite.checkpoint import Checkpointer
from keytables.sqlite.database import Database, failure_reports
from keytables.sqlite.locks import FairLock, UsageLock
from keytables.sqlite.reader import Reader
from keytables.sqlite.space import FileSpace
from keytables.sqlite.write_queue import RunFunction
from support.paths import PYTHONPATH
from support.sqlite_store import Connections, OpenSqlite, failing_commits, write_lock

TABLE = Table("things", Key("a"), Key("b"))


@pytest.fixture
async def table(engine: SqliteEngine) -> TableHandle:
    return await engine.ensure_table(TABLE)


def commits(connection: apsw.Connection) -> list[int]:
    """Return a list that grows with each commit."""
    seen: list[int] = []

    def hook() -> bool:
        seen.append(1)
        return False

    connection.set_commit_hook(hook)
    return seen


async def test_writes_waiting_together_share_a_commit(
    connections: Connections, table: TableHandle
) -> None:
    seen = commits(connections.writer)
    await asyncio.gather(*(table.put({"a": "1", "b": str(n)}) for n in range(100)))
    assert len(seen) < 20


async def test_a_failing_commit_fails_its_batch_and_no_other(
    connections: Connections, table: TableHandle
) -> None:
    await table.put({"a": "1", "b": "before"})
    with failing_commits(connections.writer):
        failing = [table.put({"a": "1", "b": str(n)}) for n in range(10)]
        failing += [table.delete(("1", "before"))]  # type: ignore[list-item]
        results = await asyncio.gather(*failing, return_exceptions=True)
    assert {type(result) for result in results} == {Unavailable}
    assert len({id(result) for result in results}) == len(results)
    await table.put({"a": "1", "b": "after"})
    assert [item["b"] for item in (await table.query("1")).items] == ["after", "before"]


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_defect_reaches_only_the_caller_of_its_operation(
    path: Path, *, is_slow: bool
) -> None:
    def insert(number: int) -> RunFunction:
        return RunFunction(lambda cursor: cursor.execute("INSERT INTO t VALUES (?)", (number,)))

    def defect(cursor: apsw.Cursor) -> None:
        raise KeyError

    database = Database(path)
    group = writer.Writer(
        database, failure_reports(), max_waiting=10, max_waiting_bytes=1000, lock_timeout=5.0
    )
    create = RunFunction(lambda cursor: cursor.execute("CREATE TABLE t (n)"), is_slow=True)
    await group.queue.submit(create)
    before = group.queue.submit(insert(1))
    failing = group.queue.submit(RunFunction(defect, is_slow=is_slow))
    after = group.queue.submit(insert(3))
    await before
    await after
    with pytest.raises(KeyError):
        await failing
    assert database.reader.execute("SELECT n FROM t").fetchall() == [(1,), (3,)]
    await group.close(lambda: None)
    database.close()


async def test_a_write_that_cannot_get_the_lock_in_time_is_throttled(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    engine = await open_sqlite(lock_timeout=0.05)
    table = await engine.ensure_table(TABLE)
    await table.put({"a": "1", "b": "0"})
    with write_lock(path):
        for _ in range(2):
            with pytest.raises(Throttled):
                await table.put({"a": "1", "b": "1"})
        assert await table.get(("1", "0")) is not None  # reads need no lock
    await table.put({"a": "1", "b": "2"})
    assert [item["b"] for item in (await table.query("1")).items] == ["0", "2"]


@pytest.mark.parametrize("moment", ["throttled", "waiting", "late"])
async def test_close_waits_for_the_lock_once(
    open_sqlite: OpenSqlite, path: Path, moment: str
) -> None:
    timeout = 3.0
    engine = await open_sqlite(lock_timeout=timeout)
    table = await engine.ensure_table(TABLE)
    with write_lock(path):
        puts = [table.put({"a": "1", "b": "1"})]
        if moment != "waiting":
            await asyncio.sleep(0.9 * timeout)
            puts.append(table.put({"a": "1", "b": "2"}))
        if moment == "throttled":
            with pytest.raises(Throttled):
                await puts.pop(0)
        begin = perf_counter()
        await engine.close()
        assert perf_counter() - begin < 1.9 * timeout
        for put in puts:
            with pytest.raises(Throttled):
                await put


async def test_an_abandoned_thread_releases_the_lock(
    open_sqlite: OpenSqlite, connections: Connections, path: Path
) -> None:
    others = set(threading.enumerate())
    engine = await open_sqlite(lock_timeout=0.05)
    table = await engine.ensure_table(TABLE)
    with write_lock(path):
        put = table.put({"a": "1", "b": "1"})
        await engine.close()
        with pytest.raises(Throttled):
            await put
        started = set(threading.enumerate()) - others
        (thread,) = (found for found in started if found.name == "keytables-writer")
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
    with pytest.raises(apsw.ConnectionClosedError):
        connections.writer.execute("SELECT 1")
    lock = FairLock(str(path))
    assert lock.try_acquire()
    lock.close()


async def test_a_process_ends_although_another_one_keeps_the_lock(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    engine = await open_sqlite()
    await engine.ensure_table(TABLE)
    program = (
        "import asyncio, sys\n"
        "from keytables import Item, Key, Table, Throttled\n"
        "from keytables.sqlite import SqliteEngine\n"
        "async def main():\n"
        "    engine = await SqliteEngine.open(sys.argv[1], lock_timeout=0.05)\n"
        "    table = await engine.ensure_table(Table('things', Key('a'), Key('b')))\n"
        "    try:\n"
        "        await table.put({'a': '1', 'b': '1'})\n"
        "    except Throttled:\n"
        "        print('throttled')\n"
        "    await engine.close()\n"
        "asyncio.run(main())\n"
    )
    with write_lock(path):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, str(path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
        )
        output = await asyncio.wait_for(process.communicate(), 60)
    assert output == (b"throttled\n", b"")
    assert process.returncode == 0


async def test_a_foreign_program_that_locks_the_file_is_waited_for(
    connections: Connections, table: TableHandle, path: Path
) -> None:
    attempts, retried = 0, threading.Event()

    def trace(cursor: object, sql: str, values: object) -> bool:
        nonlocal attempts
        attempts += sql.startswith("BEGIN")
        if attempts == 3:
            retried.set()
        return True

    foreign = apsw.Connection(str(path))
    foreign.execute("BEGIN IMMEDIATE")
    connections.writer.exec_trace = trace
    put = asyncio.ensure_future(table.put({"a": "1", "b": "1"}))
    assert await asyncio.to_thread(retried.wait, 10)
    assert not put.done()
    foreign.execute("COMMIT")
    foreign.close()
    await put


async def test_a_long_queue_is_committed_in_bounded_transactions(
    connections: Connections, table: TableHandle
) -> None:
    seen = commits(connections.writer)
    await asyncio.gather(*(table.put({"a": "1", "b": str(n)}) for n in range(5000)))
    assert len(seen) >= 5


async def test_rows_of_a_batch_are_written_in_order_with_what_came_before_and_after(
    table: TableHandle,
) -> None:
    keys = [("1", f"{n:03}") for n in range(100)]
    before = table.put({"a": "1", "b": "005", "n": "before"})
    batch = table.batch_write(puts=[{"a": a, "b": b, "n": "batch"} for a, b in keys])
    after = [table.put({"a": "1", "b": "006", "n": "after"}), table.delete(("1", "007"))]
    assert await table.get(("1", "099")) == {"a": "1", "b": "099", "n": "batch"}
    await asyncio.gather(before, batch, *after)
    found = {item["b"]: item["n"] for item in (await table.query("1")).items}
    assert (found["005"], found["006"], "007" in found) == ("batch", "after", False)
    assert len(found) == 99


async def test_reads_go_on_after_a_batch_that_failed(
    connections: Connections, table: TableHandle
) -> None:
    with failing_commits(connections.writer), pytest.raises(Unavailable):
        await table.batch_write(puts=[{"a": str(n), "b": "1"} for n in range(100)])
    assert await table.get(("7", "1")) is None
    await table.batch_write(puts=[{"a": str(n), "b": "1"} for n in range(100)])
    assert await table.get(("7", "1")) is not None


async def test_batches_share_a_transaction_as_far_as_it_may_grow(
    connections: Connections, table: TableHandle
) -> None:
    seen = commits(connections.writer)
    batches: list[list[Item]] = [
        [{"a": str(n), "b": str(m)} for m in range(1000)] for n in range(8)
    ]
    await asyncio.gather(*(table.batch_write(puts=batch) for batch in batches))
    assert len(seen) < 8
    del seen[:]
    large: list[Item] = [{"a": "large", "b": str(m), "data": "x" * 2000} for m in range(8000)]
    await table.batch_write(puts=large)  # 16 MB
    assert len(seen) >= 4


async def test_the_loop_runs_while_a_long_queue_is_written(table: TableHandle) -> None:
    iterations = 0
    running = True

    def iterate() -> None:
        nonlocal iterations
        iterations += 1
        if running:
            asyncio.get_running_loop().call_soon(iterate)

    puts = [table.put({"a": "1", "b": str(n), "data": "x" * 1000}) for n in range(3000)]
    iterate()
    await asyncio.gather(*puts)
    running = False
    assert iterations > 20


async def test_a_read_waits_only_for_writes_of_its_partition(
    connections: Connections, table: TableHandle
) -> None:
    await table.put({"a": "quiet", "b": "1"})
    put = table.put({"a": "busy", "b": "1"})
    reading = table.get(("quiet", "1"))
    with pytest.raises(StopIteration) as returned:  # without suspending
        reading.send(None)
    assert returned.value.value == {"a": "quiet", "b": "1"}
    waiting = table.get(("busy", "1"))
    waiting.send(None)
    waiting.close()
    await put


async def test_a_query_that_ends_early_keeps_no_snapshot(
    connections: Connections, table: TableHandle
) -> None:
    await table.batch_write(puts=[{"a": "1", "b": str(n)} for n in range(10)])
    page = await table.query("1", limit=2)
    assert page.cursor is not None
    await table.put({"a": "1", "b": "2"})
    assert connections.reader.txn_state("main") == apsw.SQLITE_TXN_NONE


@pytest.mark.parametrize(("processors", "times"), [(1, 4.0), (2, 2.0), (4, 1.0), (16, 1.0)])
async def test_transactions_pause_in_a_burst_and_longer_if_writers_share_a_processor(
    path: Path, monkeypatch: pytest.MonkeyPatch, processors: int, times: float
) -> None:
    now, waits = 1000.0, list[float]()
    monkeypatch.setattr(writer, "monotonic", lambda: now)
    monkeypatch.setattr(writer, "_processors", lambda: processors)
    database = Database(path)
    loop = asyncio.get_running_loop()
    group = writer.Writer(
        database,
        failure_reports(),
        max_waiting=10,
        max_waiting_bytes=1000,
        lock_timeout=5.0,
        writers=4,
    )
    call_later = loop.call_later

    def noting(delay: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        if getattr(callback, "__name__", "") == "_begin":
            waits.append(delay)
        return call_later(0, callback, *args)

    monkeypatch.setattr(
        group, "_loop", SimpleNamespace(call_later=noting, call_soon=loop.call_soon)
    )
    for _ in range(writer.BURST + 2):  # all in one moment
        await group.queue.submit(RunFunction(lambda cursor: cursor.execute("SELECT 1")))
    assert waits == pytest.approx([times * writer.PAUSE])
    now += times * writer.BURST_INTERVAL  # the pause is over
    await group.queue.submit(RunFunction(lambda cursor: cursor.execute("SELECT 1")))
    assert len(waits) == 1
    monkeypatch.setattr(group, "_loop", loop)
    await group.close(lambda: None)
    database.close()


# ── Whatever fails, what waits is answered, and the next writes go on ─────────────────────────────


class FailingOnce:
    """Calls a function, but for the first call of which it raises."""

    def __init__(self, function: Callable[..., Any], error: BaseException) -> None:
        self.function, self.error = function, error
        self.calls = 0

    def __call__(self, *given: object) -> object:
        self.calls += 1
        if self.calls == 1:
            raise self.error
        return self.function(*given)


NO_LOCKS = OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize(
    ("error", "is_waiting"),
    [
        (NO_LOCKS, False),
        (NO_LOCKS, True),
        (MemoryError(), False),
        (MemoryError(), True),
        (SystemExit(), True),
    ],
)
async def test_a_lock_that_fails_once_fails_what_waits_and_nothing_more(
    open_sqlite: OpenSqlite,
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    *,
    error: BaseException,
    is_waiting: bool,
) -> None:
    heard: list[KeytablesError] = []
    engine = await open_sqlite(on_failure=heard.append)
    table = await engine.ensure_table(TABLE)
    name = "acquire" if is_waiting else "try_acquire"
    failing = FailingOnce(getattr(FairLock, name), error)
    monkeypatch.setattr(FairLock, name, lambda lock: failing(lock))  # noqa: PLW0108 - a method
    with write_lock(path) if is_waiting else nullcontext():
        puts = [table.put({"a": "1", "b": str(n)}) for n in range(10)]
        results = await asyncio.wait_for(asyncio.gather(*puts, return_exceptions=True), 30)
    assert {type(result) for result in results} == {Unavailable}
    assert len(heard) == 1
    await asyncio.wait_for(table.put({"a": "1", "b": "after"}), 30)
    assert [item["b"] for item in (await table.query("1")).items] == ["after"]
    await asyncio.wait_for(engine.close(), 30)


async def test_a_lock_that_is_not_released_at_once_is_released(
    open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    table = await (await open_sqlite()).ensure_table(TABLE)
    flock = fcntl.flock

    def refuse(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN and os.readlink(f"/proc/self/fd/{descriptor}").endswith(
            "-turn"
        ):
            raise NO_LOCKS
        flock(descriptor, operation)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        await table.put({"a": "1", "b": "1"})
    other = FairLock(str(path))
    assert other.try_acquire()
    other.close()
    await table.put({"a": "1", "b": "2"})


@pytest.mark.parametrize("name", ["after_commit", "complete"])
async def test_a_defect_after_a_commit_does_not_end_the_writer(
    open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(TABLE)
    failing = FailingOnce(getattr(Checkpointer, name), MemoryError())
    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, name, lambda it: failing(it))  # noqa: PLW0108 - a method
        if name == "complete":  # called when the disk is full

            def full(*_: object) -> None:
                raise StorageFull("no space")

            patch.setattr(FileSpace, "prepare_commit", full)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(table.put({"a": "1", "b": "1"}), 30)
        assert failing.calls
    await asyncio.wait_for(table.put({"a": "1", "b": "2"}), 30)
    await asyncio.wait_for(engine.close(), 30)


async def test_a_defect_in_the_loop_fails_what_waits_and_nothing_more(
    open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(TABLE)
    failing = FailingOnce(perf_counter, MemoryError())
    with monkeypatch.context() as patch:
        patch.setattr(writer, "perf_counter", failing)
        puts = [table.put({"a": "1", "b": str(n)}) for n in range(3)]
        results = await asyncio.wait_for(asyncio.gather(*puts, return_exceptions=True), 30)
    assert {type(result) for result in results} == {Unavailable}
    await asyncio.wait_for(table.put({"a": "1", "b": "after"}), 30)
    assert [item["b"] for item in (await table.query("1")).items] == ["after"]


async def test_closing_goes_on_although_a_part_of_it_fails(
    open_sqlite: OpenSqlite, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    heard: list[KeytablesError] = []
    engine = await open_sqlite(on_failure=heard.append)
    await engine.ensure_table(TABLE)

    async def fail(_: object) -> None:
        raise NO_LOCKS

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "close", fail)
        await asyncio.wait_for(engine.close(), 30)
    assert len(heard) == 1
    await asyncio.wait_for(engine.close(), 30)
    lock = UsageLock(str(path))
    assert lock.try_exclude()
    lock.close()


async def test_a_frozen_process_delays_writes_reads_opening_and_closing_for_seconds_only(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(TABLE)
    await table.put({"a": "1", "b": "before"})
    program = (
        "import sys\n"
        "from keytables.sqlite.database import Database\n"
        "opened = Database(sys.argv[1])\n"
        "opened.lock.acquire()\n"
        "opened.writer.execute('BEGIN IMMEDIATE')\n"
        "opened.writer.execute('CREATE TABLE frozen (x)')\n"
        "print('holds it', flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert process.stdout is not None
    assert await process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(60):
            with pytest.raises(Throttled):
                await table.put({"a": "1", "b": "1"})
            assert await table.get(("1", "before")) is not None
            other = await open_sqlite()
            again = await other.ensure_table(TABLE)
            assert len((await again.query("1")).items) == 1
            await asyncio.gather(engine.close(), other.close())
    finally:
        process.kill()
        await process.wait()
