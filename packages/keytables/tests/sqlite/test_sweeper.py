"""Expired rows are removed, a few at a time, by one timer."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from keytables import Clock, Key, KeytablesError, OnFailure, Table
from keytables.clock_guard import ClockGuard, read_clocks
from keytables.failures import FailureReports
from keytables.sqlite.sweeper import SWEEP_ROWS, SWEEP_WRITES
from keytables.sweeper import Sweeper
from support.clocks import ManualClock
from support.fake_loop import FakeLoop
from support.sqlite_store import Connections, OpenSqlite, select

EXPIRING = Table("expiring", Key("a"), Key("b"), expiry="end")


def sweeper_of(
    loop: asyncio.AbstractEventLoop,
    remove_some: Callable[[], Awaitable[int]],
    interval: float,
    *,
    clock: Clock = ManualClock(),  # noqa: B008 - it is never set
    steady: Clock = lambda: 0.0,
    on_failure: OnFailure | None = None,
) -> Sweeper:
    guard, failures = ClockGuard(clock, steady), FailureReports(on_failure, loop=loop)
    return Sweeper(
        loop,
        remove_some,
        interval,
        full=SWEEP_ROWS * SWEEP_WRITES,
        guard=guard,
        report=failures.report,
    )


def rows(path: Path, name: str = "expiring") -> int:
    """Count the rows, expired or not."""
    is_table = f"type = 'table' AND name LIKE '{name}~%'"
    ((table,),) = select(path, f"SELECT name FROM sqlite_schema WHERE {is_table}")
    return len(select(path, f'SELECT 1 FROM "{table}"'))


async def test_expired_rows_are_removed_and_others_stay(
    open_sqlite: OpenSqlite, clock: ManualClock, path: Path
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(EXPIRING)
    other = await engine.ensure_table(Table("lasting", Key("a")))
    await other.put({"a": "1", "end": 1})
    for number in range(3 * SWEEP_ROWS):
        end = clock.now + 1 if number % 3 else (0 if number % 2 else clock.now + 100)
        await table.put({"a": "1", "b": str(number), "end": end})
    clock.advance(1)
    assert rows(path) == 3 * SWEEP_ROWS
    assert await engine.sweep() == 2 * SWEEP_ROWS
    assert engine.expired == {EXPIRING.name: 2 * SWEEP_ROWS}
    assert rows(path) == SWEEP_ROWS
    assert rows(path, "lasting") == 1
    assert await engine.sweep() == 0


async def test_a_write_of_the_sweep_is_small(
    open_sqlite: OpenSqlite, clock: ManualClock, connections: Connections, path: Path
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(EXPIRING)
    count = SWEEP_ROWS * (SWEEP_WRITES + 1)
    await table.batch_write(puts=[{"a": "1", "b": str(n), "end": clock.now} for n in range(count)])
    sizes: list[int] = []
    writer = connections.writer

    def traced(cursor: object, sql: str, values: object) -> bool:
        if sql.startswith("DELETE"):
            sizes.append(writer.total_changes())
        return True

    writer.exec_trace = traced
    before = writer.total_changes()
    assert await engine.sweep() == count
    assert sizes[: SWEEP_WRITES + 1] == [before + SWEEP_ROWS * n for n in range(SWEEP_WRITES + 1)]
    assert rows(path) == 0


async def test_a_sweep_continues_while_it_finds_many(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [SWEEP_ROWS * SWEEP_WRITES] * 20 + [1, 0]
    done = asyncio.Event()
    pauses = 0
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        await sleep(0)

    async def some() -> int:
        if len(found) == 1:
            done.set()
        return found.pop(0) if found else 0

    monkeypatch.setattr("keytables.sweeper.asyncio.sleep", counted)
    sweeper = sweeper_of(asyncio.get_running_loop(), some, 0.001)
    await done.wait()
    assert pauses == 1
    await sweeper.close()


async def test_a_row_that_is_put_again_is_not_removed(
    open_sqlite: OpenSqlite, clock: ManualClock
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(EXPIRING)
    await table.put({"a": "1", "b": "1", "end": clock.now})
    sweep = asyncio.ensure_future(engine.sweep())
    put = table.put({"a": "1", "b": "1", "end": clock.now + 50})
    await sweep
    await put
    assert await table.get(("1", "1")) is not None


async def test_the_engine_sweeps_by_itself(
    open_sqlite: OpenSqlite, clock: ManualClock, path: Path
) -> None:
    engine = await open_sqlite(sweep_interval=0.01)
    table = await engine.ensure_table(EXPIRING)
    await table.batch_write(
        puts=[{"a": "1", "b": str(n), "end": clock.now} for n in range(2 * SWEEP_ROWS + 1)]
    )
    while rows(path):  # noqa: ASYNC110 - rows are removed without an event
        await asyncio.sleep(0.01)


async def test_a_sweep_that_finds_nothing_begins_no_transaction(
    open_sqlite: OpenSqlite, connections: Connections
) -> None:
    engine = await open_sqlite()
    await engine.ensure_table(EXPIRING)
    began: list[int] = []
    connections.writer.exec_trace = lambda *_: began.append(1) or True  # type: ignore[func-returns-value]
    await engine.sweep()
    assert not began


async def nothing() -> int:
    return 0


def test_processes_sweep_at_different_times() -> None:
    fake = FakeLoop(start=0.0)
    for _ in range(20):
        sweeper_of(fake.loop, nothing, 100.0)
    assert all(50 <= when <= 150 for when in fake.scheduled)
    assert fake.scheduled[-1] - fake.scheduled[0] > 10


async def test_close_cancels_a_running_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    sweeping, timers = asyncio.Event(), []

    async def endless() -> int:
        sweeping.set()
        await asyncio.Event().wait()
        return 0

    sweeper = sweeper_of(loop, endless, 0.001)
    await sweeping.wait()
    monkeypatch.setattr(loop, "call_later", lambda *call: timers.append(call))
    await sweeper.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert timers == []


async def test_nothing_is_swept_while_the_clock_may_be_wrong() -> None:
    wall, steady = ManualClock(1_000_000.0), ManualClock(0.0)
    swept = asyncio.Event()

    async def some() -> int:
        swept.set()
        return 0

    fake = FakeLoop()
    sweeper = sweeper_of(fake.loop, some, 1.0, clock=wall, steady=steady)
    wall.advance(31 * 86_400)
    for _ in range(3):
        await sweeper._sweep()
    assert not swept.is_set()
    wall.advance(-31 * 86_400)
    await sweeper._sweep()
    assert swept.is_set()
    await sweeper.close()


async def test_an_engine_opened_after_the_clock_was_set_tells_so_by_an_earlier_reading(
    open_sqlite: OpenSqlite, clock: ManualClock
) -> None:
    first = read_clocks(clock)
    clock.advance(86_400)
    engine = await open_sqlite(first_reading=first)
    assert engine.clock_jump == pytest.approx(86_400, abs=60)


async def test_a_sweep_that_meets_a_defect_is_reported_and_repeated() -> None:
    calls = asyncio.Queue[int]()
    heard: list[KeytablesError] = []

    async def failing() -> int:
        calls.put_nowait(1)
        raise MemoryError

    loop = asyncio.get_running_loop()
    sweeper = sweeper_of(loop, failing, 0.001, on_failure=heard.append)
    for _ in range(3):
        await calls.get()
    await sweeper.close()
    assert "MemoryError" in str(heard[0])
