"""Who does the daily work: one process at a time, once a day, also when it crashed."""

import asyncio

import pytest

from autopush.store.lease import LEASE, PERIOD, DailyLease
from autopush.store.tables import storage_table
from keytables import Engine
from support import engines
from support.clocks import ManualClock

engine = engines.engine_fixture(engines.EVERY)


@pytest.fixture
async def leases(engine: Engine, clock: ManualClock) -> list[DailyLease]:
    """Of three processes."""
    table = await engine.ensure_table(storage_table("storage"))
    return [DailyLease(table, clock) for _ in range(3)]


async def test_one_of_all_gets_it(leases: list[DailyLease]) -> None:
    assert sum(await asyncio.gather(*(each.acquire_if_due() for each in leases))) == 1


async def test_the_work_is_due_again_a_day_after_it_was_done(
    leases: list[DailyLease], clock: ManualClock
) -> None:
    first, second, _ = leases
    assert await first.acquire_if_due()
    clock.advance(300)
    await first.complete()
    clock.advance(PERIOD - 1)
    assert not await second.acquire_if_due()
    assert not await first.acquire_if_due()
    clock.advance(1)
    assert await second.acquire_if_due()


async def test_a_holder_that_crashed_is_replaced_and_one_that_renews_is_not(
    leases: list[DailyLease], clock: ManualClock
) -> None:
    first, second, _ = leases
    assert await first.acquire_if_due()
    for _ in range(5):
        clock.advance(LEASE - 1)
        assert not await second.acquire_if_due()
        assert await first.renew()
    clock.advance(LEASE)
    assert await second.acquire_if_due()
    assert not await first.renew()
    await first.complete()
    await first.release()
    assert await second.renew(), "who has lost it changes nothing"


async def test_what_was_released_is_due_at_once(leases: list[DailyLease]) -> None:
    first, second, _ = leases
    assert await first.acquire_if_due()
    await first.release()
    assert await second.acquire_if_due()


async def test_times_of_a_clock_that_was_ahead_hold_nothing_up(
    leases: list[DailyLease], clock: ManualClock
) -> None:
    first, second, third = leases
    clock.advance(1e7)
    assert await first.acquire_if_due()
    clock.advance(-1e7)
    assert await second.acquire_if_due()
    clock.advance(1e6)
    await second.complete()
    clock.advance(-1e6)
    assert await third.acquire_if_due()
