"""Moving a user from the table of one month to that of another, over every engine."""

from datetime import UTC, datetime

import pytest

from autopush.store import PushStore, TablePlan, UserRecord
from autopush.store.messages import Messages, row_of
from autopush.store.rotation import (
    end_move,
    move_if_user_moved,
    move_late_messages,
    move_messages,
    move_user,
    table_of_bridged_user,
)
from autopush.store.tables import message_table, router_table
from keytables import Engine, Item, Param, Unavailable, Update
from support import engines
from support.clocks import ManualClock
from support.gated_engine import GatedEngine
from support.stored_messages import CHANNEL, OTHER, UAID, all_stored, message, record_of

NODE, OTHER_NODE = "http://one:8081", "http://two:8081"
OLD, NEW = "message_2026_10", "message_2026_11"
CONNECTED = 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 11, 15, tzinfo=UTC).timestamp())


engine = engines.engine_fixture(engines.NAMES)


@pytest.fixture
async def store(engine: Engine, clock: ManualClock) -> PushStore:
    return await PushStore.open(engine, TablePlan(rotating=True), key_hash="", clock=clock)


@pytest.fixture
async def old(store: PushStore) -> Messages:
    """The table of last month, with a user that has a channel there."""
    messages = await store.table(OLD)
    assert messages is not None
    await messages.add_channel(UAID, CHANNEL)
    await store.users.create(UAID, NODE, CONNECTED, OLD)
    return messages


async def move(store: PushStore, old: Messages, connected_at: int = CONNECTED) -> Messages | None:
    return await move_user(store, UAID, old, node_id=NODE, connected_at=connected_at)


async def items(engine: Engine, name: str) -> list[Item]:
    return (await (await engine.ensure_table(message_table(name))).scan()).items


# ── subscriptions and the record ────────────────────────────────────────────────────────────────


async def test_a_moved_user_has_its_channels_and_its_record_in_the_new_month(
    store: PushStore, old: Messages
) -> None:
    new = await move(store, old)
    assert new is store.current
    assert await store.current.channels(UAID) == {CHANNEL}
    moved = await record_of(store)
    assert (moved.current_month, moved.moved_from) == (NEW, OLD)
    assert (moved.node_id, moved.connected_at) == (NODE, CONNECTED)
    assert str(moved.last_connect).startswith("202611")


async def test_the_copied_row_says_by_which_connection_and_has_no_read_pointer(
    engine: Engine, store: PushStore, old: Messages
) -> None:
    table = await engine.ensure_table(message_table(OLD))
    pointer = Update(set={"current_timestamp": Param("time")})
    await table.update((UAID, " "), pointer, {"time": 5})
    await move(store, old)
    assert await items(engine, NEW) == [
        {"uaid": UAID, "chidmessageid": " ", "chids": frozenset({CHANNEL}), "copied_at": CONNECTED}
    ]


async def test_the_old_row_is_kept_for_readers_of_the_old_record(
    store: PushStore, old: Messages
) -> None:
    await move(store, old)
    assert await old.channels(UAID) == {CHANNEL}


async def test_without_channels_too_the_row_says_by_which_connection(
    engine: Engine, store: PushStore, old: Messages
) -> None:
    await old.remove_channel(UAID, CHANNEL)
    assert await move(store, old) is store.current
    row: Item = {"uaid": UAID, "chidmessageid": " ", "copied_at": CONNECTED}
    assert await items(engine, NEW) == [row]
    assert (await record_of(store)).current_month == NEW
    batch = await store.current.read(UAID, None)
    assert (batch.channels, batch.messages) == (frozenset(), [])


async def test_a_late_copy_does_not_overwrite_what_was_subscribed_since_a_move_without_any(
    store: PushStore, old: Messages
) -> None:
    late = await old.channels(UAID)  # read by a connection that then hangs
    await old.remove_channel(UAID, CHANNEL)
    assert await store.users.connect(await record_of(store), OTHER_NODE, CONNECTED + 1)
    assert await move_user(store, UAID, old, node_id=OTHER_NODE, connected_at=CONNECTED + 1)
    await store.current.add_channel(UAID, OTHER)
    assert not await store.current.copy_channels(UAID, late, CONNECTED)
    assert await store.current.channels(UAID) == {OTHER}


async def test_channels_copied_by_an_interrupted_attempt_are_replaced(
    store: PushStore, old: Messages
) -> None:
    await store.current.copy_channels(UAID, frozenset({OTHER}), CONNECTED - 1)
    await move(store, old)
    assert await store.current.channels(UAID) == {CHANNEL}


async def test_channels_removed_since_such_an_attempt_are_not_kept(
    store: PushStore, old: Messages
) -> None:
    await store.current.copy_channels(UAID, frozenset({CHANNEL}), CONNECTED)
    await old.remove_channel(UAID, CHANNEL)
    await move(store, old)
    assert await store.current.channels(UAID) == frozenset()


async def test_a_late_copy_does_not_overwrite_that_of_a_newer_connection(
    store: PushStore, old: Messages
) -> None:
    assert await store.users.connect(await record_of(store), OTHER_NODE, CONNECTED + 1)
    new = await move_user(store, UAID, old, node_id=OTHER_NODE, connected_at=CONNECTED + 1)
    assert new is not None
    await new.add_channel(UAID, OTHER)
    assert await move(store, old) is None
    assert await new.channels(UAID) == {CHANNEL, OTHER}


@pytest.mark.parametrize("channels", [{CHANNEL}, set()])
async def test_only_the_connection_on_record_moves_its_user(
    store: PushStore, old: Messages, channels: set[str]
) -> None:
    if not channels:
        await old.remove_channel(UAID, CHANNEL)
    assert await store.users.connect(await record_of(store), OTHER_NODE, CONNECTED + 1)
    assert await move(store, old) is None
    assert (await record_of(store)).current_month == OLD
    assert (await record_of(store)).moved_from is None


async def test_a_user_that_was_dropped_meanwhile_is_not_created_again(
    store: PushStore, old: Messages
) -> None:
    await store.users.drop(UAID)
    assert await move(store, old) is None
    assert await store.users.get(UAID) is None


# ── messages ────────────────────────────────────────────────────────────────────────────────────


async def test_messages_left_in_the_old_table_are_moved_unchanged(
    store: PushStore, old: Messages, clock: ManualClock
) -> None:
    left = [message(clock, number) for number in range(10, 35)]
    left.insert(0, message(clock, 1, topic="news"))
    for notification in left:
        await old.store(notification)
    await move_late_messages(UAID, old, store.current)
    assert await all_stored(store.current) == left
    assert await all_stored(old) == []


async def test_read_and_expired_messages_are_not_moved(
    engine: Engine, store: PushStore, old: Messages, clock: ManualClock
) -> None:
    read, expired, unread = message(clock, 1), message(clock, 3, ttl=5), message(clock, 4)
    topic = message(clock, 5, topic="news")
    for notification in (read, expired, unread, topic):
        await old.store(notification)
    table = await engine.ensure_table(message_table(OLD))
    pointer = Update(set={"current_timestamp": Param("time")})
    await table.update((UAID, " "), pointer, {"time": read.sort_time})
    clock.advance(10)
    await move_late_messages(UAID, old, store.current)
    assert [found.version for found in await all_stored(store.current)] == [
        "version-5",
        "version-4",
    ]


async def test_a_newer_message_of_a_topic_is_not_replaced_by_a_moved_one(
    store: PushStore, old: Messages, clock: ManualClock
) -> None:
    older = message(clock, 1, topic="news")
    await old.store(older)
    clock.advance(1)
    await store.current.store(message(clock, 2, topic="news"))
    await move_late_messages(UAID, old, store.current)
    assert [found.version for found in await all_stored(store.current)] == ["version-2"]
    assert await all_stored(old) == []


async def test_a_topic_message_replaced_in_the_old_table_is_not_moved(
    store: PushStore, old: Messages, clock: ManualClock
) -> None:
    first, second = message(clock, 1, topic="news"), message(clock, 2, topic="news")
    await old.store(first)
    await old.store(second)
    await move_messages(UAID, [row_of(first)], old, store.current)
    assert await all_stored(store.current) == []
    assert await all_stored(old) == [second]


@pytest.mark.parametrize("failing", range(3))
async def test_a_message_that_could_not_be_moved_is_still_in_one_of_the_tables(
    engine: Engine, clock: ManualClock, failing: int
) -> None:
    gate = GatedEngine(engine)
    store = await PushStore.open(gate, TablePlan(rotating=True), key_hash="", clock=clock)
    old = await store.table(OLD)
    assert old is not None
    notification = message(clock, 1)
    await old.store(notification)

    async def broken() -> None:
        raise Unavailable("gone")

    gate.at(failing, broken)
    with pytest.raises(Unavailable):
        await move_messages(UAID, [row_of(notification)], old, store.current)
    assert notification in await all_stored(old) + await all_stored(store.current)
    await move_messages(UAID, [row_of(notification)], old, store.current)
    assert (await all_stored(old), await all_stored(store.current)) == ([], [notification])


async def test_a_dropped_old_table_has_no_messages_to_move(
    engine: Engine, store: PushStore, old: Messages
) -> None:
    await engine.drop_table(OLD)
    await move_late_messages(UAID, old, store.current)
    assert await all_stored(store.current) == []


# ── the last check ───────────────────────────────────────────────────────────────────────────────


async def test_the_next_connection_reads_the_old_table_a_last_time_and_ends_the_move(
    store: PushStore, old: Messages, clock: ManualClock
) -> None:
    await move(store, old)
    late = message(clock, 1)
    await old.store(late)
    replaced = await store.users.connect(await record_of(store), OTHER_NODE, CONNECTED + 1)
    assert replaced is not None
    await end_move(store, replaced, OTHER_NODE, CONNECTED + 1)
    assert await all_stored(store.current) == [late]
    assert (await record_of(store)).moved_from is None


async def test_a_connection_that_was_replaced_does_not_end_the_move(
    store: PushStore, old: Messages
) -> None:
    await move(store, old)
    replaced = await record_of(store)
    await store.users.connect(replaced, OTHER_NODE, CONNECTED + 1)
    await end_move(store, replaced, NODE, CONNECTED)
    assert (await record_of(store)).moved_from == OLD


async def test_a_move_from_a_dropped_table_ends_too(
    engine: Engine, store: PushStore, old: Messages
) -> None:
    await move(store, old)
    await engine.drop_table(OLD)
    await end_move(store, await record_of(store), NODE, CONNECTED)
    assert (await record_of(store)).moved_from is None


async def test_without_a_move_no_call_is_made(
    engine: Engine, clock: ManualClock, old: Messages
) -> None:
    gate = GatedEngine(engine)
    store = await PushStore.open(gate, TablePlan(rotating=True), key_hash="", clock=clock)
    known = await record_of(store)
    gate.start_counting()
    await end_move(store, known, NODE, CONNECTED)
    assert gate.calls == []


# ── who stored a message ────────────────────────────────────────────────────────────────────


async def test_a_message_stored_for_a_user_that_was_moved_meanwhile_is_moved_too(
    store: PushStore, old: Messages, clock: ManualClock
) -> None:
    late = message(clock, 1)
    await move(store, old)
    await old.store(late)
    await move_if_user_moved(store, await record_of(store), [row_of(late)], old)
    assert (await all_stored(old), await all_stored(store.current)) == ([], [late])


async def test_a_message_of_a_user_that_was_not_moved_is_not_moved(
    store: PushStore, old: Messages, clock: ManualClock
) -> None:
    late = message(clock, 1)
    await old.store(late)
    await move_if_user_moved(store, await record_of(store), [row_of(late)], old)
    assert (await all_stored(old), await all_stored(store.current)) == ([late], [])


async def test_a_message_is_moved_to_a_table_that_is_not_known_yet(
    engine: Engine, store: PushStore, old: Messages, clock: ManualClock
) -> None:
    late = message(clock, 1)
    await old.store(late)
    table = await engine.ensure_table(message_table("message_2026_12"))
    router = await engine.ensure_table(router_table("router"))
    month = Update(set={"current_month": Param("month")})
    await router.update((UAID,), month, {"month": "message_2026_12"})
    await move_if_user_moved(store, await record_of(store), [row_of(late)], old)
    assert [item["updateid"] for item in (await table.scan()).items] == [late.version]


async def test_only_a_table_older_than_another_is_superseded(
    store: PushStore, old: Messages
) -> None:
    assert store.is_superseded(old)
    assert not store.is_superseded(store.current)


async def test_messages_are_removed_from_whatever_table_has_them(
    engine: Engine, store: PushStore, old: Messages, clock: ManualClock
) -> None:
    first, second, third = (message(clock, number) for number in range(3))
    await old.store(first)
    await store.current.store(second)
    table = await engine.ensure_table(message_table("message_2026_12"))
    router = await engine.ensure_table(router_table("router"))
    month = Update(set={"current_month": Param("month")})
    await router.update((UAID,), month, {"month": "message_2026_12"})
    other = await PushStore.open(engine, TablePlan(rotating=True), key_hash="", clock=clock)
    unknown_here = await other.table("message_2026_12")
    assert unknown_here is not None
    await unknown_here.store(third)
    for notification in (first, second, third):
        await store.remove(UAID, row_of(notification))
    assert (await all_stored(old), await all_stored(store.current), (await table.scan()).items) == (
        [],
        [],
        [],
    )


async def test_a_dropped_table_does_not_keep_a_message_from_being_removed(
    engine: Engine, store: PushStore, old: Messages, clock: ManualClock
) -> None:
    notification = message(clock, 1)
    await store.current.store(notification)
    await engine.drop_table(OLD)
    await store.remove(UAID, row_of(notification))
    assert await all_stored(store.current) == []


# ── users that never connect ────────────────────────────────────────────────────────────────────

BRIDGED = "fedcba9876543210fedcba9876543210"


async def bridged_user(store: PushStore, *channels: str, table: str = OLD) -> UserRecord:
    await store.users.register(BRIDGED, "fcm", {"token": "t"}, table)
    messages = await store.table(table)
    if messages is not None:
        for channel in channels:
            await messages.add_channel(BRIDGED, channel)
    return await record_of(store, BRIDGED)


async def test_a_bridged_user_gets_the_current_table_with_its_subscriptions(
    store: PushStore,
) -> None:
    before = await bridged_user(store, CHANNEL, OTHER)
    messages = await table_of_bridged_user(store, before)
    assert messages is store.current
    assert await messages.channels(BRIDGED) == {CHANNEL, OTHER}
    after = await record_of(store, BRIDGED)
    assert after.current_month == NEW
    assert (after.router_data, after.connected_at) == (before.router_data, before.connected_at)


async def test_moving_a_bridged_user_again_keeps_what_was_added_meanwhile(store: PushStore) -> None:
    before = await bridged_user(store, CHANNEL)
    messages = await table_of_bridged_user(store, before)
    assert messages is not None
    await messages.add_channel(BRIDGED, OTHER)
    for _ in range(2):  # with the record as it was read before the move
        assert await table_of_bridged_user(store, before) is messages
    assert await messages.channels(BRIDGED) == {CHANNEL, OTHER}


async def test_a_bridged_user_of_the_current_table_stays_there_without_a_write(
    store: PushStore,
) -> None:
    record = await bridged_user(store, CHANNEL, table=NEW)
    assert await table_of_bridged_user(store, record) is store.current
    assert await store.users.get(BRIDGED) == record


@pytest.mark.parametrize("table", ["message_2025_01", "nonsense", ""])
async def test_a_bridged_user_without_a_table_starts_with_no_subscriptions(
    store: PushStore, table: str
) -> None:
    record = await bridged_user(store, table=table)
    messages = await table_of_bridged_user(store, record)
    assert messages is store.current
    assert await messages.channels(BRIDGED) == frozenset()


async def test_a_bridged_user_that_was_deleted_meanwhile_is_not_written_again(
    store: PushStore,
) -> None:
    record = await bridged_user(store, CHANNEL)
    await store.users.drop(BRIDGED)
    assert await table_of_bridged_user(store, record) is None
    assert await store.users.get(BRIDGED) is None
