"""The endpoint's share when users move from month to month, and when their table is gone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopush.routing.webpush import Outcome
from autopush.store.tables import message_table
from autopush.webpush.errors import PushError
from keytables import KeytablesError, Throttled, Unavailable
from support import engines
from support.clocks import ManualClock
from support.connection_house import CHANNEL, UAID
from support.month_cluster import DECEMBER, NOVEMBER, OCTOBER, ONE, TWO, Cluster, Node

BOTH = pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])


@pytest.fixture(params=engines.EVERY)
async def everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    clock = ManualClock()
    async with engines.engine(request.param, tmp_path, clock) as engine:
        yield Cluster(engine, clock)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    clock = ManualClock()
    async with engines.engine("memory", tmp_path, clock) as engine:
        yield Cluster(engine, clock)


async def refusal(node: Node, cluster: Cluster) -> tuple[int, int | None]:
    """Status and errno of a push that is refused."""
    with pytest.raises(PushError) as caught:
        await node.push(cluster.message())
    return caught.value.status, caught.value.errno


async def has_record(node: Node) -> bool:
    return await node.store.users.get(UAID) is not None


# ── into which table ────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("table", [OCTOBER, NOVEMBER])
async def test_a_message_is_stored_in_the_table_its_users_record_names(
    everywhere: Cluster, store_first: bool, table: str
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user(table)
    message = cluster.message()
    assert await node.push(message) is Outcome.STORED
    assert await cluster.stored(table) == [message.version]
    assert await cluster.channels(NOVEMBER) == ({CHANNEL} if table == NOVEMBER else set())


@BOTH
async def test_a_channel_is_looked_for_in_that_table_and_no_other(
    cluster: Cluster, store_first: bool
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user(OCTOBER, channels=False)
    await node.store.current.add_channel(UAID, CHANNEL)
    assert await refusal(node, cluster) == (410, 106)
    assert await has_record(node)


@BOTH
@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_message_whose_user_is_moved_while_it_is_stored_follows(
    everywhere: Cluster, store_first: bool, topic: str | None
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()

    async def move() -> None:
        await cluster.edit_record(current_month=NOVEMBER)

    node.gate.at(3, move)  # after the record and the channels were read and the message stored
    message = cluster.message(topic=topic)
    assert await node.push(message) is Outcome.STORED
    assert node.gate.calls[:4] == [
        "get router",
        f"get {OCTOBER}",
        f"put {OCTOBER}",
        "get router",
    ]
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == (
        [],
        [message.version],
    )


async def test_a_message_that_the_connection_node_took_along_is_not_put_back(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()

    async def move_and_ack() -> None:
        await cluster.edit_record(current_month=NOVEMBER)
        table = await cluster.engine.ensure_table(message_table(OCTOBER))
        await table.delete((UAID, message.sort_key))

    message = cluster.message()
    node.gate.at(3, move_and_ack)
    await node.push(message)
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == ([], [])


@pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")], ids=["full", "gone"])
async def test_a_message_whose_user_may_have_moved_unseen_is_not_answered_as_stored(
    cluster: Cluster, error: KeytablesError
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()

    async def fail() -> None:
        raise error

    node.gate.at(3, fail)
    with pytest.raises(type(error)):
        await node.push(cluster.message())


@pytest.mark.parametrize("step", [4, 5, 6])
async def test_a_message_that_cannot_follow_is_not_answered_as_stored(
    cluster: Cluster, step: int
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()

    async def trouble(number: int, what: str) -> None:
        if number == 3:
            await cluster.edit_record(current_month=NOVEMBER)
        if number == step:
            raise Throttled("full")

    node.gate.start_counting()
    node.gate.before = trouble
    with pytest.raises(Throttled):
        await node.push(cluster.message())
    assert (
        node.gate.calls[4:]
        == [f"get {OCTOBER}", f"put {NOVEMBER}", f"delete {OCTOBER}"][: step - 3]
    )


async def test_where_the_user_cannot_have_moved_an_unread_record_leaves_the_message_stored(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)

    async def fail() -> None:
        raise Throttled("full")

    node.gate.at(3, fail)
    message = cluster.message()
    assert await node.push(message) is Outcome.STORED
    assert await cluster.stored(NOVEMBER) == [message.version]


async def test_a_message_follows_into_a_month_this_endpoint_does_not_know(
    everywhere: Cluster,
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)

    async def move() -> None:
        await cluster.known_user(DECEMBER)

    node.gate.at(3, move)
    message = cluster.message()
    assert await node.push(message) is Outcome.STORED
    assert await cluster.stored(DECEMBER) == [message.version]


# ── handed over ─────────────────────────────────────────────────────────────────────────────────


async def test_a_message_handed_over_names_the_table_it_is_stored_in(cluster: Cluster) -> None:
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user(NOVEMBER)
    agent = cluster.connect(node)
    await cluster.acked(agent)
    message = cluster.message()
    push = asyncio.ensure_future(endpoint.push(message))
    assert await cluster.acked(agent) == [message.version]
    assert await push is Outcome.DELIVERED
    assert message.stored == NOVEMBER
    assert await cluster.stored(NOVEMBER) == []


async def test_a_message_stored_in_another_table_than_its_user_has_is_delivered_once_it_followed(
    cluster: Cluster,
) -> None:
    node, endpoint = await cluster.add(ONE), await cluster.add(TWO)
    await cluster.known_user()
    endpoint.gate.at(2, endpoint.gate.hold)  # it has read the old record
    message = cluster.message()
    push = asyncio.ensure_future(endpoint.push(message))
    await cluster.quiet()
    await cluster.edit_record(node_id=ONE)
    agent = cluster.connect(node)
    assert await cluster.acked(agent) == []
    assert agent.connection.messages.name == NOVEMBER
    endpoint.gate.release()
    assert await cluster.acked(agent) == [message.version]
    await push
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == ([], [])


# ── tables that are gone ────────────────────────────────────────────────────────────────────────


@BOTH
async def test_a_push_to_a_user_of_a_table_nobody_has_is_410_106_and_drops_it(
    everywhere: Cluster, store_first: bool
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user("message_2026_01")
    await cluster.engine.drop_table("message_2026_01")
    assert await refusal(node, cluster) == (410, 106)
    assert not await has_record(node)
    assert await refusal(node, cluster) == (410, 103)


@BOTH
@pytest.mark.parametrize("table", [OCTOBER, NOVEMBER])
async def test_a_push_into_a_table_that_was_dropped_is_410_106_and_drops_the_user(
    everywhere: Cluster, store_first: bool, table: str
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user(table)
    await cluster.engine.drop_table(table)
    assert await refusal(node, cluster) == (410, 106)
    assert not await has_record(node)
    known = {messages.name for messages in node.store.tables}
    assert (table in known) is (table == NOVEMBER), "this month's is made anew"


@BOTH
async def test_a_table_that_goes_between_looking_and_storing_is_410_106_too(
    everywhere: Cluster, store_first: bool
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()

    async def drop() -> None:
        await cluster.engine.drop_table(OCTOBER)

    node.gate.at(2, drop)
    assert await refusal(node, cluster) == (410, 106)
    assert not await has_record(node)


@BOTH
async def test_a_user_that_moves_while_its_old_table_is_dropped_is_503_and_stays(
    everywhere: Cluster, store_first: bool
) -> None:
    cluster = everywhere
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()

    async def move_and_drop() -> None:
        await cluster.edit_record(current_month=NOVEMBER)
        await cluster.engine.drop_table(OCTOBER)

    node.gate.at(1, move_and_drop)  # the record was read, and its channels not yet
    with pytest.raises(Unavailable):
        await node.push(cluster.message())
    assert await has_record(node)


async def test_a_connected_user_whose_table_was_dropped_is_sent_away(everywhere: Cluster) -> None:
    cluster = everywhere
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = cluster.connect(node)
    await cluster.acked(agent)
    await cluster.engine.drop_table(NOVEMBER)
    assert await refusal(node, cluster) == (410, 106)
    assert not await has_record(node)
    await cluster.quiet()
    assert not agent.connection.here


async def test_a_table_that_was_made_anew_costs_nobody_its_user(everywhere: Cluster) -> None:
    cluster = everywhere
    node = await cluster.add(ONE)
    await cluster.known_user()
    await cluster.engine.drop_table(OCTOBER)
    await cluster.known_user()  # makes it again
    try:
        await node.push(cluster.message())
    except KeytablesError:  # what it had opened is gone
        assert await node.push(cluster.message()) is Outcome.STORED
    assert await has_record(node)


async def test_a_missing_router_table_drops_nobody(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    await cluster.engine.drop_table("router")
    with pytest.raises(KeytablesError):
        await node.push(cluster.message())
    assert [messages.name for messages in node.store.tables] == [OCTOBER, NOVEMBER]
