"""Which message tables a store has, and the change of the month, on every engine."""

import asyncio
from datetime import UTC, datetime

import pytest

from autopush.store import PushStore, TablePlan
from autopush.store.push_store import ABSENT_FOR, MAX_ABSENT
from autopush.store.tables import message_table
from keytables import Capacity, Engine, Throttled
from support import engines
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine
from support.stored_messages import record_of

UAID = "0123456789abcdef0123456789abcdef"
NODE = "http://one:8081"
CHANNEL = "11111111-2222-3333-4444-555555555555"
ROTATING = TablePlan(rotating=True)
MINUTE, DAY = 60.0, 86_400.0


engine = engines.engine_fixture(engines.NAMES)


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


async def open_store(
    engine: Engine, clock: ManualClock, now: float, plan: TablePlan = ROTATING
) -> PushStore:
    clock.now = now
    return await PushStore.open(engine, plan, key_hash="", clock=clock)


def known(store: PushStore) -> list[str]:
    return [messages.name for messages in store.tables]


async def message_tables(engine: Engine) -> list[str]:
    return [name for name in await engine.table_names() if name.startswith("message")]


async def user_of(store: PushStore, month: str) -> bool:
    """Whether a user with that message table is known."""
    await store.users.create(UAID, NODE, 1, month)
    record = await record_of(store)
    messages = await store.messages_of(record)
    assert messages is None or messages.name == month
    return messages is not None


async def make(engine: Engine, *names: str) -> None:
    for name in names:
        await engine.ensure_table(message_table(name))


# ── at the start ────────────────────────────────────────────────────────────────────────────────


async def test_the_tables_of_this_month_and_the_previous_one_are_created(
    engine: Engine, clock: ManualClock
) -> None:
    store = await open_store(engine, clock, at(2027, 1, 15))
    assert await engine.table_names() == ["message_2026_12", "message_2027_01", "router", "storage"]
    assert known(store) == ["message_2026_12", "message_2027_01"]
    assert store.current.name == "message_2027_01"


async def test_on_the_last_day_of_a_month_the_next_table_is_created_too(
    engine: Engine, clock: ManualClock
) -> None:
    store = await open_store(engine, clock, at(2026, 12, 31))
    assert known(store) == ["message_2026_11", "message_2026_12", "message_2027_01"]
    assert store.current.name == "message_2026_12"


async def test_existing_tables_are_found_and_a_later_month_is_not_started(
    engine: Engine, clock: ManualClock
) -> None:
    await make(engine, "message", "message_2026_09", "message_2027_03", "message_2026_01")
    store = await open_store(engine, clock, at(2026, 11, 15))
    assert known(store) == [
        "message",
        "message_2026_09",
        "message_2026_10",
        "message_2026_11",
        "message_2027_03",
    ]
    assert store.current.name == "message_2026_11"


async def test_tables_have_the_names_of_the_plan(engine: Engine, clock: ManualClock) -> None:
    plan = TablePlan(router="r__", storage="s__", message="m__", rotating=True)
    await open_store(engine, clock, at(2026, 11, 15), plan)
    assert await engine.table_names() == ["m___2026_10", "m___2026_11", "r__", "s__"]


async def test_tables_are_created_with_their_capacities(clock: ManualClock) -> None:
    engine = MemoryEngine(clock)
    plan = TablePlan(
        rotating=True,
        router_capacity=Capacity(1, 2),
        storage_capacity=Capacity(3, 4),
        message_capacity=Capacity(5, 6),
    )
    store = await open_store(engine, clock, at(2026, 11, 29), plan)
    clock.advance(DAY)
    await store.rotate()
    assert engine.capacities == {
        "router": Capacity(1, 2),
        "storage": Capacity(3, 4),
        "message_2026_10": Capacity(5, 6),
        "message_2026_11": Capacity(5, 6),
        "message_2026_12": Capacity(5, 6),
    }


# ── the month turns ─────────────────────────────────────────────────────────────────────────────


async def test_a_month_is_not_started_before_its_table_exists(clock: ManualClock) -> None:
    engine = MemoryEngine(clock)
    store = await open_store(engine, clock, at(2026, 11, 15))
    engine.fail("ensure_table", Throttled("no more tables today"))
    clock.now = at(2026, 12, 1)
    with pytest.raises(Throttled):
        await store.rotate()
    assert store.current.name == "message_2026_11"
    await store.rotate()
    assert store.current.name == "message_2026_12"


async def test_users_of_a_table_that_is_too_old_are_unknown_after_rotation(
    engine: Engine, clock: ManualClock
) -> None:
    await make(engine, "message_2026_08")
    store = await open_store(engine, clock, at(2026, 9, 15))
    assert await user_of(store, "message_2026_08")
    for month in (10, 11):
        clock.now = at(2026, month, 1)
        await store.rotate()
    assert not await user_of(store, "message_2026_08")
    assert await user_of(store, "message_2026_09")


# ── clocks that jump ────────────────────────────────────────────────────────────────────────────


async def test_a_clock_that_goes_back_changes_nothing(engine: Engine, clock: ManualClock) -> None:
    store = await open_store(engine, clock, at(2026, 12, 1))
    clock.now = at(2026, 11, 30, 23, 59)
    await store.rotate()
    assert store.current.name == "message_2026_12"
    clock.now = at(2026, 10, 31)
    await store.rotate()
    assert store.current.name == "message_2026_12"
    assert await message_tables(engine) == ["message_2026_11", "message_2026_12"]


@pytest.mark.parametrize("ahead", [at(2026, 12, 15), at(2027, 11, 15)], ids=["month", "year"])
async def test_a_clock_that_jumps_ahead_and_back_makes_no_user_unknown(
    engine: Engine, clock: ManualClock, ahead: float
) -> None:
    store = await open_store(engine, clock, at(2026, 11, 15))
    clock.now = ahead
    await store.rotate()
    leapt_to = store.current.name
    clock.now = at(2026, 11, 15)
    await store.rotate()
    for month in ("message_2026_10", "message_2026_11", leapt_to):
        assert await user_of(store, month)
    again = await open_store(engine, clock, at(2026, 11, 15))
    assert again.current.name == "message_2026_11"
    for month in ("message_2026_10", "message_2026_11", leapt_to):
        assert await user_of(again, month)


async def test_users_are_never_moved_back(engine: Engine, clock: ManualClock) -> None:
    ahead = await open_store(engine, clock, at(2026, 12, 1))
    behind = await open_store(engine, clock, at(2026, 11, 30, 12))
    assert behind.current.name == "message_2026_11"
    assert not behind.is_behind(ahead.current)
    assert ahead.is_behind(behind.current)


# ── without rotation ────────────────────────────────────────────────────────────────────────────


async def test_without_rotation_the_newest_table_is_frozen(
    engine: Engine, clock: ManualClock
) -> None:
    await make(engine, "message", "message_2026_06", "message_2026_07", "message_2026_08")
    await make(engine, "message_2026_05")
    store = await open_store(engine, clock, at(2026, 11, 15), TablePlan())
    assert store.current.name == "message_2026_08"
    before = await engine.table_names()
    clock.now = at(2027, 3, 1)
    await store.rotate()
    assert store.current.name == "message_2026_08"
    assert known(store) == ["message", "message_2026_06", "message_2026_07", "message_2026_08"]
    assert await engine.table_names() == before


async def test_users_of_other_tables_are_moved_to_the_frozen_one(
    engine: Engine, clock: ManualClock
) -> None:
    await make(engine, "message", "message_2026_07", "message_2026_08")
    store = await open_store(engine, clock, at(2026, 11, 15), TablePlan())
    assert [store.is_behind(messages) for messages in store.tables] == [True, True, False]


# ── tables that come and go ─────────────────────────────────────────────────────────────────────


async def test_a_table_that_another_node_created_is_found_when_a_user_has_it(
    engine: Engine, clock: ManualClock
) -> None:
    store = await open_store(engine, clock, at(2026, 11, 15))
    await make(engine, "message_2026_12")
    assert await user_of(store, "message_2026_12")
    assert known(store)[-1] == "message_2026_12"


@pytest.mark.parametrize("name", ["message_2026_12", "message_2026_01", "nonsense", "router", ""])
async def test_a_missing_or_old_or_foreign_table_is_not_created(
    engine: Engine, clock: ManualClock, name: str
) -> None:
    await make(engine, "message_2026_01", "message_2026_09")
    store = await open_store(engine, clock, at(2026, 11, 15))
    before = await engine.table_names()
    assert not await user_of(store, name)
    assert await engine.table_names() == before


async def test_a_missing_table_is_looked_for_once_a_minute(clock: ManualClock) -> None:
    engine = MemoryEngine(clock)
    store = await open_store(engine, clock, at(2026, 11, 15))
    engine.lists = 0
    for _ in range(3):
        assert await store.table("message_2026_12") is None
    assert engine.lists == 1
    clock.advance(ABSENT_FOR)
    await make(engine, "message_2026_12")
    assert await store.table("message_2026_12") is not None
    assert engine.lists == 2


async def test_concurrent_searches_for_tables_share_one_listing(clock: ManualClock) -> None:
    engine = MemoryEngine(clock)
    store = await open_store(engine, clock, at(2026, 11, 15))
    engine.lists = 0
    names = [f"message_2026_{month:02}" for month in range(1, 9)] * 20
    assert await asyncio.gather(*map(store.table, names)) == [None] * len(names)
    assert engine.lists == 1


async def test_the_cache_of_absent_tables_is_bounded(clock: ManualClock) -> None:
    engine = MemoryEngine(clock)
    store = await open_store(engine, clock, at(2026, 11, 15))
    for number in range(2 * MAX_ABSENT):
        await store.table(f"message_{3000 + number // 12}_{number % 12 + 1:02}")
    assert len(store._absent) <= MAX_ABSENT
    engine.lists = 0
    await store.table("message_3000_01")
    assert engine.lists == 1, "the first name is cached beyond the limit"
    await store.table("message_3000_01")
    assert engine.lists == 1


async def test_a_failed_listing_is_no_proof_of_absence(clock: ManualClock) -> None:
    engine = MemoryEngine(clock)
    store = await open_store(engine, clock, at(2026, 11, 15))
    await make(engine, "message_2026_12")
    engine.fail("table_names", Throttled("full"))
    with pytest.raises(Throttled):
        await store.table("message_2026_12")
    assert await store.table("message_2026_12") is not None


async def test_a_dropped_table_is_unknown_with_its_users(
    engine: Engine, clock: ManualClock
) -> None:
    store = await open_store(engine, clock, at(2026, 11, 15))
    assert await user_of(store, "message_2026_10")
    await engine.drop_table("message_2026_10")
    assert await store.is_gone("message_2026_10")
    assert known(store) == ["message_2026_11"]
    assert not await user_of(store, "message_2026_10")


async def test_the_current_table_is_created_again_when_it_was_dropped(
    engine: Engine, clock: ManualClock
) -> None:
    store = await open_store(engine, clock, at(2026, 11, 15))
    await engine.drop_table("message_2026_11")
    assert await store.is_gone("message_2026_11")
    await store.current.add_channel(UAID, CHANNEL)
    assert await store.current.channels(UAID) == {CHANNEL}


async def test_a_dropped_table_does_not_keep_a_user_from_being_dropped(
    engine: Engine, clock: ManualClock
) -> None:
    store = await open_store(engine, clock, at(2026, 11, 15))
    assert await user_of(store, "message_2026_10")
    record = await record_of(store)
    await engine.drop_table("message_2026_10")
    await store.drop_user(record)
    assert await store.users.get(UAID) is None
