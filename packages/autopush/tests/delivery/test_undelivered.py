"""What a closed connection had not delivered is saved, and its user agent's node reads it."""

import asyncio

import pytest

from autopush.store.messages import row_of
from keytables import Throttled, Unavailable
from support.connection_harness import NODE, OTHER_NODE, UAID, Harness, UserAgent


async def connect_elsewhere(harness: Harness, agent: UserAgent) -> None:
    """Record a newer connection of the user agent to another node."""
    record = await harness.record(agent.uaid)
    assert await harness.store.users.connect(record, OTHER_NODE, record.connected_at + 1)


async def test_unacked_messages_that_are_not_stored_are_saved_at_the_end(harness: Harness) -> None:
    agent = await harness.subscribed()
    first, second = harness.message(agent.uaid), harness.message(agent.uaid)
    for message in (first, second):
        assert agent.connection.deliver(message, None)
    assert harness.rows() == []
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.stored_versions() == [first.version, second.version]


async def test_a_topic_is_saved_in_its_row(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid, topic="news")
    agent.connection.deliver(message, None)
    agent.disconnect()
    await harness.run_until_idle()
    (row,) = harness.rows()
    assert row["chidmessageid"] == f"01:{message.channel_id}:news"


async def test_an_idle_connection_ends_without_a_call_to_the_store(harness: Harness) -> None:
    agent = await harness.subscribed()
    harness.engine.calls.clear()
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.engine.calls == []


# ── which node is called ────────────────────────────────────────────────────────────────────────


async def test_the_node_that_has_the_user_agent_now_is_called(harness: Harness) -> None:
    agent = await harness.subscribed()
    agent.connection.deliver(harness.message(agent.uaid), None)
    await connect_elsewhere(harness, agent)
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.nodes.checks == [("check", OTHER_NODE, agent.uaid)]


async def test_the_node_is_called_for_stored_messages_too(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = await harness.store_message(agent.uaid)
    agent.connection.deliver(message, row_of(message))
    await connect_elsewhere(harness, agent)
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.nodes.checks == [("check", OTHER_NODE, agent.uaid)]


async def test_the_node_is_called_only_after_all_is_saved(harness: Harness) -> None:
    agent = await harness.subscribed()
    agent.connection.deliver(harness.message(agent.uaid), None)
    await connect_elsewhere(harness, agent)
    harness.engine.fail("put message", Throttled("full"))
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.nodes.checks == []
    await harness.pass_time(1)
    assert len(harness.rows()) == 1
    assert harness.nodes.checks == [("check", OTHER_NODE, agent.uaid)]


@pytest.mark.parametrize("case", ["not reconnected", "no node on record", "dropped"])
async def test_no_node_is_called_if_none_has_the_user_agent_now(
    harness: Harness, case: str
) -> None:
    agent = await harness.subscribed()
    agent.connection.deliver(harness.message(agent.uaid), None)
    if case == "no node on record":
        await harness.store.users.clear_node(await harness.record(agent.uaid))
    elif case == "dropped":
        await harness.store.users.drop(agent.uaid)
    agent.disconnect()
    await harness.run_until_idle()
    assert len(harness.rows()) == (case != "dropped")
    assert harness.nodes.checks == []


# ── replaced on the same node ───────────────────────────────────────────────────────────────────


async def test_an_ack_after_the_replacement_is_ignored(harness: Harness) -> None:
    await harness.known_user()
    first = await harness.identified(UAID)
    first.connection.deliver(harness.message(), None)
    (notification,) = first.received()
    second = harness.connect()
    second.hello(UAID)
    await asyncio.sleep(0)  # its task has replaced the first
    first.ack(notification)
    await harness.run_until_idle()
    assert len(second.versions()) == 1


async def test_a_connection_lost_before_its_hello_reply_leaves_the_registry(
    harness: Harness,
) -> None:
    await harness.known_user()
    agent = harness.connect()
    agent.hello(UAID)
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.registry.find(UAID) is None
    assert not harness.registry.sockets


async def test_a_connection_that_ends_during_its_lookup_is_not_recorded(harness: Harness) -> None:
    await harness.known_user()
    agent = harness.connect()
    harness.engine.before("get router", lambda: agent.connection.disconnect(1001))
    agent.hello(UAID)
    await harness.run_until_idle()
    assert (await harness.record()).node_id == OTHER_NODE
    assert harness.registry.find(UAID) is None


# ── the save fails ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")], ids=["full", "gone"])
async def test_a_save_that_fails_is_retried_until_it_succeeds(
    harness: Harness, error: Exception
) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid, ttl=3600)
    agent.connection.deliver(message, None)
    harness.engine.fail("put message", *[error] * 3)
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.rows() == []
    for pause in (1, 1.5):
        await harness.pass_time(pause)
        assert harness.rows() == []
    await harness.pass_time(2.5)
    assert harness.stored_versions() == [message.version]


async def test_a_retry_saves_only_what_was_not_saved(harness: Harness) -> None:
    agent = await harness.subscribed()
    first, second = harness.message(agent.uaid, ttl=3600), harness.message(agent.uaid, ttl=3600)
    for message in (first, second):
        agent.connection.deliver(message, None)
    harness.engine.fail("put message", None, Throttled("full"))
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.stored_versions() == [first.version]
    again = await harness.hello(agent.uaid)
    _, notification = again.received()
    again.ack(notification)
    await harness.run_until_idle()
    await harness.pass_time(1)
    assert again.versions() == [second.version]
    assert harness.stored_versions() == [second.version]
    assert harness.nodes.checks == [("check", NODE, agent.uaid)]


async def test_a_record_that_cannot_be_read_is_read_again(harness: Harness) -> None:
    agent = await harness.subscribed()
    agent.connection.deliver(harness.message(agent.uaid), None)
    await connect_elsewhere(harness, agent)
    harness.engine.fail("get router", Unavailable("gone"))
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.nodes.checks == []
    await harness.pass_time(1)
    assert harness.nodes.checks == [("check", OTHER_NODE, agent.uaid)]
