"""What was acked does not come again, however long the store takes to delete it."""

import pytest

from autopush.connection.acked import Acked, without
from autopush.protocol.actions import Batch, StoredMessage
from autopush.store.messages import row_of
from keytables import SchemaError, Throttled, Unavailable
from support.clocks import ManualClock
from support.connection_house import UAID, House
from support.memory_engine import MemoryEngine
from support.month_cluster import NOVEMBER, OCTOBER, ONE, Cluster

ERRORS = pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")])


@pytest.fixture
async def house() -> House:
    return await House.open()


# ── in a session ────────────────────────────────────────────────────────────────────────────────


@ERRORS
@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_message_whose_row_could_not_be_deleted_yet_does_not_come_again(
    house: House, error: Exception, topic: str | None
) -> None:
    agent = await house.subscribed()
    first, second = house.message(agent.uaid, topic=topic), house.message(agent.uaid)
    await house.store.current.store(first)
    agent.connection.check_storage()
    await house.settle()
    (notification,) = agent.heard()
    house.engine.fail("delete message", error, error)
    agent.ack(notification)
    await house.settle()
    assert len(house.rows()) == 1
    await house.store.current.store(second)
    agent.connection.check_storage()
    await house.settle()
    (notification,) = agent.heard()
    assert isinstance(notification, dict)
    assert notification["version"] == second.version
    agent.ack(notification)
    for pause in (1, 2):
        await house.pass_time(pause)
    assert house.stored_versions() == []


async def test_nor_on_the_next_connection(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    agent.connection.check_storage()
    await house.settle()
    (notification,) = agent.heard()
    house.engine.fail("delete message", Throttled("full"))
    agent.ack(notification)
    await house.settle()
    agent.leave()
    await house.greeted(agent.uaid)  # nothing comes with the hello


async def test_nor_when_the_endpoint_hands_it_over_late(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    agent.connection.check_storage()
    await house.settle()
    (notification,) = agent.heard()
    house.engine.fail("delete message", Throttled("full"))
    agent.ack(notification)
    await house.settle()
    message.stored = "message"
    assert await agent.connection.hand_over(message, row_of(message))
    assert agent.versions() == []


async def test_a_newer_message_of_its_topic_does_come(house: House) -> None:
    agent = await house.subscribed()
    older = house.message(agent.uaid, topic="news")
    await house.store.current.store(older)
    agent.connection.check_storage()
    await house.settle()
    (notification,) = agent.heard()
    house.engine.fail("delete message", Throttled("full"))
    agent.ack(notification)
    await house.settle()
    newer = house.message(agent.uaid, topic="news")
    await house.store.current.store(newer)
    agent.connection.check_storage()
    await house.settle()
    assert agent.versions() == [newer.version]
    await house.pass_time(5)
    assert len(house.rows()) == 1


# ── in a move ───────────────────────────────────────────────────────────────────────────────────


@ERRORS
async def test_nor_is_it_taken_along_into_the_next_month(error: Exception) -> None:
    clock = ManualClock()
    cluster = Cluster(MemoryEngine(clock), clock)
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
    assert await cluster.acked(agent) == [message.version]
    assert failures == 0
    assert (await cluster.record()).current_month == NOVEMBER
    assert await cluster.stored(NOVEMBER) == []
    await cluster.pass_time(5)
    assert await cluster.stored(OCTOBER) == []


# ── the books ───────────────────────────────────────────────────────────────────────────────────


async def test_only_rows_of_that_user_are_left_out_and_only_until_they_are_deleted(
    house: House,
) -> None:
    messages = [house.message(UAID) for _ in range(3)]
    batch = Batch([StoredMessage(row_of(m), m) for m in messages], "last", frozenset(), 7)
    rows = [row_of(message) for message in messages]
    acked = Acked()
    acked.add("f" * 32, rows)
    assert without(batch, acked.of(UAID)) is batch
    acked.add(UAID, rows[:2])
    acked.over(UAID, rows[1:2])
    left = without(batch, acked.of(UAID))
    assert [stored.row for stored in left.messages] == rows[1:]
    assert (left.last, left.channels, left.read_to) == ("last", frozenset(), 7)
    acked.over(UAID, rows[:1])
    assert without(batch, acked.of(UAID)) is batch
    acked.over("f" * 32, rows)
    assert len(acked) == 0


async def test_nothing_is_remembered_of_what_is_deleted_or_given_up(house: House) -> None:
    agent = await house.subscribed()
    for error in (None, SchemaError("for good")):
        message = house.message(agent.uaid)
        await house.store.current.store(message)
        agent.connection.check_storage()
        await house.settle()
        house.engine.fail("delete message", error)
        agent.ack(*agent.heard())
        await house.settle()
        assert len(house.node.acked) == 0
