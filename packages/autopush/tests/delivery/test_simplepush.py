"""Connections of SimplePush: their records, versions that are sent, acked and saved, node calls."""

import pytest

from autopush.net.http_messages import Response
from autopush.store.users import SIMPLEPUSH, WEBPUSH
from autopush.webpush.notification import Notification, VersionUpdate
from keytables import TableNotFound, Throttled, Unavailable
from support.connection_harness import (
    CHANNEL,
    ENDPOINT,
    NODE,
    OTHER,
    OTHER_NODE,
    UAID,
    Harness,
    UserAgent,
)
from support.node_server import answer_over_http

OLD = {"use_webpush": False}
HOST = {"ip": "192.0.2.7", "port": 4711}
WAKE_DATA = {"ip": "192.0.2.7", "port": "4711", "mcc": "", "mnc": "", "netid": ""}


def update(number: int, uaid: str = UAID, channel: str = CHANNEL) -> VersionUpdate:
    return VersionUpdate.of(uaid, channel, number)


async def known_user(harness: Harness, *, connected_at: int = 5) -> None:
    """Add a user of SimplePush that was connected to another node."""
    await harness.store.users.create_simplepush(UAID, OTHER_NODE, connected_at, None)
    harness.engine.calls.clear()


def versions(agent: UserAgent) -> list[int]:
    """The versions of all updates received; every other message is discarded."""
    return [
        each["version"]
        for message in agent.received()
        if isinstance(message, dict) and message["messageType"] == "notification"
        for each in message["updates"]
    ]


def ack(agent: UserAgent, *numbers: int, channel: str = CHANNEL) -> None:
    updates = [{"channelID": channel, "version": number} for number in numbers]
    agent.send_json(messageType="ack", updates=updates)


# ── records ─────────────────────────────────────────────────────────────────────────────────────


async def test_only_the_first_register_writes_and_it_writes_the_user_only(harness: Harness) -> None:
    agent = await harness.identified(None, **OLD)
    assert harness.engine.calls == []
    for channel in (CHANNEL, OTHER):
        agent.register(channel)
        await harness.run_until_idle()
        reply = agent.reply()
        assert reply["status"] == 200
        assert reply["pushEndpoint"].startswith(f"{ENDPOINT}/spush/v1/")
    assert harness.engine.calls == ["update router"]
    record = await harness.record(agent.uaid)
    assert (record.router_type, record.current_month) == (SIMPLEPUSH, None)
    assert (record.node_id, record.connected_at) == (NODE, agent.connection.connected_at)


async def test_a_register_that_could_not_write_the_user_is_refused_and_repeatable(
    harness: Harness,
) -> None:
    agent = await harness.identified(None, **OLD)
    harness.engine.fail("update router", Throttled("full"))
    for status in (503, 200):
        agent.register()
        await harness.run_until_idle()
        assert agent.reply()["status"] == status


async def test_a_known_user_keeps_its_uaid_at_the_cost_of_three_storage_calls(
    harness: Harness,
) -> None:
    await known_user(harness)
    agent = await harness.identified(UAID, **OLD)
    assert agent.uaid == UAID
    assert harness.engine.calls == ["get router", "update router", "query storage"]
    assert harness.nodes.calls == [("end", OTHER_NODE, UAID, 5)]


async def test_wake_data_is_written_with_the_record(harness: Harness) -> None:
    agent = await harness.subscribed(**OLD, wakeup_host=HOST)
    assert (await harness.record(agent.uaid)).wake_data == WAKE_DATA
    await known_user(harness)
    await harness.identified(UAID, **OLD, wakeup_host=HOST)
    assert (await harness.record()).wake_data == WAKE_DATA


@pytest.mark.parametrize("use_webpush", [True, False])
async def test_a_hello_of_the_other_protocol_drops_the_record_and_all_of_the_user(
    harness: Harness, use_webpush: bool
) -> None:
    if use_webpush:
        await known_user(harness)
        await harness.store.versions.store(update(3))
    else:
        await harness.known_user()
    agent = await harness.identified(UAID, use_webpush=use_webpush)
    assert agent.uaid != UAID
    assert harness.users() == []
    assert harness.stored_updates() == {}
    assert await harness.store.current.channels(UAID) == frozenset()
    agent.register()
    await harness.run_until_idle()
    record = await harness.record(agent.uaid)
    assert record.router_type == (WEBPUSH if use_webpush else SIMPLEPUSH)


@pytest.mark.parametrize("use_webpush", [True, False])
async def test_with_the_record_the_connection_of_the_other_protocol_ends(
    harness: Harness, use_webpush: bool
) -> None:
    agent = await harness.subscribed(use_webpush=not use_webpush)
    assert (await harness.identified(agent.uaid, use_webpush=use_webpush)).uaid != agent.uaid
    assert agent.close_code() == 1000
    elsewhere = await harness.subscribed(use_webpush=not use_webpush)
    elsewhere.disconnect()
    record = await harness.record(elsewhere.uaid)
    await harness.store.users.connect(record, OTHER_NODE, record.connected_at + 1)
    await harness.identified(elsewhere.uaid, use_webpush=use_webpush)
    ended = ("end", OTHER_NODE, elsewhere.uaid, record.connected_at + 1)
    assert harness.nodes.calls == [ended]


async def test_a_dropped_table_is_read_again_when_it_was_created(harness: Harness) -> None:
    await known_user(harness)
    harness.engine.fail("query storage", TableNotFound("storage"))
    agent = await harness.identified(UAID, **OLD)
    await harness.pass_time(60)
    assert harness.engine.calls.count("query storage") == 2
    assert agent.received() == []


# ── versions ────────────────────────────────────────────────────────────────────────────────────


async def test_saving_is_repeated_until_it_is_done_and_the_new_node_is_notified(
    harness: Harness,
) -> None:
    agent = await harness.subscribed(**OLD)
    agent.connection.deliver(update(3, agent.uaid), None)
    record = await harness.record(agent.uaid)
    assert await harness.store.users.connect(record, OTHER_NODE, record.connected_at + 1)
    harness.engine.fail("put storage", Throttled("full"), Unavailable("gone"))
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.stored_updates() == {}
    for _ in range(2):
        await harness.pass_time(2)
    assert harness.stored_updates() == {CHANNEL: 3}
    assert harness.nodes.calls == [("check", OTHER_NODE, agent.uaid)]


async def test_nothing_is_left_of_a_user_that_was_dropped_while_connected(harness: Harness) -> None:
    agent = await harness.subscribed(**OLD)
    agent.connection.deliver(update(3, agent.uaid), None)
    assert await harness.store.drop_user(await harness.record(agent.uaid))
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.stored_updates() == {}


async def test_an_unregister_deletes_the_stored_version(harness: Harness) -> None:
    agent = await harness.subscribed(**OLD)
    await harness.store.versions.store(update(3, agent.uaid))
    agent.send_json(messageType="unregister", channelID=CHANNEL)
    await harness.run_until_idle()
    assert agent.reply()["status"] == 200
    assert harness.stored_updates() == {}


# ── calls of other nodes ────────────────────────────────────────────────────────────────────────


async def push(harness: Harness, message: Notification) -> Response:
    path = f"/push/{message.uaid}"
    return await answer_over_http(harness.parts.answering, "PUT", path, message.to_node())


async def test_a_stored_version_that_was_acked_meanwhile_is_not_sent(harness: Harness) -> None:
    agent = await harness.subscribed(**OLD)
    message = update(3, agent.uaid)
    message.stored = "storage"
    assert (await push(harness, message)).status == 200
    assert agent.received() == []


@pytest.mark.parametrize("handed_over", [True, False], ids=["handed over", "read"])
async def test_a_version_that_is_stored_once_more_after_its_ack_is_sent_once_more(
    harness: Harness, handed_over: bool
) -> None:
    agent = await harness.subscribed(**OLD)
    message = update(3, agent.uaid)
    message.stored = "storage"
    for _ in range(2):
        await harness.store.versions.store(message)
        if handed_over:
            assert (await push(harness, message)).status == 200
        else:
            agent.connection.check_storage()
            await harness.run_until_idle()
        assert versions(agent) == [3]
        ack(agent, 3)
        await harness.run_until_idle()
        assert harness.stored_updates() == {}


async def test_a_notification_of_the_other_protocol_is_503_and_not_sent(harness: Harness) -> None:
    old, modern = await harness.subscribed(**OLD), await harness.subscribed()
    assert (await push(harness, harness.message(old.uaid))).status == 503
    assert (await push(harness, update(3, modern.uaid))).status == 503
    assert old.received() == modern.received() == []
