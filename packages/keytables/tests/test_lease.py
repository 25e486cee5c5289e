"""A lease has one holder at a time; a dead one is in nobody's way."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from keytables import Attr, Engine, Key, Param, Table, TableHandle, Throttled, Unavailable
from keytables.lease import RENEWALS, Lease, LeaseLost, place
from support import engines
from support.clocks import ManualClock, Pauses
from support.memory_engine import MemoryEngine

KEY = ("work",)
LASTS = 180


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=engines.EVERY)
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Engine]:
    async with engines.engine(request.param, tmp_path, clock) as found:
        yield found


@pytest.fixture
async def table(engine: Engine) -> TableHandle:
    return await opened(engine)


async def opened(engine: Engine) -> TableHandle:
    return await engine.ensure_table(Table("leases", Key("name")))


def a_lease(table: TableHandle, clock: ManualClock, pauses: Pauses | None = None) -> Lease:
    if pauses is None:
        return Lease(table, KEY, clock, seconds=LASTS, names_process=True)
    return Lease(table, KEY, clock, seconds=LASTS, names_process=True, pause=pauses)


async def left_behind(table: TableHandle, clock: ManualClock, **changed: int | str) -> None:
    """A lease of a holder that ended without giving it back."""
    assert await a_lease(table, clock).acquire()
    item = await table.get(KEY)
    assert item is not None
    await table.put({**item, **changed})


async def gone_process() -> int:
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    return process.pid


async def test_one_of_many_gets_it(table: TableHandle, clock: ManualClock) -> None:
    leases = [a_lease(table, clock) for _ in range(5)]
    assert sum(await asyncio.gather(*(lease.acquire() for lease in leases))) == 1


async def test_while_it_is_held_others_are_refused_and_hear_since_when(
    table: TableHandle, clock: ManualClock
) -> None:
    first, second = a_lease(table, clock), a_lease(table, clock)
    assert await second.held_since() is None
    assert await first.acquire()
    begun = int(clock())
    clock.advance(60)
    assert await first.renew()
    assert not await second.acquire()
    assert await second.held_since() == begun
    await first.release()
    assert await second.held_since() is None
    assert await second.acquire()


async def test_whoever_does_not_hold_it_changes_nothing(
    table: TableHandle, clock: ManualClock
) -> None:
    first, second = a_lease(table, clock), a_lease(table, clock)
    assert await first.acquire()
    held = await table.get(KEY)
    assert not await second.renew()
    await second.release({"done": 1})
    assert await table.get(KEY) == held


async def test_a_row_of_the_lease_alone_is_deleted_and_one_of_more_keeps_the_rest(
    table: TableHandle, clock: ManualClock
) -> None:
    lease = a_lease(table, clock)
    assert await lease.acquire()
    await lease.release()
    assert await table.get(KEY) is None
    assert await lease.acquire()
    await lease.release({"done": 7})
    assert await table.get(KEY) == {"name": "work", "done": 7}
    assert await lease.acquire()
    await lease.release()
    assert await table.get(KEY) == {"name": "work", "done": 7}


async def test_what_is_noted_is_in_the_row_while_it_is_held(
    table: TableHandle, clock: ManualClock
) -> None:
    lease = a_lease(table, clock)
    assert await lease.acquire()
    assert await lease.renew({"part": 1, "trying": 2})
    assert await lease.renew({"part": 2, "trying": None})
    row = await table.get(KEY) or {}
    assert row["part"] == 2
    assert "trying" not in row
    assert await lease.release({"part": None, "done": 1})
    assert await table.get(KEY) == {"name": "work", "done": 1}
    assert not await lease.renew({"part": 3})
    assert not await lease.release({"part": 3})
    assert await table.get(KEY) == {"name": "work", "done": 1}


async def test_work_goes_on_only_while_the_lease_is_held(
    table: TableHandle, clock: ManualClock
) -> None:
    first, second = a_lease(table, clock), a_lease(table, clock)
    assert await first.acquire()
    clock.advance(LASTS)
    await first.confirm()  # nobody has taken it: it is renewed
    assert not await second.acquire()
    clock.advance(LASTS)
    assert await second.acquire()
    with pytest.raises(LeaseLost):
        await first.confirm()
    await second.confirm()


async def test_a_lease_that_was_renewed_a_moment_ago_is_confirmed_without_the_table(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await opened(MemoryEngine(clock))
    lease = a_lease(table, clock)
    assert await lease.acquire()
    clock.advance(LASTS / 2)
    monkeypatch.setattr(table, "update", None)
    await lease.confirm()
    clock.advance(1)
    with pytest.raises(TypeError):
        await lease.confirm()


async def test_it_is_acquired_only_where_the_row_fulfils_the_condition(
    table: TableHandle, clock: ManualClock
) -> None:
    lease, is_before = a_lease(table, clock), Attr("done") < Param("limit")
    assert not await lease.acquire(is_before, {"limit": 5})
    await table.put({"name": "work", "done": 5})
    assert not await lease.acquire(is_before, {"limit": 5})
    assert await lease.acquire(is_before, {"limit": 6})


async def test_the_lease_of_a_process_that_is_gone_is_free_at_once(
    table: TableHandle, clock: ManualClock
) -> None:
    await left_behind(table, clock, pid=await gone_process())
    assert await a_lease(table, clock).held_since() is None
    assert await a_lease(table, clock).acquire()


@pytest.mark.parametrize("changed", [{"pid": os.getpid()}, {"pid": 0}, {"place": "elsewhere"}])
async def test_where_nobody_knows_whether_a_holder_is_dead_its_time_has_to_end(
    table: TableHandle, clock: ManualClock, changed: dict[str, int | str]
) -> None:
    await left_behind(table, clock, **{"pid": await gone_process(), **changed})
    clock.advance(LASTS - 1)
    assert await a_lease(table, clock).held_since() is not None
    assert not await a_lease(table, clock).acquire()
    clock.advance(1)
    assert await a_lease(table, clock).held_since() is None
    assert await a_lease(table, clock).acquire()


async def test_a_lease_from_the_future_counts_for_nothing(
    table: TableHandle, clock: ManualClock
) -> None:
    await left_behind(table, clock)
    clock.advance(-1)
    assert await a_lease(table, clock).held_since() is None
    assert await a_lease(table, clock).acquire()


async def test_without_the_name_of_its_process_a_holder_is_believed(
    table: TableHandle, clock: ManualClock
) -> None:
    assert await Lease(table, KEY, clock, seconds=LASTS).acquire()
    assert set(await table.get(KEY) or {}) == {"name", "holder", "held_until", "since"}


async def test_a_context_renews_it_and_gives_it_back(
    table: TableHandle, clock: ManualClock
) -> None:
    pauses = Pauses()
    lease = a_lease(table, clock, pauses)
    assert await lease.acquire()
    async with lease:
        for _ in range(3):
            clock.advance(LASTS - 1)
            await pauses.go_on()
            assert not await a_lease(table, clock).acquire()
    assert set(pauses.seconds) == {LASTS / RENEWALS}
    assert await table.get(KEY) is None


async def test_work_that_fails_gives_it_back(table: TableHandle, clock: ManualClock) -> None:
    lease = a_lease(table, clock)
    assert await lease.acquire()
    with pytest.raises(LookupError):
        async with lease:
            raise LookupError
    assert await table.get(KEY) is None


async def holding(lease: Lease) -> None:
    assert await lease.acquire()
    async with lease:
        await asyncio.Event().wait()


async def test_work_whose_lease_was_taken_is_cancelled_and_leaves_it_to_the_other(
    table: TableHandle, clock: ManualClock
) -> None:
    pauses, other = Pauses(), a_lease(table, clock)
    working = asyncio.create_task(holding(a_lease(table, clock, pauses)))
    await pauses.begun.wait()
    clock.advance(LASTS)
    assert await other.acquire()
    await pauses.end()
    with pytest.raises(LeaseLost):
        await working
    assert not working.cancelled()
    assert await other.renew()


async def test_work_that_ends_while_its_lease_is_lost_says_so(clock: ManualClock) -> None:
    table, pauses = await opened(MemoryEngine(clock)), Pauses()
    lease, other = a_lease(table, clock, pauses), a_lease(table, clock)
    assert await lease.acquire()

    async def work() -> None:
        async with lease:
            clock.advance(LASTS)
            assert await other.acquire()
            await pauses.end()
            while not lease._is_lost:
                # Whatever it does in the end, it is not to see that it was cancelled.
                await asyncio.shield(asyncio.sleep(0))

    with pytest.raises(LeaseLost):
        await asyncio.create_task(work())


@pytest.mark.parametrize("error", [Throttled(), Unavailable()])
async def test_work_that_cannot_renew_its_lease_stops_before_it_ends(
    clock: ManualClock, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, pauses = await opened(MemoryEngine(clock)), Pauses()

    async def refused() -> None:
        raise error

    working = asyncio.create_task(holding(a_lease(table, clock, pauses)))
    await pauses.begun.wait()
    monkeypatch.setattr(table, "update", lambda *_, **__: refused())
    await pauses.go_on()
    assert not working.done()  # it may pass
    clock.advance(LASTS - 1)
    await pauses.end()
    with pytest.raises(LeaseLost):
        await working


async def test_whoever_is_cancelled_while_holding_it_is_cancelled(clock: ManualClock) -> None:
    table, pauses = await opened(MemoryEngine(clock)), Pauses()
    working = asyncio.create_task(holding(a_lease(table, clock, pauses)))
    await pauses.begun.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await table.get(KEY) is None


def test_a_place_is_told_by_a_digest_alone() -> None:
    assert place() == place()
    assert len(place()) == 16
