"""What is found out about one user, and that finding it out changes nothing."""

import pytest

from autopush.store import PushStore, TablePlan, inspection
from autopush.store.inspection import UserInspection, count_messages, inspect_user
from autopush.store.tables import message_table, router_table, storage_table, uaid_hasher
from autopush.webpush.identifiers import CHANNELS_ROW
from autopush.webpush.notification import VersionUpdate
from keytables import Engine, Item, TableNotFound
from support.clocks import ManualClock
from support.stored_messages import CHANNEL, OTHER, UAID, message

PLAN = TablePlan()


async def inspected(
    engine: Engine, clock: ManualClock, plan: TablePlan = PLAN, key_hash: str = ""
) -> UserInspection:
    found = await inspect_user(engine, plan, UAID, CHANNEL, key_hash=key_hash, now=clock())
    assert found is not None
    return found


async def put_record(engine: Engine, **attributes: str | int) -> Item:
    row: Item = {"uaid": UAID, "router_type": "webpush", "connected_at": 1, **attributes}
    await (await engine.ensure_table(router_table(PLAN.router))).put(row)
    return row


async def test_record_channels_and_messages_are_found(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    await store.users.create(UAID, "http://node:1", 5, "message")
    await store.current.add_channels(UAID, frozenset((CHANNEL, OTHER)))
    begin = int(clock())
    for number in range(25):
        await store.current.store(message(clock, number, channel=OTHER if number else CHANNEL))
        clock.advance(1)
    found = await inspected(engine, clock)
    assert found.record == await store.users.get(UAID)
    assert found.row["node_id"] == "http://node:1"
    assert found.missing_table is None
    [table] = found.tables
    assert (table.name, table.channels) == ("message", frozenset((CHANNEL, OTHER)))
    pending = table.pending
    assert (pending.count, pending.of_channel, pending.size) == (25, 1, 25 * 4)
    assert (pending.oldest, pending.newest) == (begin, begin + 24)
    assert (pending.expired, pending.has_more) == (0, False)


async def test_messages_that_would_not_be_sent_are_not_pending(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    await store.users.create(UAID, "http://node:1", 5, "message")
    table = await engine.open_table(message_table("message"))
    read = message(clock, 1)
    await table.put(
        {
            "uaid": UAID,
            "chidmessageid": CHANNELS_ROW,
            "chids": frozenset((CHANNEL,)),
            "current_timestamp": read.sort_time or 0,
        }
    )
    unsubscribed = message(clock, 2, channel=OTHER)
    waiting = message(clock, 3)
    for stored in (read, unsubscribed, waiting):
        await store.current.store(stored)
    # An expired message that the store has not swept.
    row: Item = {"uaid": UAID, "chidmessageid": f"02:9{waiting.sort_time}:{CHANNEL}"}
    row |= {"ttl": 1, "timestamp": int(clock()) - 1, "updateid": "old"}
    await table.put(row)
    [found] = (await inspected(engine, clock)).tables
    assert (found.pending.count, found.pending.expired) == (1, 1)


async def test_of_very_many_messages_only_the_first_are_counted(
    engine: Engine, store: PushStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "MAX_COUNTED", 20)
    await store.users.create(UAID, "http://node:1", 5, "message")
    await store.current.add_channel(UAID, CHANNEL)
    for number in range(45):
        await store.current.store(message(clock, number))
    [found] = (await inspected(engine, clock)).tables
    assert found.pending.has_more
    assert 20 <= found.pending.count < 45


async def test_the_table_that_a_user_is_moved_from_is_read_too(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    await put_record(engine, current_month="message", moved_from="message_2027_01")
    for name in ("message", "message_2027_01"):
        table = await engine.ensure_table(message_table(name))
        await table.put(
            {"uaid": UAID, "chidmessageid": CHANNELS_ROW, "chids": frozenset((CHANNEL,))}
        )
    found = await inspected(engine, clock)
    assert [table.name for table in found.tables] == ["message", "message_2027_01"]


@pytest.mark.parametrize(
    ("attributes", "missing"),
    [
        ({"current_month": "message_2026_02"}, "message_2026_02"),
        ({"current_month": "other"}, "other"),
        ({}, ""),
    ],
)
async def test_a_table_that_is_gone_is_named(
    engine: Engine, store: PushStore, clock: ManualClock, attributes: dict[str, str], missing: str
) -> None:
    await put_record(engine, **attributes)
    found = await inspected(engine, clock)
    assert (found.tables, found.missing_table) == ((), missing)


async def test_a_table_of_a_month_that_is_read_no_more_counts_as_gone(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    plan = TablePlan(rotating=True)
    names = [f"message_2026_{month:02}" for month in (8, 10, 11, 12)] + ["message_2027_01"]
    for name in names:
        await engine.ensure_table(message_table(name))
    await put_record(engine, current_month=names[0])
    assert (await inspected(engine, clock, plan)).missing_table == names[0]
    await put_record(engine, current_month=names[2])
    assert (await inspected(engine, clock, plan)).missing_table is None


async def test_the_versions_of_a_simplepush_user_are_counted(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    await put_record(engine, router_type="simplepush")
    for channel, number in ((CHANNEL, 7), (OTHER, 8)):
        await store.versions.store(VersionUpdate.of(UAID, channel, number))
    [table] = (await inspected(engine, clock)).tables
    assert (table.name, table.channels) == ("storage", None)
    assert (table.pending.count, table.pending.of_channel) == (2, 1)
    assert (table.pending.oldest, table.pending.newest) == (None, None)


async def test_under_a_key_hash_the_user_is_found_by_its_uaid(
    engine: Engine, clock: ManualClock
) -> None:
    store = await PushStore.open(engine, PLAN, key_hash="secret", clock=clock)
    await store.users.create(UAID, "http://node:1", 5, "message")
    await store.current.add_channel(UAID, CHANNEL)
    found = await inspected(engine, clock, key_hash="secret")
    assert found.row["uaid"] == uaid_hasher("secret")(UAID)
    assert found.tables[0].channels == frozenset((CHANNEL,))


async def test_an_incomplete_record_is_found_and_stays(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    table = await engine.open_table(router_table("router"))
    await table.put({"uaid": UAID, "last_connect": 5})
    found = await inspected(engine, clock)
    assert (found.record, found.row) == (None, {"uaid": UAID, "last_connect": 5})
    assert await table.get((UAID,)) == found.row


async def test_no_table_is_created(engine: Engine, clock: ManualClock) -> None:
    with pytest.raises(TableNotFound):
        await inspect_user(engine, PLAN, UAID, CHANNEL, key_hash="", now=clock())
    await put_record(engine, current_month="message")
    assert (await inspected(engine, clock)).missing_table == "message"
    await put_record(engine, router_type="simplepush")
    assert (await inspected(engine, clock)).missing_table == storage_table("storage").name
    assert await engine.table_names() == ["router"]


@pytest.mark.parametrize("sampled", [150, 5000])
async def test_messages_of_all_users_are_counted_or_estimated(
    engine: Engine, store: PushStore, clock: ManualClock, sampled: int
) -> None:
    """UAIDs are spread evenly here, so the estimate is close."""
    begin = int(clock())
    for number in range(200):
        uaid = f"{number * 2**32 // 200:08x}" + "0" * 24
        await store.current.add_channels(uaid, frozenset((CHANNEL,)))
        await store.current.store(message(clock, number % 7, uaid=uaid))
    found = await count_messages(engine, PLAN, clock(), sampled)
    assert found.is_estimate is (sampled < 400)
    assert abs(found.count - 200) <= (20 if found.is_estimate else 0)
    assert found.oldest == begin
    clock.advance(3600)
    assert (await count_messages(engine, PLAN, clock())).count == 0
