"""Messages to users that change to the table of another month, and to users whose table is gone."""

import pytest

from autopush.delivery.calls import Outcome
from autopush.store.tables import message_table
from autopush.webpush.errors import PushError
from keytables import KeytablesError, Throttled, Unavailable
from support.connection_harness import CHANNEL, UAID
from support.month_cluster import EVERY_ENGINE, NOVEMBER, OCTOBER, ONE, Cluster, Node

BOTH = pytest.mark.parametrize("store_first", [True, False], ids=["store-first", "bypass"])


async def refusal(node: Node, cluster: Cluster) -> tuple[int, int | None]:
    """Status and errno of a push that is refused."""
    with pytest.raises(PushError) as caught:
        await node.push(cluster.message())
    return caught.value.status, caught.value.errno


async def has_record(node: Node) -> bool:
    return await node.store.users.get(UAID) is not None


# ── which table ─────────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("table", [OCTOBER, NOVEMBER])
async def test_a_message_is_stored_in_the_table_its_users_record_names(
    cluster: Cluster, store_first: bool, table: str
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user(table)
    message = cluster.message()
    assert await node.push(message) is Outcome.STORED
    assert await cluster.stored(table) == [message.version]
    assert await cluster.channels(NOVEMBER) == ({CHANNEL} if table == NOVEMBER else set())


@BOTH
@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_message_follows_a_user_that_changes_tables_while_it_is_stored(
    cluster: Cluster, store_first: bool, topic: str | None
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()

    async def change_table() -> None:
        await cluster.change_record(current_month=NOVEMBER)

    node.gate.at(
        3, change_table
    )  # after the record and the channels were read and the message stored
    message = cluster.message(topic=topic)
    assert await node.push(message) is Outcome.STORED
    assert node.gate.calls[:4] == ["get router", f"get {OCTOBER}", f"put {OCTOBER}", "get router"]
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == (
        [],
        [message.version],
    )


async def test_a_message_that_the_connection_node_carried_over_is_not_stored_again(
    cluster: Cluster,
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()

    async def change_and_ack() -> None:
        await cluster.change_record(current_month=NOVEMBER)
        table = await cluster.engine.ensure_table(message_table(OCTOBER))
        await table.delete((UAID, message.sort_key))

    message = cluster.message()
    node.gate.at(3, change_and_ack)
    await node.push(message)
    assert (await cluster.stored(OCTOBER), await cluster.stored(NOVEMBER)) == ([], [])


@pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")], ids=["full", "gone"])
async def test_if_the_record_cannot_be_read_again_the_message_is_an_error(
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
async def test_a_message_that_cannot_follow_its_user_is_an_error(
    cluster: Cluster, step: int
) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()

    async def fault(number: int, what: str) -> None:
        if number == 3:
            await cluster.change_record(current_month=NOVEMBER)
        if number == step:
            raise Throttled("full")

    node.gate.start_counting()
    node.gate.before = fault
    with pytest.raises(Throttled):
        await node.push(cluster.message())
    assert (
        node.gate.calls[4:]
        == [f"get {OCTOBER}", f"put {NOVEMBER}", f"delete {OCTOBER}"][: step - 3]
    )


async def test_if_the_user_cannot_have_changed_tables_the_message_counts_as_stored(
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


# ── dropped tables ──────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("table", [OCTOBER, NOVEMBER])
async def test_a_push_into_a_table_that_was_dropped_is_410_106_and_drops_the_user(
    cluster: Cluster, store_first: bool, table: str
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user(table)
    await cluster.engine.drop_table(table)
    assert await refusal(node, cluster) == (410, 106)
    assert not await has_record(node)
    known = {messages.name for messages in node.store.tables}
    assert (table in known) is (table == NOVEMBER), "this month's table is created again"


@BOTH
@EVERY_ENGINE
async def test_a_table_dropped_between_the_read_and_the_write_is_410_106_too(
    cluster: Cluster, store_first: bool
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()

    async def drop() -> None:
        await cluster.engine.drop_table(OCTOBER)

    node.gate.at(2, drop)
    assert await refusal(node, cluster) == (410, 106)
    assert not await has_record(node)


@BOTH
async def test_a_user_that_changes_while_its_old_table_is_dropped_is_503_and_kept(
    cluster: Cluster, store_first: bool
) -> None:
    node = await cluster.add(ONE, store_first=store_first)
    await cluster.known_user()

    async def change_and_drop() -> None:
        await cluster.change_record(current_month=NOVEMBER)
        await cluster.engine.drop_table(OCTOBER)

    node.gate.at(1, change_and_drop)  # the record was read, and its channels not yet
    with pytest.raises(Unavailable):
        await node.push(cluster.message())
    assert await has_record(node)


async def test_a_connected_user_whose_table_was_dropped_is_disconnected(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    agent = cluster.connect(node)
    await cluster.receive_all(agent)
    await cluster.engine.drop_table(NOVEMBER)
    assert await refusal(node, cluster) == (410, 106)
    assert not await has_record(node)
    await cluster.run_until_idle()
    assert not agent.connection.is_connected


@EVERY_ENGINE
async def test_a_table_that_was_created_again_drops_no_user(cluster: Cluster) -> None:
    node = await cluster.add(ONE)
    await cluster.known_user()
    await cluster.engine.drop_table(OCTOBER)
    await cluster.known_user()  # makes it again
    try:
        await node.push(cluster.message())
    except KeytablesError:  # what it had opened is gone
        assert await node.push(cluster.message()) is Outcome.STORED
    assert await has_record(node)
