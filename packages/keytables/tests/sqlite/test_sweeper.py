"""Expired rows are removed, a few at a time, by one timer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from keytables import Key, Table, Unavailable
from keytables.sqlite import SqliteEngine
from keytables.sqlite.sweeper import AT_ONCE, BATCH, Sweeper
from support.clocks import ManualClock

OpenSqlite = Callable[..., Awaitable[SqliteEngine]]
EXPIRING = Table("expiring", Key("a"), Key("b"), expiry="end")


def rows(engine: SqliteEngine, name: str = "expiring") -> int:
    """Count the rows, expired or not."""
    found = engine._handles[name].statements.name
    return int(engine._database.reader.execute(f"SELECT count(*) FROM {found}").get)


async def test_expired_rows_go_and_others_stay(open_sqlite: OpenSqlite, clock: ManualClock) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(EXPIRING)
    other = await engine.ensure_table(Table("lasting", Key("a")))
    await other.put({"a": "1", "end": 1})
    for number in range(3 * BATCH):
        end = clock.now + 1 if number % 3 else (0 if number % 2 else clock.now + 100)
        await table.put({"a": "1", "b": str(number), "end": end})
    clock.advance(1)
    assert rows(engine) == 3 * BATCH
    assert await engine.sweep() == 2 * BATCH
    assert rows(engine) == BATCH
    assert rows(engine, "lasting") == 1
    assert await engine.sweep() == 0


async def test_a_write_of_the_sweep_is_small(open_sqlite: OpenSqlite, clock: ManualClock) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(EXPIRING)
    count = BATCH * (AT_ONCE + 1)
    await table.batch_write(puts=[{"a": "1", "b": str(n), "end": clock.now} for n in range(count)])
    sizes: list[int] = []
    execute = engine._writer._cursor.connection

    def traced(cursor: object, sql: str, values: object) -> bool:
        if sql.startswith("DELETE"):
            sizes.append(execute.total_changes())
        return True

    execute.exec_trace = traced
    before = execute.total_changes()
    assert await engine._sweep_some() == BATCH * AT_ONCE
    assert sizes == [before + BATCH * n for n in range(AT_ONCE)]
    assert rows(engine) == BATCH


async def test_a_sweep_goes_on_at_once_while_there_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [BATCH * AT_ONCE] * 20 + [1, 0]
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

    monkeypatch.setattr("keytables.sqlite.sweeper.asyncio.sleep", counted)
    sweeper = Sweeper(asyncio.get_running_loop(), some, 0.001)
    await done.wait()
    assert pauses == 1
    await sweeper.close()


async def test_a_row_that_lives_again_is_not_swept(
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


async def test_the_engine_sweeps_by_itself(open_sqlite: OpenSqlite, clock: ManualClock) -> None:
    engine = await open_sqlite(sweep_interval=0.01)
    table = await engine.ensure_table(EXPIRING)
    await table.batch_write(
        puts=[{"a": "1", "b": str(n), "end": clock.now} for n in range(2 * BATCH + 1)]
    )
    while rows(engine):  # noqa: ASYNC110 - what to wait for is in the file
        await asyncio.sleep(0.01)


async def test_sweeping_nothing_takes_no_turn(open_sqlite: OpenSqlite) -> None:
    engine = await open_sqlite()
    await engine.ensure_table(EXPIRING)
    began: list[int] = []
    engine._database.writer.exec_trace = lambda *_: began.append(1) or True  # type: ignore[func-returns-value]
    await engine.sweep()
    assert not began


async def test_processes_sweep_at_different_moments() -> None:
    loop = asyncio.get_running_loop()

    async def nothing() -> int:
        return 0

    sweepers = [Sweeper(loop, nothing, 100.0) for _ in range(20)]
    pauses = [sweeper._timer.when() - loop.time() for sweeper in sweepers]
    assert all(49 < pause < 151 for pause in pauses)
    assert max(pauses) - min(pauses) > 10
    for sweeper in sweepers:
        await sweeper.close()


async def test_a_failed_sweep_comes_round_again() -> None:
    calls = asyncio.Queue[int]()

    async def failing() -> int:
        calls.put_nowait(1)
        raise Unavailable("disk")

    sweeper = Sweeper(asyncio.get_running_loop(), failing, 0.001)
    for _ in range(3):
        await calls.get()
    await sweeper.close()


@pytest.mark.parametrize("moment", ["waiting", "sweeping"])
async def test_close_ends_it(moment: str) -> None:
    sweeping, never = asyncio.Event(), asyncio.Event()

    async def forever() -> int:
        sweeping.set()
        await never.wait()
        return 0

    sweeper = Sweeper(asyncio.get_running_loop(), forever, 0.001 if moment == "sweeping" else 100)
    if moment == "sweeping":
        await sweeping.wait()
    await sweeper.close()
    assert sweeper._timer.cancelled() or sweeper._timer.when() < asyncio.get_running_loop().time()
