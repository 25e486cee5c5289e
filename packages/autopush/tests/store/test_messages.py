"""Stored messages: order, replacement, deletion, expiry, the read pointer."""

import asyncio

import pytest

from autopush.store import PushStore, TablePlan
from autopush.store.messages import PAGE, row_of
from autopush.store.tables import message_table
from autopush.telemetry.metric_table import MESSAGE_DELETED, MESSAGE_RETRIEVED, MESSAGE_STORED
from keytables import Engine, StorageFull
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine
from support.recorded import new_metrics, recorded
from support.stored_messages import CHANNEL, UAID, all_stored, message, record_of


async def versions(store: PushStore) -> list[str]:
    return [found.version for found in await all_stored(store.current)]


async def test_topics_are_read_first_then_the_rest_by_storing_time(
    store: PushStore, clock: ManualClock
) -> None:
    for number in (3, 1, 2):
        await store.current.store(message(clock, number))
    await store.current.store(message(clock, 9, topic="news"))
    assert await versions(store) == ["version-9", "version-1", "version-2", "version-3"]


async def test_a_page_is_bounded_and_names_the_last_sort_key(
    store: PushStore, clock: ManualClock
) -> None:
    for number in range(100, 100 + 2 * PAGE + 3):
        await store.current.store(message(clock, number))
    batch = await store.current.read(UAID, None)
    assert len(batch.messages) == PAGE + 1
    assert batch.last == batch.messages[-1].row.sort_key
    assert len(await versions(store)) == 2 * PAGE + 3


async def test_without_a_channels_row_no_topic_message_is_skipped(
    store: PushStore, clock: ManualClock
) -> None:
    await store.current.store(message(clock, 1, topic="news"))
    batch = await store.current.read(UAID, None)
    assert batch.channels == frozenset()
    assert len(batch.messages) == 1


async def test_a_late_ack_does_not_delete_the_message_that_replaced_the_acked_one(
    store: PushStore, clock: ManualClock
) -> None:
    first, second = message(clock, 1, topic="news"), message(clock, 2, topic="news")
    await store.current.store(first)
    await store.current.store(second)
    assert not await store.current.delete(UAID, row_of(first))
    assert await versions(store) == ["version-2"]
    assert await store.current.delete(UAID, row_of(second))
    assert await versions(store) == []


@pytest.mark.parametrize("count", [1, 2, 30])
async def test_acked_messages_of_every_kind_are_deleted_together(
    store: PushStore, clock: ManualClock, count: int
) -> None:
    acked = [message(clock, number) for number in range(count)]
    acked.append(message(clock, 99, topic="news"))
    kept = message(clock, 100 + count)
    for notification in (*acked, kept):
        await store.current.store(notification)
    await store.current.delete_all(UAID, [row_of(notification) for notification in acked])
    assert await versions(store) == [kept.version]


@pytest.mark.parametrize("topic", [None, "news"])
@pytest.mark.parametrize("count", [1, 2])
async def test_a_read_submitted_after_a_delete_does_not_see_its_messages(
    store: PushStore, clock: ManualClock, topic: str | None, count: int
) -> None:
    acked = [message(clock, number, topic=topic and f"{topic}{number}") for number in range(count)]
    for notification in acked:
        await store.current.store(notification)
    forgotten = store.current.delete_all(UAID, [row_of(notification) for notification in acked])
    assert await versions(store) == []
    await forgotten


async def test_legacy_rows_are_read_with_the_id_in_their_key(
    engine: Engine, store: PushStore, clock: ManualClock
) -> None:
    table = await engine.ensure_table(message_table("message"))
    await table.put(
        {
            "uaid": UAID,
            "chidmessageid": f"{CHANNEL}:legacy-id",
            "ttl": 60,
            "timestamp": int(clock()),
            "updateid": "another",
        }
    )
    batch = await store.current.read(UAID, None)
    (stored,) = batch.messages
    assert stored.notification.version == "legacy-id"
    assert await store.current.delete(UAID, stored.row)
    assert await versions(store) == []


@pytest.mark.parametrize("key", ["nonsense", "02:x:y", "01:short", f"02:12:{CHANNEL[:-1]}"])
async def test_a_row_that_cannot_be_read_hides_no_other(
    engine: Engine, store: PushStore, clock: ManualClock, key: str
) -> None:
    table = await engine.ensure_table(message_table("message"))
    await table.put({"uaid": UAID, "chidmessageid": key, "updateid": "x"})
    await store.current.store(message(clock, 1))
    assert await versions(store) == ["version-1"]


# ── the read pointer ────────────────────────────────────────────────────────────────────────────


async def test_a_read_pointer_of_the_predecessor_is_found(engine: Engine, store: PushStore) -> None:
    table = await engine.ensure_table(message_table("message"))
    await table.put(
        {"uaid": UAID, "chidmessageid": " ", "current_timestamp": 77, "chids": frozenset({CHANNEL})}
    )
    batch = await store.current.read(UAID, None)
    assert (batch.read_to, batch.channels) == (77, frozenset({CHANNEL}))


# ── saving what was sent and not acked ──────────────────────────────────────────────────────────


async def test_a_saved_topic_message_does_not_replace_a_newer_one(
    store: PushStore, clock: ManualClock
) -> None:
    older = message(clock, 1, topic="news")
    clock.advance(1)
    await store.current.store(message(clock, 2, topic="news"))
    await store.current.save(older)
    assert await versions(store) == ["version-2"]


async def test_a_topic_message_acked_while_it_is_put_does_not_replace_a_newer_one(
    store: PushStore, clock: ManualClock
) -> None:
    """Another node has stored the newer one a moment before."""
    older, newer = (message(clock, number, topic="news") for number in (1, 2))
    older.topic_order, newer.topic_order = (int(clock() * 1e6) + number for number in (1, 2))
    await store.current.store(newer)
    put = asyncio.ensure_future(store.current.store(older))
    await store.current.delete_all(UAID, [row_of(older)])
    await put
    assert await versions(store) == [newer.version]


async def test_a_saved_topic_message_replaces_an_older_one(
    store: PushStore, clock: ManualClock
) -> None:
    await store.current.store(message(clock, 1, topic="news"))
    clock.advance(1)
    await store.current.save(message(clock, 2, topic="news"))
    assert await versions(store) == ["version-2"]


async def test_a_saved_message_without_topic_keeps_its_place(
    store: PushStore, clock: ManualClock
) -> None:
    early = message(clock, 1)
    await store.current.store(message(clock, 2))
    await store.current.save(early)
    assert await versions(store) == ["version-1", "version-2"]


async def test_a_message_is_found_until_it_is_deleted_or_replaced(
    store: PushStore, clock: ManualClock
) -> None:
    first, second = message(clock, 1, topic="news"), message(clock, 2, topic="news")
    await store.current.store(first)
    assert await store.current.find(UAID, row_of(first)) == first
    await store.current.store(second)
    assert await store.current.find(UAID, row_of(first)) is None
    await store.current.delete(UAID, row_of(second))
    assert await store.current.find(UAID, row_of(second)) is None


# ── channels ────────────────────────────────────────────────────────────────────────────────────


async def test_removing_a_channel_says_whether_it_was_there(store: PushStore) -> None:
    await store.current.add_channel(UAID, CHANNEL)
    assert await store.current.remove_channel(UAID, CHANNEL)
    assert not await store.current.remove_channel(UAID, CHANNEL)
    assert await store.current.channels(UAID) == frozenset()


async def test_a_dropped_user_has_neither_record_nor_channels(store: PushStore) -> None:
    await store.users.create(UAID, "http://node", 1, "message")
    await store.current.add_channel(UAID, CHANNEL)
    record = await record_of(store)
    await store.drop_user(record)
    assert await store.users.get(UAID) is None
    assert await store.current.channels(UAID) == frozenset()


# ── what is recorded ────────────────────────────────────────────────────────────────────────────


async def test_messages_stored_read_and_deleted_are_counted_topics_apart(
    engine: Engine, clock: ManualClock
) -> None:
    metrics = new_metrics()
    store = await PushStore.open(engine, TablePlan(), key_hash="", clock=clock, metrics=metrics)
    plain = [message(clock, number) for number in range(3)]
    topic, unacked = message(clock, 4, topic="news"), message(clock, 5, topic="sport")
    for each in (*plain, topic):
        await store.current.store(each)
    await store.current.save(unacked)
    await store.current.save(unacked)  # not older than what is stored: not written
    await store.current.read(UAID, None)
    await store.current.delete(UAID, row_of(message(clock, 6, topic="news")))  # replaced meanwhile
    await store.current.delete(UAID, row_of(topic))
    await store.current.delete_all(UAID, [row_of(plain[0])])
    await store.current.delete_all(UAID, [row_of(plain[1]), row_of(unacked)])
    counted = {
        (metric.name, series.get("topic")): recorded(metrics, metric, **series)
        for metric in (MESSAGE_STORED, MESSAGE_RETRIEVED, MESSAGE_DELETED)
        for series in metric.series()
    }
    assert counted == {
        ("notification.message.stored", "true"): 2,
        ("notification.message.stored", "false"): 3,
        ("notification.message.retrieved", "true"): 2,
        ("notification.message.retrieved", "false"): 3,
        ("notification.message.deleted", None): 4,
    }


# ── a disk that is nearly full ──────────────────────────────────────────────────────────────────


async def test_a_nearly_full_disk_takes_no_new_message_and_everything_else(
    clock: ManualClock,
) -> None:
    engine = MemoryEngine(clock)
    metrics = new_metrics()
    store = await PushStore.open(engine, TablePlan(), key_hash="", clock=clock, metrics=metrics)
    acked = message(clock, 1)
    await store.current.store(acked)
    engine.nearly_full = True
    for refused in (message(clock, 2), message(clock, 3, topic="t")):
        with pytest.raises(StorageFull):
            await store.current.store(refused)
    assert (await versions(store), recorded(metrics, MESSAGE_STORED)) == (["version-1"], 1)
    saved = [message(clock, 4), message(clock, 5, topic="t")]
    for unacked in saved:
        await store.current.save(unacked)
    await store.current.delete_all(UAID, [row_of(acked)])
    await store.current.add_channel(UAID, CHANNEL)
    await store.users.create(UAID, "http://one:8081", 5, "message")
    await store.probe()
    assert await versions(store) == ["version-5", "version-4"]
    engine.nearly_full = False
    await store.current.store(message(clock, 6))
    assert "version-6" in await versions(store)
