"""One run writes at a time; a dead one is in nobody's way."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channelstats.tables.writer_lease import STALE_AFTER, Taken, WriterLease, is_held, place
from keytables import Engine, Item, TableHandle, Throttled, Unavailable
from support import engines
from support.channelstats.dated import opened, row
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine

BEGUN = 1_710_000_000
"""2024-03-09 16:00:00 UTC."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGUN)


@pytest.fixture(params=engines.EVERY)
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Engine]:
    async with engines.engine(request.param, tmp_path, clock) as found:
        yield found


async def configuration(engine: Engine) -> TableHandle:
    return (await opened(engine)).configuration._table


class Pauses:
    """Pauses that last until the test goes on."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._over = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.begun.set()
        await self._over.wait()
        self._over.clear()

    async def go_on(self) -> None:
        """End this pause, and wait for the next one."""
        await self.begun.wait()
        self.begun.clear()
        self._over.set()
        await self.begun.wait()

    async def end(self) -> None:
        await self.begun.wait()
        self._over.set()


async def held(table: TableHandle, clock: ManualClock, **changed: int | str) -> Item:
    """Leave a lease behind, of a run that ended without giving it back."""
    lease = WriterLease(table, clock)
    async with lease:
        item = await table.get(("writer",))
    assert item is not None
    await table.put({**item, **changed})
    return item


async def test_while_one_run_writes_another_is_refused_with_since_when(
    engine: Engine, clock: ManualClock
) -> None:
    table = await configuration(engine)
    async with WriterLease(table, clock):
        clock.advance(60)
        with pytest.raises(Taken, match="since 2024-03-09 16:00:00 UTC") as refused:
            async with WriterLease(table, clock):
                raise AssertionError
        assert "\n" not in str(refused.value)
    async with WriterLease(table, clock):
        pass
    assert await table.get(("writer",)) is None


async def test_a_run_that_fails_gives_the_lease_back(engine: Engine, clock: ManualClock) -> None:
    table = await configuration(engine)
    with pytest.raises(LookupError):
        async with WriterLease(table, clock):
            raise LookupError
    assert await table.get(("writer",)) is None


async def test_the_lease_of_a_process_that_is_gone_is_taken_at_once(
    engine: Engine, clock: ManualClock
) -> None:
    table = await configuration(engine)
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    await held(table, clock, pid=process.pid)
    async with WriterLease(table, clock):
        pass


@pytest.mark.parametrize("changed", [{"pid": os.getpid()}, {"pid": 0}, {"place": "elsewhere"}])
async def test_where_nobody_knows_whether_a_run_is_dead_it_has_to_grow_old(
    engine: Engine, clock: ManualClock, changed: dict[str, int | str]
) -> None:
    table = await configuration(engine)
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    await held(table, clock, **{"pid": process.pid, **changed})
    clock.advance(STALE_AFTER)
    with pytest.raises(Taken):
        async with WriterLease(table, clock):
            raise AssertionError
    clock.advance(1)
    async with WriterLease(table, clock):
        pass


async def test_a_lease_from_the_future_is_not_believed(engine: Engine, clock: ManualClock) -> None:
    table = await configuration(engine)
    await held(table, clock)
    clock.advance(-STALE_AFTER - 1)
    async with WriterLease(table, clock):
        pass


async def test_a_long_run_renews_its_lease(engine: Engine, clock: ManualClock) -> None:
    table = await configuration(engine)
    pauses = Pauses()
    async with WriterLease(table, clock, pauses):
        for _ in range(3):
            clock.advance(STALE_AFTER)
            await pauses.go_on()
        with pytest.raises(Taken, match="since 2024-03-09 16:00:00"):
            async with WriterLease(table, clock):
                raise AssertionError


async def test_a_run_whose_lease_was_taken_stops(engine: Engine, clock: ManualClock) -> None:
    table = await configuration(engine)
    pauses = Pauses()

    async def run() -> None:
        async with WriterLease(table, clock, pauses):
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await pauses.begun.wait()
    clock.advance(STALE_AFTER + 1)
    async with WriterLease(table, clock):
        await pauses.end()
        with pytest.raises(Taken, match="took over"):
            await running
        assert await table.get(("writer",)) is not None


@pytest.mark.parametrize("error", [Throttled(), Unavailable()])
async def test_a_run_that_cannot_renew_its_lease_stops_before_it_is_stale(
    clock: ManualClock, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await configuration(MemoryEngine(clock))
    pauses = Pauses()

    async def refused() -> None:
        raise error

    async def run() -> None:
        async with WriterLease(table, clock, pauses):
            monkeypatch.setattr(table, "update", lambda *_, **__: refused())
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await pauses.go_on()
    assert not running.done()  # it may pass
    clock.advance(STALE_AFTER - 1)
    await pauses.end()
    with pytest.raises(Taken):
        await running


async def test_whoever_is_cancelled_while_holding_it_is_cancelled(clock: ManualClock) -> None:
    table = await configuration(MemoryEngine(clock))
    begun = asyncio.Event()

    async def run() -> None:
        async with WriterLease(table, clock):
            begun.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await table.get(("writer",)) is None


async def test_whoever_writes_takes_over_what_a_dead_run_left_open(
    engine: Engine, clock: ManualClock
) -> None:
    dead, following = await opened(engine), await opened(engine)
    await dead.messages.write([row(0)])
    async with following.writing(clock):
        await following.messages.close_days()
    assert await following.messages._marks.opened() == {}


def test_a_place_is_told_by_a_digest_alone() -> None:
    assert place() == place()
    assert len(place()) == 16


async def test_it_is_held_while_a_run_writes_that_may_be_alive(
    engine: Engine, clock: ManualClock
) -> None:
    table = await configuration(engine)
    assert not await is_held(table, clock)
    async with WriterLease(table, clock):
        assert await is_held(table, clock)
    assert not await is_held(table, clock)
    await held(table, clock)
    assert await is_held(table, clock)
    clock.advance(STALE_AFTER + 1)
    assert not await is_held(table, clock)


async def test_a_process_that_is_gone_holds_nothing(engine: Engine, clock: ManualClock) -> None:
    table = await configuration(engine)
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    await held(table, clock, pid=process.pid)
    assert not await is_held(table, clock)
