"""What a message is stored with comes back with it, on every engine: topic, TTL and urgency.

A store of another service once lost the topic and the TTL of its messages on one of its databases:
nothing was replaced, and everything expired late.
"""

import itertools
from collections.abc import Sequence

import pytest
from msgspec import structs

from autopush.store import PushStore, TablePlan
from autopush.store.messages import PAGE
from autopush.store.rotation import move_late_messages, move_user
from autopush.store.tables import Month, message_table
from autopush.webpush.notification import Notification
from autopush.webpush.stored import StoredPage
from autopush.webpush.urgency import LEVELS
from keytables import Engine
from support import engines
from support.clocks import ManualClock
from support.stored_messages import CHANNEL, OTHER, UAID, message, record_of

NODE = "http://one:8081/i/first"

engine = engines.engine_fixture(engines.EVERY)


@pytest.fixture
async def subscriber(store: PushStore) -> str:
    await store.users.create(UAID, NODE, 5, store.current.name)
    await store.current.add_channel(UAID, CHANNEL)
    return UAID


def messages(page: StoredPage) -> Sequence[Notification]:
    return [stored.notification for stored in page.messages]


@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_message_comes_back_with_topic_ttl_and_urgency(
    store: PushStore, clock: ManualClock, topic: str | None
) -> None:
    sent: list[Notification] = []
    for urgency, write in itertools.product(LEVELS, (store.current.store, store.current.save)):
        at = len(sent)
        own = topic and f"{topic}-{at}"
        sent.append(message(clock, at, topic=own, ttl=77 + at, urgency=urgency))
        await write(sent[-1])
    assert messages(await store.current.read(UAID, None)) == sent


async def test_a_message_replaces_topic_ttl_and_urgency_of_the_one_before(
    store: PushStore, clock: ManualClock
) -> None:
    await store.current.store(message(clock, 1, topic="news", ttl=1000, urgency="high"))
    await store.current.store(message(clock, 2, topic="other", ttl=1000))
    await store.current.store(message(clock, 3, topic="news", ttl=1000, channel=OTHER))
    clock.advance(2)
    newer = message(clock, 4, topic="news", ttl=10, urgency="low")
    await store.current.store(newer)
    left = messages(await store.current.read(UAID, None))
    assert [each.version for each in left] == ["version-4", "version-2", "version-3"]
    assert left[0] == newer
    clock.advance(10)
    left = messages(await store.current.read(UAID, None))
    assert [each.version for each in left] == ["version-2", "version-3"]


@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_message_expires_at_the_end_of_its_ttl_and_not_before(
    store: PushStore, clock: ManualClock, topic: str | None
) -> None:
    await store.current.store(message(clock, 1, topic=topic, ttl=50))
    clock.advance(49)
    assert len(messages(await store.current.read(UAID, None))) == 1
    clock.advance(1)
    assert messages(await store.current.read(UAID, None)) == []


async def test_the_first_page_names_the_urgencies_there_may_be(
    store: PushStore, clock: ManualClock, subscriber: str
) -> None:
    for number in range(PAGE):
        await store.current.store(message(clock, number))
    assert (await store.current.read(subscriber, None)).urgencies == frozenset()
    for number, urgency in enumerate(["high", "low", "high"], start=PAGE):
        await store.current.store(message(clock, number, urgency=urgency))
    await store.current.save(message(clock, 50, urgency="very-low"))
    page = await store.current.read(subscriber, None)
    assert page.urgencies == {"high", "low", "very-low"}
    assert page.channels == frozenset({CHANNEL})
    assert (await store.current.read(subscriber, page.last)).urgencies == frozenset()


async def test_an_urgency_leaves_nothing_of_a_user_without_channels(
    store: PushStore, engine: Engine, clock: ManualClock
) -> None:
    await store.current.store(message(clock, 1, urgency="high"))
    table = await engine.open_table(message_table(store.current.name))
    assert [row["updateid"] for row in (await table.query(UAID)).items] == ["version-1"]


async def test_a_filter_is_recorded_by_the_connection_on_record_only(
    store: PushStore, subscriber: str
) -> None:
    users = store.users
    assert await users.set_min_urgency(subscriber, NODE, 5, "high")
    assert not await users.set_min_urgency(subscriber, NODE, 4, "low")
    record = await record_of(store, subscriber)
    assert record.min_urgency == "high"


async def test_a_filter_stays_at_a_hello_that_names_none(store: PushStore, subscriber: str) -> None:
    recorded = []
    for connected_at, wanted in enumerate([None, "high", None, "low", "very-low"], start=6):
        record = await record_of(store, subscriber)
        await store.users.connect(record, NODE, connected_at, min_urgency=wanted)
        now = await record_of(store, subscriber)
        recorded.append(now.min_urgency)
    assert recorded == ["very-low", "high", "high", "low", "very-low"]


async def test_a_new_user_is_recorded_with_its_filter(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 5, store.current.name, "normal")
    record = await record_of(store)
    assert record.min_urgency == "normal"


async def test_the_hash_of_a_secret_is_recorded_with_a_new_user_and_stays(store: PushStore) -> None:
    await store.users.create(UAID, NODE, 5, store.current.name, secret_hash="hash")
    for connected_at in (6, 7):
        record = await record_of(store)
        assert record.secret_hash == "hash"
        replaced = await store.users.connect(record, NODE, connected_at)
        assert replaced is not None
        assert replaced.secret_hash == "hash"


async def test_a_message_that_waits_moves_to_the_next_month_with_its_urgency(
    engine: Engine, clock: ManualClock
) -> None:
    plan = TablePlan(rotating=True)
    store = await PushStore.open(engine, plan, key_hash="", clock=clock)
    old = store.current
    await store.users.create(UAID, NODE, 5, old.name)
    await old.add_channel(UAID, CHANNEL)
    waiting = message(clock, 1, urgency="low", ttl=10_000_000)
    await old.store(waiting)
    while Month.at(clock()) == old.month:
        clock.advance(86_400)
    await store.rotate()
    new = await move_user(store, UAID, old, node_id=NODE, connected_at=5)
    assert new is not None
    await move_late_messages(UAID, old, new)
    page = await new.read(UAID, None)
    assert messages(page) == [waiting]
    assert page.urgencies == {"low"}


# ── router records that their node keeps true ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("connected_at", "is_confirmed"),
    [pytest.param(5, True, id="the-same"), (6, True), pytest.param(4, False, id="an-older-one")],
)
async def test_only_a_connection_that_is_not_older_is_confirmed(
    store: PushStore, subscriber: str, connected_at: int, is_confirmed: bool
) -> None:
    seen = await record_of(store)
    assert await store.users.note_unread(seen)
    assert await store.users.confirm(seen, NODE, connected_at) is is_confirmed
    after = await record_of(store)
    assert (after.connected_at, after.unread) == ((connected_at, 0) if is_confirmed else (5, 1))


async def test_the_record_of_a_dropped_user_is_neither_confirmed_nor_marked(
    store: PushStore, subscriber: str
) -> None:
    seen = await record_of(store)
    await store.users.drop(UAID)
    assert not await store.users.confirm(seen, NODE, 5)
    assert not await store.users.note_unread(seen)
    assert await store.users.get(UAID) is None


async def test_a_record_is_restored_as_it_was_unless_there_is_one(
    store: PushStore, subscriber: str
) -> None:
    await store.users.set_min_urgency(UAID, NODE, 5, "high")
    seen = await record_of(store)
    assert not await store.users.restore(seen)
    await store.users.drop(UAID)
    assert await store.users.restore(seen)
    restored = await record_of(store)
    assert structs.replace(restored, last_connect=seen.last_connect) == seen


async def test_records_are_read_together_and_unknown_users_left_out(
    store: PushStore, subscriber: str
) -> None:
    assert await store.users.get_all([UAID, UAID[::-1]]) == {UAID: await record_of(store)}
