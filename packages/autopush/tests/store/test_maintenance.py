"""Removing user agents: old ones by the index, named ones by their UAID."""

import asyncio

import pytest

from autopush.jobs import RateLimiter
from autopush.store import PushStore, TablePlan
from autopush.store.maintenance import (
    ORPHAN_MONTHS,
    RemovalStep,
    UserRemover,
    UserSummary,
    delete_uaids,
    drop_old_users,
    find_old_users,
    months_ago,
)
from autopush.store.messages import REMOVE_CHANNELS
from autopush.store.tables import Month, message_table, router_table, storage_table, uaid_hasher
from autopush.store.users import connect_keys, connect_keys_of_day
from autopush.webpush.identifiers import CHANNELS_ROW
from keytables import Engine, Item, Throttled
from support import engines
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine
from support.stored_messages import record_of

PLAN = TablePlan()
OCTOBER = Month(2026, 10)
JANUARY = 1_800_000_000.0
CHANNEL = "11111111-2222-3333-4444-555555555555"
"""The clock of these tests stands in January 2027."""


engine = engines.engine_fixture(engines.NAMES)


def uaid(number: int) -> str:
    return f"{number:032x}"


def limiter() -> RateLimiter:
    async def no_sleep(_: float) -> None: ...

    return RateLimiter(1e9, sleep=no_sleep)


async def add_user(
    engine: Engine,
    number: int,
    seen: int | None = 202610_13_0007,
    *,
    month: str | None = "message",
    key_hash: str = "",
    **more: str,
) -> None:
    key = uaid_hasher(key_hash)(uaid(number))
    router = await engine.ensure_table(router_table("router"))
    record: Item = {"uaid": key, "router_type": "webpush", "connected_at": 1, **more}
    if seen is not None:
        record["last_connect"] = seen
    if month is not None:
        record["current_month"] = month
        messages = await engine.ensure_table(message_table(month))
        await messages.put(
            {"uaid": key, "chidmessageid": CHANNELS_ROW, "chids": frozenset((CHANNEL,))}
        )
    await router.put(record)


async def users(engine: Engine) -> set[str]:
    table = await engine.ensure_table(router_table("router"))
    return {str(item["uaid"]) for item in (await table.scan()).items}


async def subscribed(engine: Engine, table: str = "message") -> set[str]:
    handle = await engine.ensure_table(message_table(table))
    return {str(item["uaid"]) for item in (await handle.scan()).items}


async def opened(engine: Engine, key_hash: str = "") -> UserRemover:
    removal = await UserRemover.open(engine, PLAN, key_hash=key_hash)
    assert removal is not None
    return removal


async def drop_october(
    engine: Engine, batch_size: int = 25, *, day: int | None = None
) -> list[RemovalStep]:
    steps = drop_old_users(
        await opened(engine),
        connect_keys(OCTOBER) if day is None else connect_keys_of_day(OCTOBER, day),
        now=JANUARY,
        limiter=limiter(),
        batch_size=batch_size,
    )
    return [batch async for batch in steps]


# ── which months ─────────────────────────────────────────────────────────────────────────────────


def test_months_ago_crosses_the_start_of_the_year(clock: ManualClock) -> None:
    assert months_ago(clock(), 2, 2) == [Month(2026, 11)]
    assert months_ago(clock(), 0, 3) == [
        Month(2027, 1),
        Month(2026, 12),
        Month(2026, 11),
        Month(2026, 10),
    ]


# ── old user agents ──────────────────────────────────────────────────────────────────────────────


async def test_users_last_connected_in_that_month_are_dropped_and_no_others(engine: Engine) -> None:
    seen = {
        1: 202610_00_0000,
        2: 202610_23_0010,
        3: 202610_13_0005,
        4: 202609_23_0010,
        5: 202611_00_0001,
        6: 202510_13_0005,
        7: None,
    }
    for number, key in seen.items():
        await add_user(engine, number, key)
    found = await find_old_users(await opened(engine), connect_keys(OCTOBER), limiter=limiter())
    assert found == {202610_00_0000: 1, 202610_13_0005: 1, 202610_23_0010: 1}
    assert await drop_october(engine) == [RemovalStep(3, 3)]
    assert await users(engine) == {uaid(number) for number in (4, 5, 6, 7)}
    assert await subscribed(engine) == await users(engine)


async def test_keys_that_name_the_day_are_found_too(engine: Engine) -> None:
    seen = (202610_31_00_0001, 202610_31_23_0010, 202610_30_23_0010, 202610_23_0010)
    for number, key in enumerate(seen):
        await add_user(engine, number, key)
    keys = connect_keys_of_day(OCTOBER, 31)
    found = await find_old_users(await opened(engine), keys, limiter=limiter())
    assert found == {seen[0]: 1, seen[1]: 1}
    assert await drop_october(engine, day=31) == [RemovalStep(2, 2)]
    assert await users(engine) == await subscribed(engine) == {uaid(2), uaid(3)}


def test_a_month_has_keys_of_its_own_days_only() -> None:
    assert not [*connect_keys_of_day(Month(2027, 2), 29)]
    assert len({*connect_keys_of_day(Month(2028, 2), 29)}) == 24 * 11


async def test_finding_old_users_writes_nothing(engine: Engine) -> None:
    await add_user(engine, 1)
    await find_old_users(await opened(engine), connect_keys(OCTOBER), limiter=limiter())
    assert await users(engine) == await subscribed(engine) == {uaid(1)}


async def test_batches_are_full_but_the_last(engine: Engine) -> None:
    for number in range(23):
        await add_user(engine, number, 202610_00_0000 + number % 5 + 10000 * (number % 7))
    steps = await drop_october(engine, batch_size=10)
    assert steps == [RemovalStep(10, 10), RemovalStep(10, 10), RemovalStep(3, 3)]
    assert await users(engine) == set()


async def test_more_than_a_page_of_one_key_is_followed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopush.store.maintenance.PAGE", 4)
    for number in range(11):
        await add_user(engine, number)
    assert await find_old_users(await opened(engine), connect_keys(OCTOBER), limiter=limiter()) == {
        202610_13_0007: 11
    }
    assert sum(batch.dropped for batch in await drop_october(engine, batch_size=3)) == 11


async def test_users_of_bridges_that_have_subscriptions_are_kept(engine: Engine) -> None:
    await add_user(engine, 1, router_type="fcm")
    await add_user(engine, 2, router_type="simplepush")
    assert await drop_october(engine) == [RemovalStep(2, 1)]
    assert await users(engine) == {uaid(1)}


def seen_in(ago: int, day: int | None = None) -> int:
    """A key of the month so many months before that of these tests."""
    [month] = months_ago(JANUARY, ago, ago)
    return next(connect_keys(month) if day is None else connect_keys_of_day(month, day))


@pytest.mark.parametrize(
    ("months", "subscriptions", "is_dropped"),
    [
        (ORPHAN_MONTHS, "no row", True),
        (ORPHAN_MONTHS, "an empty row", True),
        (ORPHAN_MONTHS, "no table", True),
        (12, "no row", True),
        (ORPHAN_MONTHS - 1, "no row", False),
        (ORPHAN_MONTHS, "one", False),
        (12, "one", False),
    ],
)
@pytest.mark.parametrize("day", [None, 28])
async def test_a_user_of_a_bridge_without_subscriptions_is_dropped_after_half_a_year(
    engine: Engine, months: int, subscriptions: str, is_dropped: bool, day: int | None
) -> None:
    key = seen_in(months, day)
    month = "message_2020_01" if subscriptions == "no table" else "message"
    await add_user(engine, 1, key, router_type="fcm", month=month)
    messages = await engine.ensure_table(message_table(month))
    row = (uaid(1), CHANNELS_ROW)
    match subscriptions:
        case "no row":
            await messages.delete(row)
        case "an empty row":
            await messages.update(row, REMOVE_CHANNELS, {"chids": frozenset((CHANNEL,))})
        case "no table":
            await engine.drop_table(month)
    steps = drop_old_users(await opened(engine), [key], now=JANUARY, limiter=limiter())
    assert [step async for step in steps] == [RemovalStep(1, int(is_dropped))]
    assert await users(engine) == (set() if is_dropped else {uaid(1)})


async def test_a_user_of_a_bridge_that_subscribes_meanwhile_is_kept(engine: Engine) -> None:
    clock = ManualClock(JANUARY)
    store = await PushStore.open(engine, PLAN, key_hash="", clock=clock)
    key = seen_in(ORPHAN_MONTHS)
    await add_user(engine, 1, key, router_type="fcm", month=None)
    removal = await opened(engine)
    record = await record_of(store, uaid(1))
    [found] = (await removal.router.query_index("AccessIndex", key)).items
    [stale] = await removal.find([uaid(1)])
    # It was read, then the device subscribes, and only then it is to be dropped.
    assert await store.users.refresh_registration(record)
    await removal._drop_old(stale, None)
    await removal.drop_unless_connected([found], JANUARY)
    assert await users(engine) == {uaid(1)}


async def test_a_user_of_a_bridge_that_was_dropped_meanwhile_cannot_subscribe(
    engine: Engine,
) -> None:
    store = await PushStore.open(engine, PLAN, key_hash="", clock=ManualClock(JANUARY))
    key = seen_in(ORPHAN_MONTHS)
    await add_user(engine, 1, key, router_type="fcm", month=None)
    record = await record_of(store, uaid(1))
    async for _ in drop_old_users(await opened(engine), [key], now=JANUARY, limiter=limiter()):
        pass
    assert not await store.users.refresh_registration(record)
    assert await users(engine) == set()


async def add_version(engine: Engine, number: int) -> None:
    versions = await engine.ensure_table(storage_table("storage"))
    await versions.put({"uaid": uaid(number), "chid": CHANNEL, "version": 12})


async def with_versions(engine: Engine) -> set[str]:
    versions = await engine.ensure_table(storage_table("storage"))
    return {str(row["uaid"]) for row in (await versions.scan()).items}


async def test_with_an_old_user_of_simplepush_its_versions_are_deleted(engine: Engine) -> None:
    for number in (1, 2):
        await add_version(engine, number)
    await add_user(engine, 1, month=None, router_type="simplepush")
    await add_user(engine, 2, 202701_13_0007, month=None, router_type="simplepush")
    assert await drop_october(engine) == [RemovalStep(1, 1)]
    assert await users(engine) == await with_versions(engine) == {uaid(2)}


async def test_a_removal_of_versions_that_was_interrupted_is_completed(engine: Engine) -> None:
    await add_version(engine, 1)
    await add_user(engine, 1, month=None, router_type="simplepush")
    router = await engine.ensure_table(router_table("router"))
    [record] = (await router.scan()).items
    await router.put({name: record[name] for name in record if name != "router_type"})  # marked
    assert await drop_october(engine) == [RemovalStep(1, 1)]
    assert await users(engine) == await with_versions(engine) == set()


async def test_with_a_named_user_of_simplepush_its_versions_are_deleted(engine: Engine) -> None:
    for number in (1, 2):
        await add_version(engine, number)
        await add_user(engine, number, month=None, router_type="simplepush")
    remover = await opened(engine)
    steps = [step async for step in delete_uaids(remover, [uaid(1)], limiter=limiter())]
    assert steps == [RemovalStep(1, 1)]
    assert await users(engine) == await with_versions(engine) == {uaid(2)}


async def test_a_user_of_a_dropped_table_is_dropped(engine: Engine) -> None:
    await add_user(engine, 1, month="message_2026_10")
    await engine.drop_table("message_2026_10")
    await add_user(engine, 2, month=None)
    assert await drop_october(engine) == [RemovalStep(2, 2)]
    assert await engine.table_names() == ["router"]


async def test_a_table_that_is_no_message_table_is_not_touched(engine: Engine) -> None:
    other = await engine.ensure_table(message_table("messages_2026_10"))
    await other.put({"uaid": uaid(1), "chidmessageid": CHANNELS_ROW})
    await add_user(engine, 1, month=None, current_month="messages_2026_10")
    await add_user(engine, 2, month=None, current_month="router")
    assert await drop_october(engine) == [RemovalStep(2, 2)]
    assert await subscribed(engine, "messages_2026_10") == {uaid(1)}


async def test_the_older_name_of_the_month_is_understood(engine: Engine) -> None:
    await add_user(engine, 1)
    router = await engine.ensure_table(router_table("router"))
    [record] = (await router.scan()).items
    record["curmonth"] = record.pop("current_month")
    await router.put(record)
    assert await drop_october(engine) == [RemovalStep(1, 1)]
    assert await subscribed(engine) == set()


# ── races and faults ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def stepped(clock: ManualClock) -> MemoryEngine:
    return MemoryEngine(clock)


@pytest.mark.parametrize("moment", ["batch_get router", "update router"])
async def test_a_user_that_connects_between_index_and_delete_is_kept_with_its_channels(
    stepped: MemoryEngine, clock: ManualClock, moment: str
) -> None:
    await add_user(stepped, 1)
    await add_user(stepped, 2)
    item = stepped.tables["router"].items[(uaid(1),)]
    stepped.before(moment, lambda: item.update(last_connect=202701_03_0003))
    assert await drop_october(stepped) == [RemovalStep(2, 1)]
    assert await users(stepped) == await subscribed(stepped) == {uaid(1)}
    store = await PushStore.open(stepped, PLAN, key_hash="", clock=clock)
    record = await record_of(store, uaid(1))
    assert record.current_month == "message"


async def test_a_marked_record_counts_as_absent_and_stays_until_all_of_its_user_is_removed(
    stepped: MemoryEngine, clock: ManualClock
) -> None:
    await add_user(stepped, 1, node_id="http://node:8081")
    stepped.fail("batch_write message", Stopped())
    with pytest.raises(Stopped):
        await drop_october(stepped)
    store = await PushStore.open(stepped, PLAN, key_hash="", clock=clock)
    assert await store.users.get(uaid(1)) is None
    assert await drop_october(stepped) == [RemovalStep(1, 1)]
    assert await users(stepped) == await subscribed(stepped) == set()


class Stopped(Exception):
    """The process is gone."""


@pytest.mark.parametrize("calls", range(1, 30))
async def test_a_run_interrupted_at_any_call_is_completed_by_the_next(
    stepped: MemoryEngine, calls: int
) -> None:
    for number in range(5):
        await add_user(stepped, number)
    await add_user(stepped, 9, 202701_01_0001)
    left = calls

    def count_down(what: str) -> None:
        nonlocal left
        is_counted = " " in what and not what.startswith("query_index")  # of a table
        if is_counted and (left := left - 1) < 0:
            raise Stopped

    stepped.on_call = count_down
    try:
        await drop_october(stepped, batch_size=2)
        done = True
    except Stopped:
        done = False
    stepped.on_call = None
    assert done is (calls >= 3 + 5 * 3)
    await drop_october(stepped)
    assert await users(stepped) == await subscribed(stepped) == {uaid(9)}


async def test_two_runs_at_once_do_no_harm(engine: Engine) -> None:
    for number in range(40):
        await add_user(engine, number)
    await add_user(engine, 99, 202701_01_0001)
    runs = await asyncio.gather(*(drop_october(engine, batch_size=7) for _ in range(2)))
    assert sum(batch.dropped for run in runs for batch in run) == 40
    assert await users(engine) == await subscribed(engine) == {uaid(99)}


@pytest.mark.parametrize(
    "moment", ["query_index router", "batch_get router", "update router", "delete router"]
)
async def test_a_throttled_call_is_retried_and_every_user_counts_once(
    stepped: MemoryEngine, moment: str
) -> None:
    for number in range(5):
        await add_user(stepped, number)
    stepped.fail(moment, *[Throttled("busy")] * 3)
    steps = await drop_october(stepped)
    assert stepped.errors[moment] == []
    assert sum(batch.dropped for batch in steps) == 5
    assert await users(stepped) == await subscribed(stepped) == set()


async def test_a_store_that_stays_throttled_ends_the_run(stepped: MemoryEngine) -> None:
    await add_user(stepped, 1)
    for call in ("query_index", "batch_get", "update", "delete"):
        stepped.fail(f"{call} router", *[Throttled("busy")] * 100)
    with pytest.raises(Throttled):
        await drop_october(stepped)


async def test_a_message_table_dropped_meanwhile_is_no_obstacle(engine: Engine) -> None:
    await add_user(engine, 1, month="message_2026_10")
    await add_user(engine, 2, month="message_2026_10")
    removal = await opened(engine)
    run = drop_old_users(
        removal, connect_keys(OCTOBER), now=JANUARY, limiter=limiter(), batch_size=1
    )
    await anext(run)
    await engine.drop_table("message_2026_10")
    assert [batch async for batch in run] == [RemovalStep(1, 1)]
    assert await users(engine) == set()


# ── named user agents ────────────────────────────────────────────────────────────────────────────


async def delete(engine: Engine, numbers: range, key_hash: str = "") -> UserRemover:
    removal = await opened(engine, key_hash)
    steps = delete_uaids(removal, map(uaid, numbers), limiter=limiter())
    assert sum([batch.checked async for batch in steps]) == len(numbers)
    return removal


async def test_named_user_agents_are_dropped_with_their_channels_whenever_they_connected(
    engine: Engine,
) -> None:
    for number in range(60):
        await add_user(engine, number, 202701_01_0001, month=f"message_2027_0{1 + number % 2}")
    removal = await delete(engine, range(10, 70))
    assert removal.dropped == 50
    assert await users(engine) == {uaid(number) for number in range(10)}
    left = await subscribed(engine, "message_2027_01") | await subscribed(engine, "message_2027_02")
    assert left == await users(engine)


async def test_under_a_key_hash_named_user_agents_are_found_by_their_hash(engine: Engine) -> None:
    await add_user(engine, 1, key_hash="secret")
    await add_user(engine, 2, key_hash="secret")
    assert (await delete(engine, range(1, 2), "secret")).dropped == 1
    assert await users(engine) == {uaid_hasher("secret")(uaid(2))}


@pytest.mark.parametrize("moment", ["batch_write message", "batch_write router"])
async def test_an_interrupted_deletion_is_completed_by_the_next_one(
    stepped: MemoryEngine, moment: str
) -> None:
    await add_user(stepped, 1)
    stepped.fail(moment, Stopped())
    with pytest.raises(Stopped):
        await delete(stepped, range(2))
    await delete(stepped, range(2))
    assert await users(stepped) == await subscribed(stepped) == set()


async def test_a_user_agent_is_described_without_its_secrets(engine: Engine) -> None:
    await add_user(engine, 1, node_id="http://node:8081")
    await add_user(engine, 2, None, month=None)
    removal = await opened(engine)
    assert await removal.describe(uaid(1)) == UserSummary("webpush", "message", 1, 202610_13_0007)
    assert await removal.describe(uaid(2)) == UserSummary("webpush", None, 0, None)
    assert await removal.describe(uaid(3)) is None


async def test_an_empty_store_is_reported_and_gets_no_table(engine: Engine) -> None:
    assert await UserRemover.open(engine, PLAN, key_hash="") is None
    assert await engine.table_names() == []
