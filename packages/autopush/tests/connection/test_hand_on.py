"""What a connection leaves behind: saved, and whoever has the user agent by now told."""

import pytest

from autopush.store.messages import row_of
from keytables import Throttled, Unavailable
from support.connection_house import NODE, OTHER_NODE, UAID, House, UserAgent


def checks(house: House) -> list[tuple[object, ...]]:
    return [call for call in house.nodes.calls if call[0] == "check"]


async def moved(house: House, agent: UserAgent, node_id: str = OTHER_NODE) -> None:
    """The user agent is on record elsewhere, by a newer connection."""
    record = await house.record(agent.uaid)
    assert await house.store.users.connect(record, node_id, record.connected_at + 1)


async def test_what_is_unacked_and_nowhere_stored_is_saved_at_the_end(house: House) -> None:
    agent = await house.subscribed()
    first, second = house.message(agent.uaid), house.message(agent.uaid)
    for message in (first, second):
        assert agent.connection.deliver(message, None)
    assert house.rows() == []
    agent.leave()
    await house.settle()
    assert house.stored_versions() == [first.version, second.version]


async def test_what_was_acked_is_not_saved(house: House) -> None:
    agent = await house.subscribed()
    for _ in range(2):
        agent.connection.deliver(house.message(agent.uaid), None)
    acked, unacked = agent.heard()
    agent.ack(acked)
    agent.leave()
    await house.settle()
    assert isinstance(unacked, dict)
    assert house.stored_versions() == [unacked["version"]]


async def test_a_ttl_of_0_is_not_saved(house: House) -> None:
    agent = await house.subscribed()
    agent.connection.deliver(house.message(agent.uaid, ttl=0), None)
    house.engine.calls.clear()
    agent.leave()
    await house.settle()
    assert house.engine.calls == []


async def test_a_topic_is_saved_in_its_row(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid, topic="news")
    agent.connection.deliver(message, None)
    agent.leave()
    await house.settle()
    (row,) = house.rows()
    assert row["chidmessageid"] == f"01:{message.channel_id}:news"


async def test_what_is_stored_already_is_not_stored_again(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    agent.connection.deliver(message, row_of(message))
    house.engine.calls.clear()
    agent.leave()
    await house.settle()
    assert house.engine.calls == ["get router"]


async def test_an_idle_connection_leaves_without_a_call_to_the_store(house: House) -> None:
    agent = await house.subscribed()
    house.engine.calls.clear()
    agent.leave()
    await house.settle()
    assert house.engine.calls == []


async def test_a_saved_message_keeps_the_place_its_id_names_however_long_it_waited(
    house: House,
) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid, ttl=3600)
    agent.connection.deliver(message, None)
    await house.pass_time(40)
    agent.leave()
    await house.settle()
    (row,) = house.rows()
    assert row["chidmessageid"] == message.sort_key
    assert row["updateid"] == message.version


async def test_the_newest_message_of_a_topic_survives_an_older_one_that_is_saved_later(
    house: House,
) -> None:
    agent = await house.subscribed()
    older = house.message(agent.uaid, topic="news")
    agent.connection.deliver(older, None)
    await house.pass_time(1)
    newer = house.message(agent.uaid, topic="news")
    await house.store.current.store(newer)
    agent.leave()
    await house.settle()
    assert house.stored_versions() == [newer.version]


# ── who is told ─────────────────────────────────────────────────────────────────────────────────


async def test_the_node_that_has_the_user_agent_by_now_is_told(house: House) -> None:
    agent = await house.subscribed()
    agent.connection.deliver(house.message(agent.uaid), None)
    await moved(house, agent)
    agent.leave()
    await house.settle()
    assert checks(house) == [("check", OTHER_NODE, agent.uaid)]


async def test_the_node_is_told_of_what_was_stored_before_too(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    agent.connection.deliver(message, row_of(message))
    await moved(house, agent)
    agent.leave()
    await house.settle()
    assert checks(house) == [("check", OTHER_NODE, agent.uaid)]


async def test_the_node_is_told_only_after_all_is_saved(house: House) -> None:
    agent = await house.subscribed()
    agent.connection.deliver(house.message(agent.uaid), None)
    await moved(house, agent)
    house.engine.fail("put message", Throttled("full"))
    agent.leave()
    await house.settle()
    assert checks(house) == []
    await house.pass_time(1)
    assert len(house.rows()) == 1
    assert checks(house) == [("check", OTHER_NODE, agent.uaid)]


async def test_nobody_is_told_when_nobody_reconnected(house: House) -> None:
    agent = await house.subscribed()
    agent.connection.deliver(house.message(agent.uaid), None)
    agent.leave()
    await house.settle()
    assert len(house.rows()) == 1
    assert checks(house) == []


async def test_nobody_is_told_when_the_user_agent_is_away(house: House) -> None:
    agent = await house.subscribed()
    agent.connection.deliver(house.message(agent.uaid), None)
    await house.store.users.clear_node(await house.record(agent.uaid))
    agent.leave()
    await house.settle()
    assert checks(house) == []


async def test_nobody_is_told_when_the_user_is_gone(house: House) -> None:
    agent = await house.subscribed()
    agent.connection.deliver(house.message(agent.uaid), None)
    await house.store.users.drop(agent.uaid)
    agent.leave()
    await house.settle()
    assert checks(house) == []


# ── replaced on the same node ───────────────────────────────────────────────────────────────────


async def test_a_replaced_connection_hands_its_unacked_messages_to_the_new_one(
    house: House,
) -> None:
    await house.known_user()
    first = await house.greeted(UAID)
    message = house.message()
    first.connection.deliver(message, None)
    assert first.versions() == [message.version]
    second = house.connect()
    second.hello(UAID)
    await house.settle()
    assert first.heard() == [("close", 1000, "")]
    hello, *_ = heard = second.heard()
    assert isinstance(hello, dict)
    assert hello["messageType"] == "hello"
    versions = [m["version"] for m in heard if isinstance(m, dict) and "version" in m]
    assert versions == [message.version]
    second.ack(*heard[1:])
    await house.settle()
    assert house.rows() == []


async def test_an_ack_that_comes_after_the_replacement_is_not_taken(house: House) -> None:
    await house.known_user()
    first = await house.greeted(UAID)
    first.connection.deliver(house.message(), None)
    (notification,) = first.heard()
    second = house.connect()
    second.hello(UAID)
    first.ack(notification)
    await house.settle()
    assert len(second.versions()) == 1


async def test_a_connection_lost_while_it_is_greeted_gives_its_place_back(house: House) -> None:
    await house.known_user()
    agent = house.connect()
    agent.hello(UAID)
    agent.transport.reset()
    house.loop.advance()
    await house.settle()
    assert house.registry.find(UAID) is None
    assert not house.registry.sockets


# ── the save fails ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")], ids=["full", "gone"])
async def test_a_save_that_fails_is_tried_again_until_it_succeeds(
    house: House, error: Exception
) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid, ttl=3600)
    agent.connection.deliver(message, None)
    house.engine.fail("put message", *[error] * 3)
    agent.leave()
    await house.settle()
    assert house.rows() == []
    for pause in (1, 1.5):
        await house.pass_time(pause)
        assert house.rows() == []
    await house.pass_time(2.5)
    assert house.stored_versions() == [message.version]


async def test_what_was_saved_and_delivered_since_is_not_saved_again(house: House) -> None:
    agent = await house.subscribed()
    first, second = house.message(agent.uaid, ttl=3600), house.message(agent.uaid, ttl=3600)
    for message in (first, second):
        agent.connection.deliver(message, None)
    house.engine.fail("put message", None, Throttled("full"))
    agent.leave()
    await house.settle()
    assert house.stored_versions() == [first.version]
    again = house.connect()
    again.hello(agent.uaid)
    await house.settle()
    _, notification = again.heard()
    again.ack(notification)
    await house.settle()
    await house.pass_time(1)
    assert again.versions() == [second.version]
    assert house.stored_versions() == [second.version]
    assert checks(house) == [("check", NODE, agent.uaid)]


async def test_a_record_that_cannot_be_read_is_asked_again(house: House) -> None:
    agent = await house.subscribed()
    agent.connection.deliver(house.message(agent.uaid), None)
    await moved(house, agent)
    house.engine.fail("get router", Unavailable("gone"))
    agent.leave()
    await house.settle()
    assert checks(house) == []
    await house.pass_time(1)
    assert checks(house) == [("check", OTHER_NODE, agent.uaid)]
