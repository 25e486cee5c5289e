"""What was acked on a node a short time ago is known without asking the store."""

import asyncio

import pytest

from autopush.delivery.connected import ACKS_KEPT, AckedRows
from autopush.store.messages import row_of
from autopush.webpush.stored import Row
from support.clocks import ManualClock
from support.connection_harness import Harness

DAY = 86_400
TOPICS = pytest.mark.parametrize("topic", [None, "news"], ids=["plain", "topic"])
ONE, TWO, THREE = Row("02:1:c", None), Row("02:2:c", None), Row("02:3:c", None)


def test_a_row_is_undeleted_until_it_is_deleted_and_known_for_a_minute() -> None:
    clock = ManualClock(1000)
    rows = AckedRows(clock)
    rows.add("a", [ONE, TWO])
    rows.add("a", [THREE])
    assert rows.undeleted("a") == {ONE, TWO, THREE}
    rows.on_deleted("a", [ONE, TWO])
    assert (rows.undeleted("a"), rows.has_undeleted("a")) == (frozenset({THREE}), True)
    rows.on_deleted("a", [THREE])
    assert (rows.undeleted("a"), rows.has_undeleted("a")) == (frozenset(), False)
    assert rows.was_acked("a", ONE)
    assert not rows.was_acked("b", ONE)
    assert rows.knows_all_since(0)
    clock.advance(ACKS_KEPT)
    rows.add("b", [ONE])
    assert not rows.was_acked("a", ONE)
    assert not rows.knows_all_since(1000)
    assert rows.knows_all_since(1001)


def test_of_too_many_the_oldest_are_forgotten_and_that_is_known() -> None:
    clock = ManualClock(1000)
    rows = AckedRows(clock, max_kept=2)
    for row in (ONE, TWO, THREE):
        rows.add("a", [row])
        clock.advance(1)
    rows.on_deleted("a", [ONE, TWO, THREE])
    assert [rows.was_acked("a", row) for row in (ONE, TWO, THREE)] == [False, True, True]
    assert not rows.knows_all_since(1000)
    assert rows.knows_all_since(1000.5)


def test_what_may_recur_is_known_until_it_is_deleted() -> None:
    rows = AckedRows(ManualClock(1000))
    rows.add("a", [ONE], may_recur=True)
    assert rows.was_acked("a", ONE)
    rows.on_deleted("a", [ONE])
    assert not rows.was_acked("a", ONE)


def test_another_version_of_a_topic_is_another_row() -> None:
    rows = AckedRows(ManualClock(1000))
    rows.add("a", [Row("01:c:news", "first")])
    assert not rows.was_acked("a", Row("01:c:news", "second"))


async def test_a_message_handed_over_to_an_old_connection_is_not_looked_up(
    harness: Harness,
) -> None:
    agent = await harness.subscribed()
    await harness.pass_time(30)
    message = await harness.store_message(agent.uaid)
    harness.engine.calls.clear()
    assert await agent.connection.deliver_from_peer(message, row_of(message))
    assert agent.versions() == [message.version]
    assert harness.engine.calls == []


@pytest.mark.parametrize("pause", [0, 20, ACKS_KEPT + 20])
async def test_one_that_was_read_from_the_store_and_acked_meanwhile_is_not_sent_again(
    harness: Harness, pause: float
) -> None:
    agent = await harness.subscribed()
    await harness.pass_time(30)
    message, received = await harness.read_from_storage(agent)
    agent.ack(received)
    await harness.run_until_idle()
    await harness.pass_time(pause)
    _, other = await harness.read_from_storage(agent)
    agent.ack(other)
    await harness.run_until_idle()
    assert await agent.connection.deliver_from_peer(message, row_of(message))
    assert agent.versions() == []


@TOPICS
async def test_a_young_connection_and_a_topic_are_looked_up(
    harness: Harness, topic: str | None
) -> None:
    agent = await harness.subscribed()
    if topic:
        await harness.pass_time(30)
    message = await harness.store_message(agent.uaid, topic=topic)
    await harness.store.current.delete(agent.uaid, row_of(message))  # acked on another node
    assert await agent.connection.deliver_from_peer(message, row_of(message))
    assert agent.versions() == []


@TOPICS
async def test_one_that_is_acked_and_deleted_while_the_store_is_asked_is_not_sent_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, topic: str | None
) -> None:
    has, was_read, is_open = harness.store.current.has, asyncio.Event(), asyncio.Event()

    async def late(uaid: str, row: Row) -> bool:
        is_stored = await has(uaid, row)
        was_read.set()
        await is_open.wait()
        return is_stored

    agent = await harness.subscribed()
    monkeypatch.setattr(harness.store.current, "has", late)
    message = await harness.store_message(agent.uaid, topic=topic)
    handed_over = agent.connection.deliver_from_peer(message, row_of(message))
    delivering = asyncio.create_task(handed_over)
    await was_read.wait()
    agent.connection.check_storage()
    await harness.run_until_idle()
    agent.ack(agent.reply())
    await harness.run_until_idle()
    assert harness.rows() == []
    is_open.set()
    assert await delivering
    assert agent.received() == []


@TOPICS
@pytest.mark.parametrize("again", ["same connection", "next connection"])
async def test_a_row_that_is_there_again_after_its_ack_is_not_sent_but_deleted(
    harness: Harness, topic: str | None, again: str
) -> None:
    agent = await harness.subscribed()
    message, received = await harness.read_from_storage(agent, topic=topic)
    agent.ack(received)
    await harness.run_until_idle()
    assert harness.rows() == []
    await harness.store.current.store(message)
    if again == "same connection":
        agent.connection.check_storage()
        await harness.run_until_idle()
        assert agent.received() == []
    else:
        agent.disconnect()
        await harness.identified(agent.uaid)  # no notification follows the hello reply
    assert harness.rows() == []


@TOPICS
async def test_one_that_is_acked_while_the_clock_is_ahead_of_its_expiry_is_not_sent_again(
    harness: Harness, topic: str | None
) -> None:
    agent = await harness.subscribed()
    _, received = await harness.read_from_storage(agent, topic=topic)
    harness.clock.advance(DAY)
    agent.ack(received)
    await harness.run_until_idle()
    harness.clock.advance(-DAY)
    agent.connection.check_storage()
    await harness.run_until_idle()
    assert agent.received() == []
    assert harness.rows() == []


async def test_what_is_known_to_be_unsettled_at_the_other_node_is_buried_here(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[Row] = []
    monkeypatch.setattr(harness.store.current, "note_unsettled", lambda _, row: noted.append(row))
    agent = await harness.subscribed()
    message = await harness.store_message(agent.uaid)
    message.unsettled = True
    assert await agent.connection.deliver_from_peer(message, row_of(message))
    assert noted == [row_of(message)]
