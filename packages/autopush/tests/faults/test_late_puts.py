"""Puts that the database carries out long after they were given up: a topic keeps its newest
message, and what was acked does not come back.
"""

from collections.abc import Sequence

import pytest

from autopush.store import PushStore, TablePlan
from autopush.store.messages import Messages, row_of
from autopush.webpush.notification import Notification
from autopush.webpush.stored import Row
from keytables import Unavailable
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UAID
from support.fault_fixtures import OpenEngine
from support.fault_proxy import Fault, FaultProxy, always, script

SETTLE_TIME = 330


class Nodes:
    """Processes with a store each, on one database; each knows only of its own puts."""

    def __init__(self, proxy: FaultProxy, open_engine: OpenEngine, clock: ManualClock) -> None:
        self.proxy, self.clock = proxy, clock
        self._open_engine = open_engine
        self._number = 0

    async def add(self) -> Messages:
        engine = await self._open_engine()
        store = await PushStore.open(engine, TablePlan(), key_hash="", clock=self.clock)
        return store.current

    def message(self, topic: str | None = None) -> Notification:
        self._number += 1
        taken = int(self.clock() * 1_000_000) + self._number
        return Notification(
            uaid=UAID,
            channel_id=CHANNEL,
            version=f"version-{self._number}",
            ttl=3600,
            timestamp=int(self.clock()),
            topic=topic,
            sort_time=None if topic else taken,
            topic_order=taken if topic else 0,
            data="ZGF0YQ",
        )

    def first_put_is_late(self) -> None:
        self.proxy.plan = script(Fault.LATE, only="PutItem")

    async def give_up(self, messages: Messages, message: Notification) -> None:
        """Store a message; the put is given up."""
        self.proxy.plan = always(Fault.LATE, only="PutItem")
        with pytest.raises(Unavailable):
            await messages.store(message)
        self.proxy.plan = script()

    async def carry_out_late(self) -> None:
        assert self.proxy.late
        await self.proxy.carry_out_late()


async def stored(messages: Messages) -> list[str]:
    page = await messages.read(UAID, None)
    return [found.notification.version for found in page.messages]


async def read_and_ack(messages: Messages) -> Sequence[Row]:
    rows = [found.row for found in (await messages.read(UAID, None)).messages]
    await messages.delete_all(UAID, rows)
    assert await stored(messages) == []
    return rows


@pytest.fixture
def nodes(proxy: FaultProxy, open_engine: OpenEngine, clock: ManualClock) -> Nodes:
    return Nodes(proxy, open_engine, clock)


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seconds", [0, 5], ids=["in one second", "later"])
async def test_a_topic_keeps_its_newer_message(nodes: Nodes, seconds: int) -> None:
    one, two = await nodes.add(), await nodes.add()
    older = nodes.message("news")
    await nodes.give_up(one, older)
    nodes.clock.advance(seconds)
    newer = nodes.message("news")
    await two.store(newer)
    await nodes.carry_out_late()
    assert await stored(two) == [newer.version]


async def test_a_message_that_is_replaced_before_its_put_is_carried_out_counts_as_stored(
    nodes: Nodes,
) -> None:
    one, two = await nodes.add(), await nodes.add()
    older = nodes.message("news")
    nodes.clock.advance(2)
    newer = nodes.message("news")
    await two.store(newer)
    nodes.clock.advance(0.01)
    await one.store(older)
    assert await stored(one) == [newer.version]


async def test_of_two_messages_that_no_clock_tells_apart_the_later_put_stays(nodes: Nodes) -> None:
    one, two = await nodes.add(), await nodes.add()
    first, second = nodes.message("news"), nodes.message("news")
    await two.store(second)
    await one.store(first)
    assert await stored(one) == [first.version]


async def test_a_row_of_the_original_is_replaced(nodes: Nodes) -> None:
    one = await nodes.add()
    original, ours = nodes.message("news"), nodes.message("news")
    original.topic_order = 0
    await one.store(original)
    await one.store(ours)
    assert await stored(one) == [ours.version]
    original.topic_order = 0
    await one.store(original)
    assert await stored(one) == [original.version]


# ── acked messages ──────────────────────────────────────────────────────────────────────────────

TOPICS = pytest.mark.parametrize("topic", [None, "news"], ids=["plain", "topic"])


@TOPICS
async def test_a_late_put_of_another_node_does_not_bring_back_what_was_acked(
    nodes: Nodes, topic: str | None
) -> None:
    one, two = await nodes.add(), await nodes.add()
    nodes.first_put_is_late()
    await one.store(nodes.message(topic))
    await read_and_ack(two)
    await nodes.carry_out_late()
    assert await stored(two) == []


async def test_a_late_put_of_a_node_that_passed_the_message_on_does_not_either(
    nodes: Nodes,
) -> None:
    one, two = await nodes.add(), await nodes.add()
    message = nodes.message()
    nodes.first_put_is_late()
    await one.store(message)
    assert not await one.is_settled(message)
    two.note_unsettled(UAID, row_of(message))
    await two.delete_all(UAID, [row_of(message)])
    await nodes.carry_out_late()
    assert await stored(two) == []


@TOPICS
async def test_a_put_that_is_repeated_after_the_ack_counts_as_done(
    nodes: Nodes, topic: str | None
) -> None:
    one, two = await nodes.add(), await nodes.add()
    message = nodes.message(topic)
    nodes.proxy.plan = always(Fault.CLOSED, only="PutItem")
    with pytest.raises(Unavailable):
        await one.save(message)
    nodes.proxy.plan = script()
    await read_and_ack(two)
    await one.save(message)
    await one.store(message)
    assert await stored(two) == []


async def test_a_message_that_was_put_once_leaves_no_tombstone(nodes: Nodes) -> None:
    one, two = await nodes.add(), await nodes.add()
    acked_here, acked_late = nodes.message(), nodes.message()
    await one.store(acked_here)
    await one.delete_all(UAID, [row_of(acked_here)])
    await one.store(acked_late)
    nodes.clock.advance(SETTLE_TIME)
    nodes.proxy.reset_counts()
    await read_and_ack(two)
    assert nodes.proxy.operations["DeleteItem"] == 1
    assert nodes.proxy.operations["PutItem"] == nodes.proxy.operations["UpdateItem"] == 0


async def test_a_tombstone_expires(nodes: Nodes) -> None:
    one = await nodes.add()
    message = nodes.message()
    nodes.first_put_is_late()
    await one.store(message)
    await read_and_ack(one)
    nodes.clock.advance(SETTLE_TIME + 2)
    await one.store(message)
    assert await stored(one) == [message.version]
