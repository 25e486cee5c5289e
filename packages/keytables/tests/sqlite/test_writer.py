"""Group commit: order, durability, and what a failure reaches."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic, perf_counter

import apsw
import pytest

from keytables import Item, Key, Table, TableHandle, Throttled, Unavailable, Update
from keytables.sqlite import SqliteEngine, writer
from keytables.sqlite.locks import Turns

OpenSqlite = Callable[..., Awaitable[SqliteEngine]]
TABLE = Table("things", Key("a"), Key("b"))


@pytest.fixture
async def engine(open_sqlite: OpenSqlite) -> SqliteEngine:
    return await open_sqlite()


@pytest.fixture
async def table(engine: SqliteEngine) -> TableHandle:
    return await engine.ensure_table(TABLE)


def commits(engine: SqliteEngine) -> list[int]:
    """Return a list that grows with each commit of the engine."""
    seen: list[int] = []

    def hook() -> bool:
        seen.append(1)
        return False

    engine._database.writer.set_commit_hook(hook)
    return seen


async def test_writes_waiting_together_share_a_commit(
    engine: SqliteEngine, table: TableHandle
) -> None:
    seen = commits(engine)
    await asyncio.gather(*(table.put({"a": "1", "b": str(n)}) for n in range(100)))
    assert len(seen) < 20


async def test_nothing_is_answered_before_its_commit(
    engine: SqliteEngine, table: TableHandle
) -> None:
    put = asyncio.ensure_future(table.put({"a": "1", "b": "2"}))
    early: list[bool] = []

    def hook() -> bool:
        early.append(put.done())
        return False

    engine._database.writer.set_commit_hook(hook)
    await put
    assert early == [False]


async def test_a_failing_commit_fails_its_batch_and_no_other(
    engine: SqliteEngine, table: TableHandle
) -> None:
    await table.put({"a": "1", "b": "before"})
    engine._database.writer.set_commit_hook(lambda: True)  # turns the commit into a rollback
    failing = [table.put({"a": "1", "b": str(n)}) for n in range(10)]
    failing += [table.delete(("1", "before"))]  # type: ignore[list-item]
    outcomes = await asyncio.gather(*failing, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    assert len({id(outcome) for outcome in outcomes}) == len(outcomes)
    engine._database.writer.set_commit_hook(None)
    await table.put({"a": "1", "b": "after"})
    assert [item["b"] for item in (await table.query("1")).items] == ["after", "before"]


async def test_reads_go_on_after_a_failed_commit(engine: SqliteEngine, table: TableHandle) -> None:
    engine._database.writer.set_commit_hook(lambda: True)
    put = table.put({"a": "1", "b": "2"})
    assert await table.get(("1", "2")) is None  # waits for the write, which fails
    with pytest.raises(Unavailable):
        await put
    engine._database.writer.set_commit_hook(None)


async def test_a_full_disk_is_unavailable_and_does_not_last(
    engine: SqliteEngine, table: TableHandle
) -> None:
    writer = engine._database.writer
    await table.put({"a": "1", "b": "kept", "data": "x" * 10_000})
    pages = writer.execute("PRAGMA page_count").get
    writer.execute(f"PRAGMA max_page_count = {pages + 3}")
    puts = [table.put({"a": "1", "b": str(n), "data": "x" * 10_000}) for n in range(20)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert any(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert all(outcome is None or isinstance(outcome, Unavailable) for outcome in outcomes)
    stored = {item["b"] for item in (await table.query("1")).items}
    assert stored == {"kept", *(str(n) for n in range(20) if outcomes[n] is None)}
    writer.execute("PRAGMA max_page_count = 1000000")
    await asyncio.gather(*(table.put({"a": "2", "b": str(n)}) for n in range(20)))
    assert len((await table.query("2")).items) == 20


async def test_a_defect_reaches_only_the_caller_of_its_operation(table: TableHandle) -> None:
    class Broken(Update):
        pass

    broken = Broken(set={"x": 1})
    table._changes[broken] = lambda item, values: item["defect"]  # type: ignore[attr-defined]
    before = table.put({"a": "1", "b": "1"})
    failing = table.update(("1", "2"), broken)
    after = table.put({"a": "1", "b": "3"})
    await before
    await after
    with pytest.raises(KeyError):
        await failing
    assert [item["b"] for item in (await table.query("1")).items] == ["1", "3"]


async def test_waiting_writes_are_bounded_by_number(open_sqlite: OpenSqlite) -> None:
    table = await (await open_sqlite(max_waiting=10)).ensure_table(TABLE)
    puts = [table.put({"a": "1", "b": str(n)}) for n in range(15)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 10 + [Throttled] * 5
    await table.put({"a": "1", "b": "later"})
    assert len((await table.query("1")).items) == 11


async def test_waiting_writes_are_bounded_by_size(open_sqlite: OpenSqlite) -> None:
    table = await (await open_sqlite(max_waiting_bytes=100_000)).ensure_table(TABLE)
    puts = [table.put({"a": "1", "b": str(n), "data": "x" * 30_000}) for n in range(8)]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 4 + [Throttled] * 4
    await table.put({"a": "1", "b": "later", "data": "x" * 30_000})


async def test_who_cannot_get_the_turn_in_time_is_throttled(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    engine = await open_sqlite(lock_timeout=0.05)
    table = await engine.ensure_table(TABLE)
    await table.put({"a": "1", "b": "0"})
    lock = os.open(f"{path}-turn", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        for _ in range(2):
            with pytest.raises(Throttled):
                await table.put({"a": "1", "b": "1"})
        assert await table.get(("1", "0")) is not None  # reads need no turn
    finally:
        os.close(lock)
    await table.put({"a": "1", "b": "2"})
    assert [item["b"] for item in (await table.query("1")).items] == ["0", "2"]


async def test_close_ends_although_another_process_keeps_the_turn(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    engine = await open_sqlite(lock_timeout=0.05)
    table = await engine.ensure_table(TABLE)
    lock = os.open(f"{path}-turn", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        put = asyncio.ensure_future(table.put({"a": "1", "b": "1"}))
        await asyncio.sleep(0)
        await engine.close()
        with pytest.raises(Throttled):
            await put
    finally:
        os.close(lock)
    again = await (await open_sqlite()).ensure_table(TABLE)
    await again.put({"a": "1", "b": "2"})  # the thread left behind keeps nothing
    assert [item["b"] for item in (await again.query("1")).items] == ["2"]


@pytest.mark.parametrize("moment", ["throttled", "waiting", "late"])
async def test_close_waits_for_the_turn_once(
    open_sqlite: OpenSqlite, path: Path, moment: str
) -> None:
    timeout = 0.6
    engine = await open_sqlite(lock_timeout=timeout)
    table = await engine.ensure_table(TABLE)
    lock = os.open(f"{path}-turn", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        puts = [table.put({"a": "1", "b": "1"})]
        if moment != "waiting":
            await asyncio.sleep(0.9 * timeout)
            puts.append(table.put({"a": "1", "b": "2"}))
        if moment == "throttled":
            with pytest.raises(Throttled):
                await puts.pop(0)
        begin = perf_counter()
        await engine.close()
        assert perf_counter() - begin < timeout + 0.4
        for put in puts:
            with pytest.raises(Throttled):
                await put
    finally:
        os.close(lock)


async def test_the_thread_left_behind_lets_go_of_the_turn(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    engine = await open_sqlite(lock_timeout=0.05)
    table = await engine.ensure_table(TABLE)
    lock = os.open(f"{path}-turn", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    put = table.put({"a": "1", "b": "1"})
    await engine.close()
    with pytest.raises(Throttled):
        await put
    thread = engine._writer._aide._thread
    assert thread.is_alive()
    os.close(lock)
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
    with pytest.raises(apsw.ConnectionClosedError):
        engine._database.writer.execute("SELECT 1")
    turns = Turns(str(path))
    assert turns.try_take()
    turns.close()


async def test_a_process_ends_although_another_one_keeps_the_turn(
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
    lock = os.open(f"{path}-turn", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, str(path)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output = await asyncio.wait_for(process.communicate(), 20)
    finally:
        os.close(lock)
    assert output == (b"throttled\n", b"")
    assert process.returncode == 0


async def test_a_foreign_program_that_locks_the_file_is_waited_for(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    table = await (await open_sqlite()).ensure_table(TABLE)
    foreign = apsw.Connection(str(path))
    foreign.execute("BEGIN IMMEDIATE")
    put = asyncio.ensure_future(table.put({"a": "1", "b": "1"}))
    await asyncio.sleep(0.02)
    assert not put.done()
    foreign.execute("COMMIT")
    foreign.close()
    await put


async def test_a_foreign_program_that_keeps_the_lock_throttles(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    table = await (await open_sqlite(lock_timeout=0.05)).ensure_table(TABLE)
    foreign = apsw.Connection(str(path))
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(Throttled):
        await table.put({"a": "1", "b": "1"})
    foreign.close()
    await table.put({"a": "1", "b": "2"})


async def test_a_long_queue_is_committed_in_bounded_transactions(
    engine: SqliteEngine, table: TableHandle
) -> None:
    seen = commits(engine)
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
    engine: SqliteEngine, table: TableHandle
) -> None:
    engine._database.writer.set_commit_hook(lambda: True)  # turns the commit into a rollback
    with pytest.raises(Unavailable):
        await table.batch_write(puts=[{"a": str(n), "b": "1"} for n in range(100)])
    engine._database.writer.set_commit_hook(None)
    assert await table.get(("7", "1")) is None
    await table.batch_write(puts=[{"a": str(n), "b": "1"} for n in range(100)])
    assert await table.get(("7", "1")) is not None


async def test_batches_share_a_transaction_as_far_as_it_may_grow(
    engine: SqliteEngine, table: TableHandle
) -> None:
    seen = commits(engine)
    batches: list[list[Item]] = [
        [{"a": str(n), "b": str(m)} for m in range(1000)] for n in range(8)
    ]
    await asyncio.gather(*(table.batch_write(puts=batch) for batch in batches))
    assert len(seen) < 8
    del seen[:]
    large: list[Item] = [{"a": "large", "b": str(m), "data": "x" * 2000} for m in range(8000)]
    await table.batch_write(puts=large)  # 16 MB
    assert len(seen) >= 4


async def test_the_loop_turns_while_a_long_queue_is_written(table: TableHandle) -> None:
    turns = 0
    running = True

    def turn() -> None:
        nonlocal turns
        turns += 1
        if running:
            asyncio.get_running_loop().call_soon(turn)

    puts = [table.put({"a": "1", "b": str(n), "data": "x" * 1000}) for n in range(3000)]
    turn()
    await asyncio.gather(*puts)
    running = False
    assert turns > 20


async def test_order_holds_on_a_loop_that_never_sleeps(table: TableHandle) -> None:
    loop = asyncio.get_running_loop()
    running = True

    def spin() -> None:
        end = perf_counter() + 0.0005
        while perf_counter() < end:
            pass
        if running:
            loop.call_soon(spin)

    loop.call_soon(spin)
    for round_ in range(5):
        writes: list[Awaitable[object]] = []
        for n in range(20):
            writes.append(table.put({"a": "1", "b": "x", "n": (round_, n)[1]}))
            writes.append(table.delete(("1", "x")) if n % 2 else asyncio.sleep(0))
        await asyncio.gather(*writes)
        assert await table.get(("1", "x")) is None
    running = False


async def test_a_read_waits_only_for_writes_of_its_partition(
    engine: SqliteEngine, table: TableHandle
) -> None:
    await table.put({"a": "quiet", "b": "1"})
    put = table.put({"a": "busy", "b": "1"})
    reading = table.get(("quiet", "1"))
    with pytest.raises(StopIteration) as answered:  # answered without suspending
        reading.send(None)
    assert answered.value.value == {"a": "quiet", "b": "1"}
    waiting = table.get(("busy", "1"))
    waiting.send(None)
    waiting.close()
    await put


async def test_a_query_that_ends_early_keeps_no_snapshot(
    engine: SqliteEngine, table: TableHandle
) -> None:
    await table.batch_write(puts=[{"a": "1", "b": str(n)} for n in range(10)])
    page = await table.query("1", limit=2)
    assert page.cursor is not None
    await table.put({"a": "1", "b": "2"})
    reader = engine._database.reader
    assert reader.txn_state("main") == apsw.SQLITE_TXN_NONE


async def test_close_flushes_what_was_submitted(open_sqlite: OpenSqlite) -> None:
    first, second = await open_sqlite(), await open_sqlite()
    table = await first.ensure_table(TABLE)
    puts = [asyncio.ensure_future(table.put({"a": "1", "b": str(n)})) for n in range(2500)]
    await first.close()
    assert all(put.done() and put.exception() is None for put in puts)
    found = await (await second.ensure_table(TABLE)).batch_get([("1", str(n)) for n in range(2500)])
    assert len(found) == 2500


async def test_writes_rest_only_after_many_transactions_in_short_time(
    engine: SqliteEngine, table: TableHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_CALM", 10.0)
    monkeypatch.setattr(writer, "_REST", 0.05)
    for n in range(writer._BURST - 1):
        await table.put({"a": "1", "b": str(n)})
        assert engine._writer._rested <= monotonic()
    for n in range(2):
        await table.put({"a": "1", "b": str(n)})
    begin = monotonic()
    assert engine._writer._rested > begin
    await table.put({"a": "1", "b": "later"})
    assert monotonic() > begin + 0.04
