"""What was acked on a node a short time ago is known without asking the store."""

import pytest

from autopush.connection.acked_rows import KEPT, AckedRows
from autopush.protocol.effects import Row
from autopush.store.messages import row_of
from support.clocks import ManualClock
from support.connection_harness import Harness

ONE, TWO, THREE = Row("02:1:c", None), Row("02:2:c", None), Row("02:3:c", None)


def test_a_row_is_undeleted_until_it_is_deleted_and_known_for_a_minute() -> None:
    clock = ManualClock(1000)
    rows = AckedRows(clock)
    rows.add("a", [ONE, TWO])
    rows.add("a", [THREE])
    assert rows.undeleted("a") == {ONE, TWO, THREE}
    assert not rows.deleted("a", [ONE, TWO])
    assert rows.deleted("a", [THREE])
    assert rows.undeleted("a") == frozenset()
    assert rows.has("a", ONE)
    assert not rows.has("b", ONE)
    assert rows.remembers_since(0)
    clock.advance(KEPT)
    rows.add("b", [ONE])
    assert not rows.has("a", ONE)
    assert not rows.remembers_since(1000)
    assert rows.remembers_since(1001)


def test_of_too_many_the_oldest_are_forgotten_and_that_is_known() -> None:
    clock = ManualClock(1000)
    rows = AckedRows(clock, max_kept=2)
    for row in (ONE, TWO, THREE):
        rows.add("a", [row])
        clock.advance(1)
    assert [rows.has("a", row) for row in (ONE, TWO, THREE)] == [False, True, True]
    assert not rows.remembers_since(1000)
    assert rows.remembers_since(1000.5)
    assert rows.undeleted("a") == {ONE, TWO, THREE}


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


@pytest.mark.parametrize("pause", [0, 20, KEPT + 20])
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


@pytest.mark.parametrize("topic", [None, "news"])
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


async def test_what_is_known_to_be_unsettled_at_the_other_node_is_buried_here(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    monkeypatch.setattr(
        harness.store.current, "note_unsettled", lambda message: noted.append(message.version)
    )
    agent = await harness.subscribed()
    message = await harness.store_message(agent.uaid)
    message.unsettled = True
    assert await agent.connection.deliver_from_peer(message, row_of(message))
    assert noted == [message.version]
