"""Users change from the message table of one month to the next, and lose nothing."""

import asyncio

import pytest

from autopush.delivery.calls import Outcome
from autopush.store import TablePlan
from autopush.store.tables import message_table
from keytables import Throttled, Unavailable
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, OTHER, UAID, UserAgent
from support.month_cluster import (
    DECEMBER,
    EVERY_ENGINE,
    NOVEMBER,
    OCTOBER,
    ONE,
    TWO,
    Cluster,
    Node,
    at,
)

pytestmark = pytest.mark.slow

CALLS = [
    "get router",
    "update router",
    f"query {OCTOBER}",
    f"get {OCTOBER}",
    f"put {NOVEMBER}",
    "update router",
    f"query {OCTOBER}",
    f"query {NOVEMBER}",
]
"""The store calls of a hello and the change of tables after it, if no message is stored."""

RECORD, LAST_READ = 5, 6


async def assert_changed(cluster: Cluster, channels: frozenset[str] = frozenset({CHANNEL})) -> None:
    """The user has the table of November with its channels, and no message is left in any."""
    record = await cluster.record()
    assert record.current_month == NOVEMBER
    assert str(record.last_connect).startswith("202611")
    assert await cluster.channels(NOVEMBER) == channels
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == ([], [])


async def connected(cluster: Cluster, node: Node) -> UserAgent:
    """A user agent that has changed tables and is idle."""
    agent = cluster.connect(node)
    assert await cluster.receive_all(agent) == []
    return agent


# ── a user of last month ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("copied_before", [False, True], ids=["only there", "also in the new one"])
@EVERY_ENGINE
async def test_a_user_of_last_month_changes_tables_when_its_stored_messages_are_acked(
    cluster: Cluster, copied_before: bool
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    if copied_before:
        await node.store.current.add_channel(UAID, CHANNEL)
    message = cluster.message()
    assert await node.push(message) is Outcome.STORED
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == (
        [message.version],
        [],
    )
    agent = await cluster.hello(node)
    hello, notification = agent.received()
    assert isinstance(hello, dict)
    assert isinstance(notification, dict)
    assert (hello["uaid"], notification["version"]) == (UAID, message.version)
    assert agent.connection.messages.name == OCTOBER
    assert (await cluster.record()).current_month == OCTOBER
    agent.ack(notification)
    assert await cluster.receive_all(agent) == []
    await assert_changed(cluster)
    assert agent.connection.messages.name == NOVEMBER
    late = cluster.message()
    assert await node.push(late) is Outcome.DONE
    assert await cluster.receive_all(agent) == [late.version]
    await assert_changed(cluster)


async def test_the_socket_is_not_read_during_the_change(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    node.gate.at(RECORD, node.gate.hold)
    agent = await cluster.hello(node)
    agent.received()
    agent.register(OTHER)
    agent.send_json({})
    await cluster.run_until_idle()
    assert not agent.is_read()
    assert agent.received() == []
    node.gate.release()
    await cluster.run_until_idle()
    registered, pong = agent.received()
    assert isinstance(registered, dict)
    assert (registered["status"], pong) == (200, {})
    await assert_changed(cluster, frozenset({CHANNEL, OTHER}))
    assert await cluster.channels(OCTOBER) == {CHANNEL}


# ── a message at every moment of the change ─────────────────────────────────────────────────────


async def test_more_messages_than_a_page_are_carried_over(cluster: Cluster) -> None:
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()
    node.gate.at(RECORD, node.gate.hold)
    agent = await cluster.hello(node)
    messages = [cluster.message() for _ in range(25)]
    for message in messages:
        push = await cluster.start_push(endpoint, message)
        await push
    assert len(await cluster.stored(OCTOBER)) == 25
    node.gate.release()
    assert await cluster.receive_all(agent) == [message.version for message in messages]
    await assert_changed(cluster)


# ── the store fails ─────────────────────────────────────────────────────────────────────────────


BUT_LAST_READ = [step for step in range(3, len(CALLS)) if step != LAST_READ]


@pytest.mark.parametrize("step", BUT_LAST_READ)
async def test_an_overload_at_any_moment_of_a_change_delays_it_and_loses_nothing(
    cluster: Cluster, step: int
) -> None:
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()

    async def overloaded() -> None:
        raise Throttled("full")

    node.gate.at(step, overloaded)
    agent = await cluster.hello(node)
    assert agent.connection.is_open
    changed = step > RECORD
    assert agent.connection.messages.name == (NOVEMBER if changed else OCTOBER)
    agent.received()
    agent.register(OTHER)
    await cluster.run_until_idle()
    assert agent.reply()["status"] == 200
    message = cluster.message()
    push = asyncio.ensure_future(endpoint.push(message))
    received = await cluster.receive_all(agent)
    await cluster.pass_time(1800)
    received += await cluster.receive_all(agent)
    assert received == [message.version]
    await push
    await assert_changed(cluster, frozenset({CHANNEL, OTHER}))


@pytest.mark.parametrize("applied", [False, True], ids=["refused", "reply lost"])
@pytest.mark.parametrize("step", range(3, 6), ids=CALLS[3:6])
async def test_a_store_failure_during_the_change_closes_and_the_next_connection_completes_it(
    cluster: Cluster, step: int, applied: bool
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()

    async def broken(number: int, what: str) -> None:
        if number == step:
            raise Unavailable("gone")

    node.gate.start_counting()
    if applied:
        node.gate.after = broken
    else:
        node.gate.before = broken
    agent = await cluster.hello(node)
    assert agent.close_code() == 1011
    node.gate.release()
    message = cluster.message()
    await node.push(message)
    second = cluster.connect(node)
    assert await cluster.receive_all(second) == [message.version]
    await assert_changed(cluster)


# ── new and dropped tables ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["register", "unregister", "check"])
@EVERY_ENGINE
async def test_a_dropped_table_ends_its_connections_and_drops_their_users(
    cluster: Cluster, kind: str
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = await connected(cluster, node)
    await cluster.engine.drop_table(NOVEMBER)
    if kind == "check":
        agent.connection.check_storage()
    else:
        agent.send_json(messageType=kind, channelID=CHANNEL)
    await cluster.run_until_idle()
    assert agent.close_code() == 1000
    assert await node.store.users.get(UAID) is None
    second = await cluster.hello(node)
    hello = second.reply()
    assert hello["uaid"] != UAID
    second.register()
    await cluster.run_until_idle()
    assert second.reply()["status"] == 200


async def test_no_user_is_dropped_if_the_tables_cannot_be_listed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(DECEMBER)

    async def overloaded() -> list[str]:
        raise Throttled("full")

    monkeypatch.setattr(cluster.engine, "table_names", overloaded)
    agent = await cluster.hello(node)
    await cluster.pass_time(9)
    assert agent.close_code() == 1013
    monkeypatch.undo()
    second = await cluster.hello(node)
    assert second.reply()["uaid"] == UAID


# ── months pass ─────────────────────────────────────────────────────────────────────────────────


async def test_without_rotation_users_of_other_tables_change_to_the_frozen_one(
    cluster: Cluster,
) -> None:
    for name in (OCTOBER, NOVEMBER):
        await cluster.engine.ensure_table(message_table(name))
    node = await cluster.add(ONE, plan=TablePlan())
    await cluster.known_user()
    message = cluster.message()
    await node.push(message)
    agent = cluster.connect(node)
    assert await cluster.receive_all(agent) == [message.version]
    await assert_changed(cluster)
    await cluster.turn_month(at(2027, 2, 1))
    agent.disconnect()
    await connected(cluster, node)
    assert (await cluster.record()).current_month == NOVEMBER
    assert DECEMBER not in await cluster.engine.table_names()


async def test_a_connection_that_lasts_for_months_changes_before_its_table_is_dropped(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = await connected(cluster, node)
    newcomer = cluster.connect(node, None)
    await cluster.run_until_idle()
    for day in (at(2026, 11, 30), at(2026, 12, 1), at(2026, 12, 30, 23)):
        await cluster.turn_month(day)
        await cluster.pass_time(1800)
        assert (await cluster.record()).current_month == NOVEMBER
    await cluster.turn_month(at(2026, 12, 31))
    await cluster.pass_time(1800)
    assert (await cluster.record()).current_month == DECEMBER
    await cluster.turn_month(at(2027, 1, 1))
    await cluster.engine.drop_table(NOVEMBER)
    assert await cluster.channels(DECEMBER) == {CHANNEL}
    message = cluster.message()
    push = asyncio.ensure_future(node.push(message))
    assert await cluster.receive_all(agent) == [message.version]
    assert await push is Outcome.DONE
    for connection in (agent.connection, newcomer.connection):
        assert connection.is_open
    newcomer.received()
    newcomer.register()
    await cluster.run_until_idle()
    record = await cluster.record(newcomer.uaid)
    assert record.current_month == "message_2027_01"
    assert len(cluster.wheel) == 0


async def test_a_clock_that_jumps_a_month_and_back_loses_nothing(cluster: Cluster) -> None:
    node, other = (
        await cluster.add(ONE),
        await cluster.add(TWO, clock=ManualClock(at(2026, 11, 15))),
    )
    await cluster.known_user(NOVEMBER)
    sent, received = [], []
    for now in (at(2026, 12, 20), at(2026, 11, 15), at(2026, 12, 20), at(2026, 11, 16)):
        await cluster.turn_month(now)
        for endpoint in (node, other):
            message = cluster.message()
            push = await cluster.start_push(endpoint, message)
            await push
            sent.append(message.version)
        for connected_to in (other, node):
            agent = cluster.connect(connected_to)
            received += await cluster.receive_all(agent)
            agent.disconnect()
            await cluster.run_until_idle()
    assert sorted(received) == sorted(sent)
    assert (await cluster.record()).current_month == DECEMBER
