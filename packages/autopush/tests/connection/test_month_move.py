"""A user agent goes from the table of one month to that of the next, and takes everything along."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopush.routing.webpush import Outcome
from autopush.store import TablePlan
from autopush.store.tables import message_table
from keytables import Throttled, Unavailable
from support import engines
from support.clocks import ManualClock
from support.connection_house import CHANNEL, OTHER, UAID, UserAgent
from support.month_cluster import (
    DECEMBER,
    NOVEMBER,
    OCTOBER,
    ONE,
    THREE,
    TWO,
    Cluster,
    Node,
    at,
)

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
"""What a hello and the move after it ask of the store, where no message is stored."""

COPY, RECORD, SECOND_LOOK = 4, 5, 6

EVERY_CALL = pytest.mark.parametrize("step", range(len(CALLS) + 1))
BOTH = pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])


@pytest.fixture(params=engines.EVERY)
async def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A cluster on each of the engines."""
    clock = ManualClock()
    async with engines.engine(request.param, tmp_path, clock) as engine:
        yield Cluster(engine, clock)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    clock = ManualClock()
    async with engines.engine("memory", tmp_path, clock) as engine:
        yield Cluster(engine, clock)


async def is_moved(cluster: Cluster, channels: frozenset[str] = frozenset({CHANNEL})) -> None:
    """The user is in November with its channels, and left no message anywhere."""
    record = await cluster.record()
    assert record.current_month == NOVEMBER
    assert str(record.last_connect).startswith("202611")
    assert await cluster.channels(NOVEMBER) == channels
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == ([], [])


async def connected(cluster: Cluster, node: Node) -> UserAgent:
    """A user agent that was moved and has nothing to do."""
    agent = cluster.connect(node)
    assert await cluster.acked(agent) == []
    return agent


def closed_with(agent: UserAgent) -> object:
    closes = [heard for heard in agent.heard() if isinstance(heard, tuple)]
    return closes[-1][1] if closes else None


# ── as the original's tests have it ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("copied_before", [False, True], ids=["only there", "also in the new one"])
async def test_a_user_of_last_month_gets_its_messages_there_and_is_moved_when_they_are_acked(
    everywhere: Cluster, copied_before: bool
) -> None:
    cluster = everywhere
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
    agent = cluster.connect(node)
    await cluster.quiet()
    hello, notification = agent.heard()
    assert isinstance(hello, dict)
    assert isinstance(notification, dict)
    assert (hello["uaid"], notification["version"]) == (UAID, message.version)
    assert agent.connection.messages.name == OCTOBER
    assert (await cluster.record()).current_month == OCTOBER
    agent.ack(notification)
    assert await cluster.acked(agent) == []
    await is_moved(cluster)
    assert agent.connection.messages.name == NOVEMBER
    late = cluster.message()
    assert await node.push(late) is Outcome.DELIVERED
    assert await cluster.acked(agent) == [late.version]
    await is_moved(cluster)


async def test_a_user_without_channels_is_moved_right_after_the_hello(everywhere: Cluster) -> None:
    cluster = everywhere
    node = await cluster.add(ONE)
    await cluster.known_user(channels=False)
    agent = await connected(cluster, node)
    await is_moved(cluster, frozenset())
    agent.register(OTHER)
    await cluster.quiet()
    assert await cluster.channels(NOVEMBER) == {OTHER}


async def test_what_a_move_costs(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    node.gate.start_counting()
    await connected(cluster, node)
    assert node.gate.calls == CALLS


async def test_a_user_of_this_month_costs_what_it_did(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    node.gate.start_counting()
    await connected(cluster, node)
    assert node.gate.calls == ["get router", "update router", f"query {NOVEMBER}"]


async def test_the_socket_is_not_read_between_the_months(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    node.gate.at(RECORD, node.gate.hold)
    agent = cluster.connect(node)
    await cluster.quiet()
    agent.heard()
    agent.register(OTHER)
    agent.say({})
    await cluster.quiet()
    assert not agent.is_read()
    assert agent.heard() == []
    node.gate.release()
    await cluster.quiet()
    registered, pong = agent.heard()
    assert isinstance(registered, dict)
    assert (registered["status"], pong) == (200, {})
    await is_moved(cluster, frozenset({CHANNEL, OTHER}))
    assert await cluster.channels(OCTOBER) == {CHANNEL}


# ── a message at every moment ───────────────────────────────────────────────────────────────────


@BOTH
@EVERY_CALL
@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_message_sent_at_any_moment_of_a_move_arrives_once(
    cluster: Cluster, step: int, store_first: bool, topic: str | None
) -> None:
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO, store_first=store_first)
    await cluster.known_user()
    node.gate.at(step, node.gate.hold)
    agent = cluster.connect(node)
    await cluster.quiet()
    message = cluster.message(topic=topic)
    push = asyncio.ensure_future(endpoint.push(message))
    await cluster.quiet()
    node.gate.release()
    assert await cluster.acked(agent) == [message.version]
    assert await push in (Outcome.DELIVERED, Outcome.STORED)
    await is_moved(cluster)


@EVERY_CALL
async def test_a_message_sent_through_the_moving_node_itself_arrives_once(
    cluster: Cluster, step: int
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    node.gate.at(step, node.gate.hold)
    agent = cluster.connect(node)
    await cluster.quiet()
    message = cluster.message()
    push = asyncio.ensure_future(node.push(message))
    await cluster.quiet()
    node.gate.release()
    assert await cluster.acked(agent) == [message.version]
    assert await push in (Outcome.DELIVERED, Outcome.STORED)
    await is_moved(cluster)


@BOTH
@pytest.mark.parametrize("step", range(8))
@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_message_whose_endpoint_is_slow_arrives_once(
    everywhere: Cluster, step: int, store_first: bool, topic: str | None
) -> None:
    cluster = everywhere
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO, store_first=store_first)
    await cluster.known_user()
    endpoint.gate.at(step, endpoint.gate.hold)
    message = cluster.message(topic=topic)
    push = asyncio.ensure_future(endpoint.push(message))
    await cluster.quiet()
    agent = cluster.connect(node)
    received = await cluster.acked(agent)
    endpoint.gate.release()
    received += await cluster.acked(agent)
    assert received == [message.version]
    assert await push in (Outcome.DELIVERED, Outcome.STORED)
    await is_moved(cluster)


async def test_more_messages_than_a_page_come_along(everywhere: Cluster) -> None:
    cluster = everywhere
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()
    node.gate.at(RECORD, node.gate.hold)
    agent = cluster.connect(node)
    await cluster.quiet()
    messages = [cluster.message() for _ in range(25)]
    for message in messages:
        push = asyncio.ensure_future(endpoint.push(message))
        await cluster.quiet()
        await push
    assert len(await cluster.stored(OCTOBER)) == 25
    node.gate.release()
    assert await cluster.acked(agent) == [message.version for message in messages]
    await is_moved(cluster)


async def test_a_ttl_of_0_between_the_months_is_dropped_and_never_stored(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    node.gate.at(RECORD, node.gate.hold)
    agent = cluster.connect(node)
    await cluster.quiet()
    message = cluster.message()
    message.ttl = 0
    assert not agent.connection.deliver(message, None)
    node.gate.release()
    assert await cluster.acked(agent) == []
    await is_moved(cluster)


# ── messages on their way ───────────────────────────────────────────────────────────────────────


@BOTH
async def test_a_direct_message_that_is_not_acked_keeps_the_user_in_its_month(
    cluster: Cluster, store_first: bool
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()
    stored = cluster.message()
    await node.push(stored)
    agent = cluster.connect(node)
    await cluster.quiet()
    _, first = agent.heard()
    direct = cluster.message()
    assert await node.push(direct) is Outcome.DELIVERED
    agent.ack(first)
    await cluster.quiet()
    assert (await cluster.record()).current_month == OCTOBER
    waiting = cluster.message()
    await node.push(waiting)
    await cluster.quiet()
    (second,) = agent.heard()
    assert isinstance(second, dict)
    assert second["version"] == direct.version
    agent.ack(second)
    assert await cluster.acked(agent) == [waiting.version]
    await is_moved(cluster)


@BOTH
async def test_what_is_unacked_at_the_end_of_a_connection_comes_at_the_next_one(
    cluster: Cluster, store_first: bool
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()
    stored, direct = cluster.message(), cluster.message()
    await node.push(stored)
    agent = cluster.connect(node)
    await cluster.quiet()
    await node.push(direct)
    agent.leave()
    await cluster.quiet()
    assert sorted(await cluster.stored(OCTOBER)) == sorted([stored.version, direct.version])
    again = cluster.connect(node)
    assert await cluster.acked(again) == [stored.version, direct.version]
    await is_moved(cluster)


@BOTH
async def test_what_a_connection_leaves_that_hangs_follows_its_user_into_the_next_month(
    cluster: Cluster, store_first: bool
) -> None:
    hanging, node = await cluster.add(ONE, store_first=store_first), await cluster.add(TWO)
    await cluster.known_user()
    stored = cluster.message()
    await hanging.push(stored)
    ghost = cluster.connect(hanging)
    await cluster.quiet()  # it is being drained, so it is in its old month
    late = cluster.message()
    hanging.cut_off = True
    hanging.gate.at(0, hanging.gate.hold)
    push = asyncio.ensure_future(hanging.push(late))  # goes to the ghost
    await cluster.quiet()
    agent = cluster.connect(node)
    received = await cluster.acked(agent)
    assert (await cluster.record()).current_month == NOVEMBER
    hanging.gate.release()
    await cluster.quiet()
    ghost.leave()
    received += await cluster.acked(agent)
    assert received == [stored.version, late.version]
    assert await push is Outcome.DELIVERED
    await is_moved(cluster)


# ── deaths and rivals ───────────────────────────────────────────────────────────────────────────


@EVERY_CALL
async def test_a_node_that_dies_at_any_moment_of_a_move_loses_nothing(
    everywhere: Cluster, step: int
) -> None:
    cluster = everywhere
    dying, node = await cluster.add(ONE), await cluster.add(TWO)
    endpoint = await cluster.add(THREE)
    await cluster.known_user()
    dying.gate.at(step, dying.gate.hold)
    cluster.connect(dying)
    await cluster.quiet()
    before, after = cluster.message(), cluster.message()
    push = asyncio.ensure_future(endpoint.push(before))
    await cluster.quiet()
    dying.die()
    second = asyncio.ensure_future(endpoint.push(after))
    await cluster.quiet()
    assert await push in (Outcome.DELIVERED, Outcome.STORED)
    assert await second is Outcome.STORED
    agent = cluster.connect(node)
    assert await cluster.acked(agent) == [before.version, after.version]
    await is_moved(cluster)
    assert (await cluster.record()).moved_from in (None, OCTOBER)


async def test_what_a_dead_node_has_not_carried_over_is_found_by_the_next_one(
    everywhere: Cluster,
) -> None:
    cluster = everywhere
    dying, node = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()
    dying.gate.at(RECORD, dying.gate.hold)
    cluster.connect(dying)
    await cluster.quiet()
    message = cluster.message()
    push = asyncio.ensure_future(node.push(message))
    await cluster.quiet()
    await push  # its endpoint has seen the old month on record, and is done
    dying.gate.release()
    dying.gate.at(1, dying.gate.hold)  # after the record, before the second look
    await cluster.quiet()
    dying.die()
    record = await cluster.record()
    assert (record.current_month, record.moved_from) == (NOVEMBER, OCTOBER)
    assert await cluster.stored(OCTOBER) == [message.version]
    agent = cluster.connect(node)
    assert await cluster.acked(agent) == [message.version]
    await is_moved(cluster)
    assert (await cluster.record()).moved_from is None


@pytest.mark.parametrize("step", range(2, len(CALLS)))
async def test_of_two_nodes_that_move_a_user_the_one_it_is_connected_to_wins(
    everywhere: Cluster, step: int
) -> None:
    cluster = everywhere
    slow, node = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()
    slow.gate.at(step, slow.gate.hold)
    ghost = cluster.connect(slow)
    await cluster.quiet()
    agent = cluster.connect(node)
    await cluster.quiet()
    agent.heard()
    agent.register(OTHER)
    await cluster.quiet()
    (registered,) = agent.heard()
    assert isinstance(registered, dict)
    assert registered["status"] == 200
    slow.gate.release()
    await cluster.quiet()
    await is_moved(cluster, frozenset({CHANNEL, OTHER}))
    assert (await cluster.record()).node_id == TWO
    assert agent.connection.is_open
    if step <= RECORD:
        assert closed_with(ghost) == 1000
    message = cluster.message()
    await slow.push(message)
    assert message.version in await cluster.acked(agent) + await cluster.acked(ghost)


async def test_a_connection_that_is_on_record_after_a_rival_uses_the_table_it_left(
    everywhere: Cluster,
) -> None:
    """The record is read, another node moves the user, and then the connection is written."""
    cluster = everywhere
    late, node = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()
    late.gate.at(1, late.gate.hold)  # it has read the record
    agent = cluster.connect(late)
    await cluster.quiet()
    rival = await connected(cluster, node)
    late.gate.release()
    assert await cluster.acked(agent) == []
    assert agent.connection.messages.name == NOVEMBER
    assert (await cluster.record()).node_id == ONE
    assert closed_with(rival) == 1000


async def test_a_user_dropped_while_it_is_moved_is_not_made_anew(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    node.gate.at(RECORD, node.gate.hold)
    agent = cluster.connect(node)
    await cluster.quiet()
    agent.heard()
    other = await cluster.add(TWO)
    await other.store.users.drop(UAID)
    node.gate.release()
    await cluster.quiet()
    assert closed_with(agent) == 1000
    assert await other.store.users.get(UAID) is None


# ── the store fails ─────────────────────────────────────────────────────────────────────────────


BUT_SECOND_LOOK = [step for step in range(3, len(CALLS)) if step != SECOND_LOOK]


@pytest.mark.parametrize("step", BUT_SECOND_LOOK)
async def test_an_overload_at_any_moment_of_a_move_puts_it_off_and_loses_nothing(
    cluster: Cluster, step: int
) -> None:
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()

    async def overloaded() -> None:
        raise Throttled("full")

    node.gate.at(step, overloaded)
    agent = cluster.connect(node)
    await cluster.quiet()
    assert agent.connection.is_open
    moved = step > RECORD
    assert agent.connection.messages.name == (NOVEMBER if moved else OCTOBER)
    agent.heard()
    agent.register(OTHER)
    await cluster.quiet()
    (registered,) = agent.heard()
    assert isinstance(registered, dict)
    assert registered["status"] == 200
    message = cluster.message()
    push = asyncio.ensure_future(endpoint.push(message))
    received = await cluster.acked(agent)
    await cluster.pass_time(1800)
    received += await cluster.acked(agent)
    assert received == [message.version]
    await push
    await is_moved(cluster, frozenset({CHANNEL, OTHER}))


@pytest.mark.parametrize("step", range(4))
async def test_an_overload_of_the_second_look_closes_and_the_next_connect_completes_it(
    cluster: Cluster, step: int
) -> None:
    """Nothing is read from the new table before, so nothing acked there is carried over again."""
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()
    node.gate.at(RECORD, node.gate.hold)
    agent = cluster.connect(node)
    await cluster.quiet()
    message = cluster.message()
    push = asyncio.ensure_future(endpoint.push(message))
    await cluster.quiet()
    await push

    async def overloaded() -> None:
        raise Throttled("full")

    node.gate.release()
    node.gate.at(1 + step, overloaded)  # query, get, put, delete
    assert await cluster.acked(agent) == []
    assert not agent.connection.is_open
    node.gate.release()
    again = cluster.connect(node)
    assert await cluster.acked(again) == [message.version]
    await is_moved(cluster)


@pytest.mark.parametrize("applied", [False, True], ids=["refused", "reply lost"])
@pytest.mark.parametrize("step", range(3, 6), ids=CALLS[3:6])
async def test_a_store_that_fails_during_a_move_closes_and_the_next_connect_completes_it(
    everywhere: Cluster, step: int, applied: bool
) -> None:
    cluster = everywhere
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
    agent = cluster.connect(node)
    await cluster.quiet()
    assert closed_with(agent) == 1011
    node.gate.release()
    message = cluster.message()
    await node.push(message)
    again = cluster.connect(node)
    assert await cluster.acked(again) == [message.version]
    await is_moved(cluster)


# ── tables that come and go ─────────────────────────────────────────────────────────────────────


async def test_a_node_whose_clock_is_behind_knows_users_that_another_has_moved(
    everywhere: Cluster,
) -> None:
    cluster = everywhere
    behind = ManualClock(at(2026, 11, 29))
    cluster.clock.now = at(2026, 11, 29)
    late = await cluster.add(ONE, clock=behind)
    cluster.clock.now = at(2026, 12, 1)
    node = await cluster.add(TWO)
    await cluster.known_user(NOVEMBER)
    first = await connected(cluster, node)
    assert (await cluster.record()).current_month == DECEMBER
    first.leave()
    message = cluster.message()
    push = asyncio.ensure_future(late.push(message))
    await cluster.quiet()
    assert await push is Outcome.STORED
    assert await cluster.stored(DECEMBER) == [message.version]
    agent = cluster.connect(late)
    assert await cluster.acked(agent) == [message.version]
    assert agent.connection.messages.name == DECEMBER
    assert (await cluster.record()).current_month == DECEMBER


async def test_a_user_whose_table_was_dropped_gets_a_new_uaid_at_hello(
    everywhere: Cluster,
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE)
    await cluster.known_user()
    await node.store.is_gone("message_2001_01")
    await cluster.engine.drop_table(OCTOBER)
    agent = cluster.connect(node)
    await cluster.quiet()
    assert closed_with(agent) == 1000  # found out when it was to be drained
    again = cluster.connect(node)
    await cluster.quiet()
    (hello,) = again.heard()
    assert isinstance(hello, dict)
    assert hello["uaid"] != UAID
    assert await node.store.users.get(UAID) is None
    again.register()
    await cluster.quiet()
    assert (await cluster.record(hello["uaid"])).current_month == NOVEMBER


@pytest.mark.parametrize("kind", ["register", "unregister", "check"])
async def test_a_table_dropped_under_a_connection_ends_it_and_its_user(
    everywhere: Cluster, kind: str
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = await connected(cluster, node)
    await cluster.engine.drop_table(NOVEMBER)
    if kind == "check":
        agent.connection.check_storage()
    else:
        agent.say(messageType=kind, channelID=CHANNEL)
    await cluster.quiet()
    assert closed_with(agent) == 1000
    assert await node.store.users.get(UAID) is None
    again = cluster.connect(node)
    await cluster.quiet()
    (hello,) = again.heard()
    assert isinstance(hello, dict)
    assert hello["uaid"] != UAID
    again.register()
    await cluster.quiet()
    (registered,) = again.heard()
    assert isinstance(registered, dict)
    assert registered["status"] == 200


async def test_a_record_of_a_table_nobody_has_is_dropped_at_hello(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user("message_2026_01")
    await cluster.engine.drop_table("message_2026_01")
    agent = cluster.connect(node)
    await cluster.quiet()
    (hello,) = agent.heard()
    assert isinstance(hello, dict)
    assert hello["uaid"] != UAID
    assert await node.store.users.get(UAID) is None


async def test_an_unanswered_look_for_a_table_drops_nobody(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(DECEMBER)

    async def overloaded() -> list[str]:
        raise Throttled("full")

    monkeypatch.setattr(cluster.engine, "table_names", overloaded)
    agent = cluster.connect(node)
    await cluster.quiet()
    await cluster.pass_time(9)
    assert closed_with(agent) == 1013
    monkeypatch.undo()
    again = cluster.connect(node)
    await cluster.quiet()
    (hello,) = again.heard()
    assert isinstance(hello, dict)
    assert hello["uaid"] == UAID


# ── months pass ─────────────────────────────────────────────────────────────────────────────────


async def test_without_rotation_users_of_other_tables_move_to_the_frozen_one(
    cluster: Cluster,
) -> None:
    for name in (OCTOBER, NOVEMBER):
        await cluster.engine.ensure_table(message_table(name))
    node = await cluster.add(ONE, plan=TablePlan())
    await cluster.known_user()
    message = cluster.message()
    await node.push(message)
    agent = cluster.connect(node)
    assert await cluster.acked(agent) == [message.version]
    await is_moved(cluster)
    await cluster.turn_month(at(2027, 2, 1))
    agent.leave()
    await connected(cluster, node)
    assert (await cluster.record()).current_month == NOVEMBER
    assert DECEMBER not in await cluster.engine.table_names()


async def test_a_connected_user_stays_in_its_month_when_the_month_turns(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = await connected(cluster, node)
    await cluster.turn_month(at(2026, 12, 1))
    await cluster.pass_time(3600)
    assert (await cluster.record()).current_month == NOVEMBER
    message = cluster.message()
    assert await node.push(message) is Outcome.DELIVERED
    assert await cluster.acked(agent) == [message.version]
    agent.leave()
    await connected(cluster, node)
    assert (await cluster.record()).current_month == DECEMBER


async def test_a_connection_that_lasts_for_months_is_moved_before_its_table_is_forgotten(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = await connected(cluster, node)
    newcomer = cluster.connect(node, None)
    await cluster.quiet()
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
    assert await cluster.acked(agent) == [message.version]
    assert await push is Outcome.DELIVERED
    for connection in (agent.connection, newcomer.connection):
        assert connection.is_open
    newcomer.heard()
    newcomer.register()
    await cluster.quiet()
    record = await cluster.record(newcomer.uaid)
    assert record.current_month == "message_2027_01"
    assert len(cluster.wheel) == 0


async def test_two_months_turn_under_traffic_and_every_message_arrives_once(
    everywhere: Cluster,
) -> None:
    cluster = everywhere
    nodes = [await cluster.add(ONE), await cluster.add(TWO, store_first=False)]
    endpoint = await cluster.add(THREE, store_first=False)
    users = [f"{number:032x}" for number in range(6)]
    for uaid in users:
        await cluster.known_user(NOVEMBER, uaid=uaid)
    agents: dict[str, UserAgent] = {}
    sent: list[str] = []
    received: list[str] = []

    async def collect() -> None:
        for agent in agents.values():
            received.extend(await cluster.acked(agent))

    days = [at(2026, 11, 28) + day * 86_400 for day in range(0, 40, 2)]
    days += [at(2026, 12, 1, 0, 1), at(2027, 1, 1, 0, 1)]
    for number, day in enumerate(sorted(days)):
        await cluster.turn_month(day)
        for index, uaid in enumerate(users):
            message = cluster.message(uaid)
            push = asyncio.ensure_future([*nodes, endpoint][(number + index) % 3].push(message))
            await cluster.quiet()
            await push
            sent.append(message.version)
        for index, uaid in enumerate(users):
            # One is always connected, the others for some of the days, on either node.
            if index and (number + index) % 3 == 0 and uaid in agents:
                await collect()
                agents.pop(uaid).leave()
            elif uaid not in agents and (number + index) % 3 == 1:
                agents[uaid] = cluster.connect(nodes[(number * index) % 2], uaid)
        if number % 4 == 0:
            await collect()
    for uaid in users:
        agents[uaid] = cluster.connect(nodes[0], uaid)
    await collect()
    assert sorted(received) == sorted(sent)
    for uaid in users:
        assert (await cluster.record(uaid)).current_month == "message_2027_01"
        assert await cluster.channels("message_2027_01", uaid) == {CHANNEL}
    for table in (NOVEMBER, DECEMBER, "message_2027_01"):
        assert await cluster.stored(table) == []


async def test_a_clock_that_leaps_a_month_and_back_loses_nothing(everywhere: Cluster) -> None:
    cluster = everywhere
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
            push = asyncio.ensure_future(endpoint.push(message))
            await cluster.quiet()
            await push
            sent.append(message.version)
        for place in (other, node):
            agent = cluster.connect(place)
            received += await cluster.acked(agent)
            agent.leave()
            await cluster.quiet()
    assert sorted(received) == sorted(sent)
    assert (await cluster.record()).current_month == DECEMBER
