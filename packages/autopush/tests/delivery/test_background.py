"""Background writes: acked rows to delete, users to drop, and their retries."""

import pytest

from autopush.delivery import background
from autopush.store.messages import row_of
from keytables import SchemaError, Throttled, Unavailable
from support.connection_harness import CHANNEL, OTHER, OTHER_NODE, UAID, Harness
from support.month_cluster import NOVEMBER, OCTOBER, ONE, Cluster

ERRORS = pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")])

# ── acked rows ──────────────────────────────────────────────────────────────────────────────────


@ERRORS
@pytest.mark.parametrize("topic", [None, "news"])
async def test_an_acked_message_whose_row_is_not_deleted_yet_is_not_sent_again(
    harness: Harness, error: Exception, topic: str | None
) -> None:
    agent = await harness.subscribed()
    _, notification = await harness.read_from_storage(agent, topic=topic)
    harness.engine.fail("delete message", error, error)
    agent.ack(notification)
    await harness.run_until_idle()
    assert len(harness.rows()) == 1
    second, notification = await harness.read_from_storage(agent)
    assert notification["version"] == second.version
    agent.ack(notification)
    for pause in (1, 2):
        await harness.pass_time(pause)
    assert harness.stored_versions() == []


async def test_a_newer_message_of_its_topic_is_sent(harness: Harness) -> None:
    agent = await harness.subscribed()
    _, notification = await harness.read_from_storage(agent, topic="news")
    harness.engine.fail("delete message", Throttled("full"))
    agent.ack(notification)
    await harness.run_until_idle()
    newer, notification = await harness.read_from_storage(agent, topic="news")
    assert notification["version"] == newer.version
    await harness.pass_time(5)
    assert len(harness.rows()) == 1


@ERRORS
async def test_it_is_not_carried_to_the_table_of_the_next_month(
    cluster: Cluster, error: Exception
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    message = cluster.message()
    await node.push(message)
    failures = 1

    async def overloaded(_: int, what: str) -> None:
        nonlocal failures
        if what == f"delete {OCTOBER}" and failures:
            failures -= 1
            raise error

    node.gate.before = overloaded
    agent = cluster.connect(node)
    assert await cluster.receive_all(agent) == [message.version]
    assert failures == 0
    assert (await cluster.record()).current_month == NOVEMBER
    assert await cluster.stored(NOVEMBER) == []
    await cluster.pass_time(5)
    assert await cluster.stored(OCTOBER) == []


async def test_acked_rows_are_known_by_user_until_they_are_deleted(harness: Harness) -> None:
    writes, messages = harness.node.background, harness.store.current
    rows = [row_of(await harness.store_message()) for _ in range(3)]
    harness.engine.fail("delete message", Throttled("full"), Throttled("full"))
    writes.delete_acked(messages, UAID, rows[:1])
    writes.delete_acked(messages, UAID, rows[1:2])
    writes.delete_acked(messages, UAID, rows[2:])
    await harness.run_until_idle()
    assert harness.registry.acked.undeleted(UAID) == {*rows[:2]}
    assert harness.registry.acked.undeleted("f" * 32) == frozenset()
    await harness.pass_time(1)
    assert harness.registry.acked.undeleted(UAID) == frozenset()
    assert harness.rows() == []


@pytest.mark.parametrize("error", [None, SchemaError("permanent")])
async def test_rows_that_are_deleted_or_cannot_be_are_not_kept_in_memory(
    harness: Harness, error: Exception | None
) -> None:
    agent = await harness.subscribed()
    _, notification = await harness.read_from_storage(agent)
    harness.engine.fail("delete message", error)
    agent.ack(notification)
    await harness.run_until_idle()
    assert harness.registry.acked.undeleted(agent.uaid) == frozenset()


async def test_the_number_of_writes_that_wait_for_a_retry_is_bounded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MAX_RETRIES", 1)
    agent = await harness.subscribed()
    for _ in range(2):
        _, notification = await harness.read_from_storage(agent)
        harness.engine.fail("delete message", Throttled("full"))
        agent.ack(notification)
        await harness.run_until_idle()
    assert len(harness.wheel) == 1
    await harness.pass_time(1)
    assert len(harness.rows()) == 1


async def test_an_ack_whose_table_is_gone_is_not_retried(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = await harness.store_message(agent.uaid)
    agent.connection.deliver(message, row_of(message))
    (notification,) = agent.received()
    await harness.engine.drop_table("message")
    agent.ack(notification)
    await harness.run_until_idle()
    assert len(harness.wheel) == 0
    assert agent.connection.is_open


# ── users to drop ───────────────────────────────────────────────────────────────────────────────


async def after_reset(call: str, *errors: Exception) -> Harness:
    """A user is reset, as too many messages are stored for it, and these calls fail."""
    harness = await Harness.open(msg_limit=1)
    await harness.known_user()
    for _ in range(2):
        await harness.store_message()
    harness.engine.fail(call, *errors)
    agent = await harness.hello()
    assert not agent.connection.is_open
    return harness


async def test_a_record_that_cannot_be_dropped_yet_keeps_its_channels() -> None:
    """A crash now leaves the user as it was; without channels it could not be reached."""
    harness = await after_reset("delete router", Throttled("full"), Unavailable("gone"))
    assert harness.users() == [UAID]
    assert await harness.store.current.channels(UAID) == {CHANNEL}
    for pause in (1, 2):
        await harness.pass_time(pause)
    assert harness.users() == []
    assert await harness.store.current.channels(UAID) == frozenset()


async def test_channels_that_cannot_be_dropped_yet_are_dropped_later() -> None:
    harness = await after_reset("delete message", Throttled("full"))
    assert harness.users() == []
    await harness.pass_time(1)
    assert await harness.store.current.channels(UAID) == frozenset()


async def test_a_user_that_has_connected_to_another_node_is_not_dropped() -> None:
    harness = await after_reset("delete router", Throttled("full"))
    record = await harness.record()
    assert await harness.store.users.connect(record, OTHER_NODE, record.connected_at + 1)
    await harness.store.current.add_channel(UAID, OTHER)
    await harness.pass_time(1)
    assert harness.users() == [UAID]
    assert await harness.store.current.channels(UAID) == {CHANNEL, OTHER}
