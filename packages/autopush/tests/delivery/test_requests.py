"""The requests of sessions to the store: UAIDs, router records, duplicates, channels."""

import asyncio
import gc

import pytest

from autopush.protocol.effects import ReadStored
from autopush.store import UserRecord
from autopush.store.messages import PAGE, row_of
from autopush.webpush.stored import StoredPage
from keytables import StorageFull, Throttled, Unavailable
from support.connection_harness import CHANNEL, NODE, OTHER, OTHER_NODE, UAID, Harness
from support.month_cluster import NOVEMBER, ONE, Cluster

THROTTLED, UNAVAILABLE = Throttled("full"), Unavailable("gone")

# ── UAIDs and records ───────────────────────────────────────────────────────────────────────────


async def test_an_unknown_uaid_is_never_adopted(harness: Harness) -> None:
    agent = await harness.identified(UAID)
    assert agent.uaid != UAID
    assert harness.registry.find(UAID) is None
    assert harness.engine.calls == ["get router"]


async def test_nothing_is_written_for_a_new_user_before_it_registers(harness: Harness) -> None:
    agent = await harness.identified()
    assert harness.engine.calls == []
    assert harness.registry.find(agent.uaid) is agent.connection
    agent.register()
    await harness.run_until_idle()
    assert sorted(harness.engine.calls) == ["update message", "update router"]
    record = await harness.record(agent.uaid)
    assert record.node_id == NODE
    assert record.connected_at == agent.connection.connected_at == int(harness.clock() * 1000)
    assert record.current_month == "message"
    assert await harness.store.current.channels(agent.uaid) == {CHANNEL}


async def test_the_channels_of_a_known_user_are_read_with_its_stored_messages(
    harness: Harness,
) -> None:
    await harness.known_user()
    agent = await harness.identified(UAID)
    assert agent.connection.is_subscribed(CHANNEL)
    assert not agent.connection.is_subscribed(OTHER)


@pytest.mark.parametrize("version", [None, 0])
async def test_a_record_of_an_old_version_is_reset_once_its_messages_are_acked(
    harness: Harness, version: int | None
) -> None:
    await harness.known_user()
    harness.change_record(record_version=version)
    await harness.store_message()
    agent = await harness.hello()
    hello, notification = agent.received()
    assert isinstance(hello, dict)
    assert hello["uaid"] == UAID
    assert harness.users() == [UAID]
    agent.ack(notification)
    await harness.run_until_idle()
    assert agent.close_code() == 1000
    assert harness.users() == []
    assert await harness.store.current.channels(UAID) == frozenset()


async def test_an_unusable_record_is_not_dropped_when_its_user_connects_elsewhere(
    harness: Harness,
) -> None:
    await harness.known_user()
    harness.change_record(current_month="message_2001_01")
    router = harness.engine.tables["router"].items

    def connect_elsewhere() -> None:
        router[UAID,] = {**router[UAID,], "connected_at": 6, "current_month": "message"}

    harness.engine.before("delete router", connect_elsewhere)
    agent = await harness.identified(UAID)
    assert agent.uaid != UAID
    assert harness.users() == [UAID]
    assert await harness.store.current.channels(UAID) == {CHANNEL}


async def test_the_record_of_a_user_behind_a_bridge_is_kept(harness: Harness) -> None:
    await harness.known_user()
    harness.change_record(router_type="fcm", current_month=None)
    agent = await harness.identified(UAID)
    assert agent.uaid != UAID
    assert harness.users() == [UAID]


# ── connected_at ────────────────────────────────────────────────────────────────────────────────


async def test_connected_at_is_the_time_the_socket_was_opened(harness: Harness) -> None:
    await harness.known_user()
    agent = harness.connect()
    opened = int(harness.clock() * 1000)
    await harness.pass_time(10)
    agent.hello(UAID)
    await harness.run_until_idle()
    assert agent.connection.connected_at == opened
    assert (await harness.record()).connected_at == opened


@pytest.mark.parametrize("ahead", [0, 1, 3_600_000])
async def test_connected_at_is_later_than_the_recorded_one_whatever_the_clocks_say(
    harness: Harness, ahead: int
) -> None:
    stored = int(harness.clock() * 1000) + ahead
    await harness.known_user(connected_at=stored)
    agent = await harness.identified(UAID)
    assert agent.connection.connected_at == stored + 1
    assert (await harness.record()).connected_at == stored + 1


async def test_of_two_connections_of_one_millisecond_the_later_hello_wins(harness: Harness) -> None:
    await harness.known_user()
    first = await harness.identified(UAID)
    second = await harness.identified(UAID)
    assert first.close_code() == 1000
    assert harness.registry.find(UAID) is second.connection
    assert second.connection.connected_at == first.connection.connected_at + 1
    assert (await harness.record()).connected_at == second.connection.connected_at


async def test_a_hello_that_races_with_one_on_another_node_is_retried(harness: Harness) -> None:
    await harness.known_user()
    now = int(harness.clock() * 1000)
    harness.engine.before("update router", lambda: harness.change_record(connected_at=now + 50))
    agent = await harness.identified(UAID)
    assert agent.connection.connected_at == now + 51
    assert (await harness.record()).node_id == NODE


async def test_a_hello_that_keeps_losing_the_race_is_closed_with_1013(harness: Harness) -> None:
    await harness.known_user()
    now = int(harness.clock() * 1000)

    def moving(step: int) -> None:
        harness.engine.before(
            "update router", lambda: harness.change_record(connected_at=now + 1000 * step)
        )

    for step in range(1, 6):
        moving(step)
    agent = await harness.hello()
    await harness.pass_time(9)
    assert agent.close_code() == 1013
    assert harness.registry.find(UAID) is None
    assert (await harness.record()).node_id == OTHER_NODE


async def test_a_user_that_is_dropped_while_it_connects_becomes_a_new_one(harness: Harness) -> None:
    await harness.known_user()
    router = harness.engine.tables["router"].items
    harness.engine.before("update router", router.clear)
    agent = await harness.identified(UAID)
    assert agent.uaid != UAID
    assert harness.users() == []
    assert harness.registry.find(UAID) is None
    assert harness.registry.find(agent.uaid) is agent.connection


# ── duplicates ──────────────────────────────────────────────────────────────────────────────────


async def test_the_node_of_an_older_connection_is_called_to_end_it(harness: Harness) -> None:
    await harness.known_user(connected_at=1234)
    await harness.identified(UAID)
    assert harness.nodes.calls == [("end", OTHER_NODE, UAID, 1234)]


async def test_every_node_read_from_the_record_is_called_to_end_its_connection(
    harness: Harness,
) -> None:
    await harness.known_user(connected_at=1234)
    now = int(harness.clock() * 1000)
    harness.engine.before(
        "update router",
        lambda: harness.change_record(node_id="http://three:8081", connected_at=now + 50),
    )
    await harness.identified(UAID)
    assert sorted(harness.nodes.calls) == [
        ("end", "http://three:8081", UAID, now + 50),
        ("end", OTHER_NODE, UAID, 1234),
    ]


async def test_after_a_lost_reply_the_replaced_node_is_still_called(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.known_user(connected_at=1234)
    connect = harness.store.users.connect

    async def answer_of_the_second_try(
        record: UserRecord, node_id: str, connected_at: int, *_: object
    ) -> UserRecord:
        await connect(record, node_id, connected_at)
        return await harness.record()

    monkeypatch.setattr(harness.store.users, "connect", answer_of_the_second_try)
    await harness.identified(UAID)
    assert harness.nodes.calls == [("end", OTHER_NODE, UAID, 1234)]


async def test_storage_is_read_only_when_the_other_node_has_finished(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.known_user()
    finished = asyncio.get_running_loop().create_future()

    async def end_duplicate(node_id: str, uaid: str, connected_at: int) -> None:
        await finished

    monkeypatch.setattr(harness.nodes, "end_duplicate", end_duplicate)
    agent = await harness.hello()
    assert harness.engine.calls == ["get router", "update router"]
    assert agent.received() == []
    message = await harness.store_message()  # saved by the other node
    finished.set_result(None)
    await harness.run_until_idle()
    assert agent.versions() == [message.version]


@pytest.mark.parametrize("node_id", [NODE, None])
async def test_no_node_is_called_if_there_is_no_other(
    harness: Harness, node_id: str | None
) -> None:
    await harness.known_user()
    harness.change_record(node_id=node_id)
    await harness.identified(UAID)
    assert harness.nodes.calls == []


# ── reads ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_page_without_its_acked_rows_keeps_everything_else(harness: Harness) -> None:
    agent = await harness.subscribed()
    messages = [await harness.store_message(agent.uaid) for _ in range(12)]
    execute = harness.node.requests.execute
    whole = await execute(agent.connection, ReadStored(None))
    assert isinstance(whole, StoredPage)
    assert whole.last is not None
    harness.engine.fail("delete message", THROTTLED)
    acked = [row_of(messages[0])]
    harness.node.background.delete_acked(harness.store.current, agent.uaid, acked)
    assert await execute(agent.connection, ReadStored(None)) == StoredPage(
        whole.messages[1:], whole.last, whole.channels, whole.read_to
    )


# ── the store fails ─────────────────────────────────────────────────────────────────────────────

BY_KIND = pytest.mark.parametrize(
    ("error", "code"),
    [(UNAVAILABLE, 1013), (StorageFull("disk full"), 1013), (RuntimeError("a bug"), 1011)],
    ids=["unavailable", "full", "bug"],
)


@BY_KIND
@pytest.mark.parametrize("call", ["get router", "update router"])
async def test_a_hello_the_store_cannot_serve_closes_without_a_reply(
    harness: Harness, error: Exception, code: int, call: str
) -> None:
    await harness.known_user()
    harness.engine.fail(call, error)
    agent = await harness.hello()
    await harness.pass_time(8)
    assert agent.close_code() == code
    assert harness.registry.find(UAID) is None
    assert (await harness.record()).node_id == OTHER_NODE


@BY_KIND
async def test_a_record_that_cannot_be_dropped_closes(
    harness: Harness, error: Exception, code: int
) -> None:
    await harness.known_user()
    harness.change_record(current_month=None)
    harness.engine.fail("delete router", error)
    agent = await harness.hello()
    await harness.pass_time(8)
    assert agent.close_code() == code


@pytest.mark.parametrize("error", [THROTTLED, UNAVAILABLE], ids=["throttled", "unavailable"])
@pytest.mark.parametrize("call", ["update message", "update router"])
async def test_a_register_the_store_refuses_is_503_and_may_be_repeated(
    harness: Harness, error: Exception, call: str
) -> None:
    agent = await harness.identified()
    harness.engine.fail(call, error)
    agent.register()
    await harness.run_until_idle()
    refused = agent.reply()
    assert (refused["messageType"], refused["status"]) == ("register", 503)
    assert refused["channelID"] == CHANNEL
    assert "pushEndpoint" not in refused
    assert not agent.connection.is_subscribed(CHANNEL)
    agent.register()
    await harness.run_until_idle()
    assert agent.reply()["status"] == 200
    assert harness.users() == [agent.uaid]
    assert await harness.store.current.channels(agent.uaid) == {CHANNEL}


@pytest.mark.parametrize("error", [THROTTLED, UNAVAILABLE], ids=["throttled", "unavailable"])
async def test_an_unregister_the_store_refuses_is_503_and_may_be_repeated(
    harness: Harness, error: Exception
) -> None:
    agent = await harness.subscribed()
    harness.engine.fail("update message", error)
    agent.send_json(messageType="unregister", channelID=CHANNEL)
    await harness.run_until_idle()
    refused = agent.reply()
    assert (refused["messageType"], refused["status"]) == ("unregister", 503)
    assert agent.connection.is_subscribed(CHANNEL)
    agent.send_json(messageType="unregister", channelID=CHANNEL)
    await harness.run_until_idle()
    assert agent.received() == [{"messageType": "unregister", "channelID": CHANNEL, "status": 200}]


async def test_two_store_failures_at_once_leave_no_unretrieved_exception(harness: Harness) -> None:
    unseen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    agent = await harness.identified()
    harness.engine.fail("update message", UNAVAILABLE)
    harness.engine.fail("update router", UNAVAILABLE)
    agent.register()
    await harness.run_until_idle()
    gc.collect()
    assert agent.reply()["status"] == 503
    assert unseen == []


async def test_a_message_of_a_channel_that_is_not_subscribed_is_deleted_by_a_list_read_after_it(
    cluster: Cluster,
) -> None:
    one = await cluster.add(ONE)
    await cluster.known_user(NOVEMBER)
    messages = [cluster.message() for _ in range(PAGE + 3)]
    messages[-1].channel_id = OTHER
    for message in messages:
        await one.store.current.store(message)
    agent = cluster.connect(one)
    received = await cluster.receive_all(agent)
    assert sorted(received) == sorted(message.version for message in messages[:-1])
    assert await cluster.stored(NOVEMBER) == []
