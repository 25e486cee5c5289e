"""The internal API: calls from other nodes about the user agents of this one."""

import asyncio
import json
from collections.abc import Callable

import pytest

from autopush.delivery import answering
from autopush.net.http_messages import Response
from autopush.webpush.identifiers import dashed
from autopush.webpush.notification import Notification
from autopush.webpush.tokens import KeyRing, new_key, new_message_id
from keytables import Throttled
from support.connection_harness import CHANNEL, OTHER, UAID, Harness, UserAgent
from support.node_server import answer_over_http

UNKNOWN = "f" * 32


async def call(harness: Harness, method: str, path: str, body: bytes = b"") -> Response:
    """What the node answers, without the signatures."""
    return await answer_over_http(harness.parts.answering, method, path, body)


async def push(harness: Harness, message: Notification, uaid: str | None = None) -> Response:
    return await call(harness, "PUT", f"/push/{uaid or message.uaid}", message.to_node())


def status_and_text(response: Response) -> tuple[int, str]:
    return response.status, response.body.decode()


async def unidentified(harness: Harness) -> UserAgent:
    """A user agent whose hello is not answered yet."""
    await harness.known_user()
    agent = harness.connect()
    agent.hello(UAID)
    await asyncio.sleep(0)  # its task has begun
    return agent


@pytest.mark.parametrize("uaid", [UNKNOWN, "nonsense", "%00", "f" * 31, "g" * 32])
async def test_an_absent_user_agent_is_404_to_messages_and_checks_and_has_no_connection_to_end(
    harness: Harness, uaid: str
) -> None:
    await harness.subscribed()
    absent = (404, "Client not connected.")
    body = harness.message().to_node()
    assert status_and_text(await call(harness, "PUT", f"/push/{uaid}", body)) == absent
    assert status_and_text(await call(harness, "PUT", f"/notif/{uaid}")) == absent
    assert status_and_text(await call(harness, "DELETE", f"/notif/{uaid}/5")) == (200, "")


# ── PUT /push ───────────────────────────────────────────────────────────────────────────────────


async def test_a_push_to_a_connected_user_agent_is_200_and_delivered(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    message.data, message.headers = "ZGF0YQ", {"encoding": "aes128gcm"}
    assert status_and_text(await push(harness, message)) == (200, "Client accepted for delivery")
    assert agent.received() == [
        {
            "messageType": "notification",
            "channelID": CHANNEL,
            "version": message.version,
            "data": "ZGF0YQ",
            "headers": {"encoding": "aes128gcm"},
        }
    ]


@pytest.mark.parametrize(
    "spelling", [dashed, str.upper, lambda uaid: dashed(uaid).upper()], ids=["dashed", "up", "both"]
)
async def test_a_uaid_may_be_spelled_in_any_way(harness: Harness, spelling: object) -> None:
    assert callable(spelling)
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    response = await push(harness, message, uaid=spelling(agent.uaid))
    assert response.status == 200
    assert agent.versions() == [message.version]


@pytest.mark.parametrize(
    "body", [b"", b"[" * 100_000, b'{"channelID":"%s","version":"v","ttl":-1}' % CHANNEL.encode()]
)
async def test_a_body_that_is_no_notification_is_400_and_nothing_is_delivered(
    harness: Harness, body: bytes
) -> None:
    agent = await harness.subscribed()
    response = await call(harness, "PUT", f"/push/{agent.uaid}", body)
    assert response.status == 400
    assert response.body
    assert agent.received() == []
    assert agent.connection.is_open


async def test_unknown_members_are_ignored(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    body = json.dumps(json.loads(message.to_node()) | {"reliability_id": "x", "more": [1]})
    assert (await call(harness, "PUT", f"/push/{agent.uaid}", body.encode())).status == 200
    assert agent.versions() == [message.version]


async def test_a_push_to_a_busy_user_agent_is_503() -> None:
    harness = await Harness.open(max_unacked=1)
    agent = await harness.subscribed()
    assert (await push(harness, harness.message(agent.uaid))).status == 200
    agent.received()
    response = await push(harness, harness.message(agent.uaid))
    assert status_and_text(response) == (503, "Client busy.")
    assert agent.received() == []


async def test_a_push_before_the_hello_reply_is_503(harness: Harness) -> None:
    agent = await unidentified(harness)
    assert status_and_text(await push(harness, harness.message())) == (503, "Client busy.")
    assert agent.received() == []


@pytest.mark.parametrize("by_older_node", [False, True])
async def test_a_pushed_message_that_is_not_acked_is_saved_under_the_sort_key_of_its_id(
    harness: Harness, by_older_node: bool
) -> None:
    agent = await harness.subscribed()
    plain, topic = harness.message(agent.uaid), harness.message(agent.uaid, topic="news")
    for message in (plain, topic):
        body = json.loads(message.to_node())
        assert ("sort_time" in body) is (message is plain)
        if by_older_node:  # which does not send it
            body.pop("sort_time", None)
        await call(harness, "PUT", f"/push/{agent.uaid}", json.dumps(body).encode())
    agent.disconnect()
    await harness.run_until_idle()
    assert [row["chidmessageid"] for row in harness.rows()] == [topic.sort_key, plain.sort_key]


async def test_a_pushed_message_that_is_stored_is_deleted_when_acked(harness: Harness) -> None:
    agent = await harness.subscribed()
    await push(harness, await harness.store_message(agent.uaid))
    agent.ack(*agent.received())
    await harness.run_until_idle()
    assert harness.rows() == []


async def test_a_pushed_message_that_is_stored_in_another_table_is_503_and_storage_is_read(
    harness: Harness,
) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    message.stored = "message_2026_10"
    waiting = await harness.store_message(agent.uaid)
    assert status_and_text(await push(harness, message)) == (503, "Client busy.")
    await harness.run_until_idle()
    assert agent.versions() == [waiting.version]


async def test_of_a_stored_message_whose_id_cannot_be_read_storage_is_read_and_a_warning_logged(
    harness: Harness, end_logs: Callable[[], str]
) -> None:
    """A node of a version before does not send the sort time, and may use a key of its own."""
    agent = await harness.subscribed()
    path = f"/push/{agent.uaid}"
    for _ in range(3):
        message = harness.message(agent.uaid)
        message.version = new_message_id(
            KeyRing([new_key()]), agent.uaid, CHANNEL, None, message.sort_time
        )
        await agent.connection.messages.store(message)
        message.stored = agent.connection.messages.name
        body = json.loads(message.to_node())
        del body["sort_time"]
        answer = await call(harness, "PUT", path, json.dumps(body).encode())
        assert status_and_text(answer) == (503, "Client busy.")
        await harness.run_until_idle()
        [notification] = agent.received()
        assert isinstance(notification, dict)
        assert notification["version"] == message.version
        agent.ack(notification)
    await harness.run_until_idle()
    assert harness.rows() == []
    assert end_logs().count("The ID of a stored message cannot be read") == 1


async def test_a_pushed_message_that_cannot_be_looked_up_is_503_and_nothing_is_delivered(
    harness: Harness,
) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    await agent.connection.messages.store(message)
    message.stored = "message"
    harness.engine.fail("get message", Throttled("too much to do"))
    assert status_and_text(await push(harness, message)) == (503, "Client busy.")
    assert agent.received() == []
    assert status_and_text(await push(harness, message)) == (200, "Client accepted for delivery")


# ── PUT /push, if subscribed ────────────────────────────────────────────────────────────────────


async def push_if_subscribed(harness: Harness, message: Notification) -> tuple[int, str]:
    path = f"/push/{message.uaid}/subscribed"
    return status_and_text(await call(harness, "PUT", path, message.to_node()))


async def test_a_push_if_subscribed_is_200_and_delivered_at_once(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    assert await push_if_subscribed(harness, message) == (200, "Client accepted for delivery")
    assert agent.versions() == [message.version]
    assert harness.engine.calls[-1] != "get message", "the store is not asked"


async def test_a_push_if_subscribed_is_503_for_another_channel_and_one_that_was_unregistered(
    harness: Harness,
) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    message.channel_id = OTHER
    refusal = (503, "Client busy.")
    assert await push_if_subscribed(harness, message) == refusal
    agent.send_json(messageType="unregister", channelID=CHANNEL)
    await harness.run_until_idle()
    agent.received()
    assert await push_if_subscribed(harness, harness.message(agent.uaid)) == refusal
    assert agent.received() == []


async def test_a_push_if_subscribed_is_503_while_the_subscriptions_are_not_read(
    harness: Harness,
) -> None:
    agent = await unidentified(harness)
    assert (await push_if_subscribed(harness, harness.message()))[0] == 503
    await harness.run_until_idle()
    agent.received()
    assert (await push_if_subscribed(harness, harness.message()))[0] == 200


async def test_a_push_if_subscribed_is_503_to_a_busy_user_agent_and_404_to_an_absent_one(
    harness: Harness,
) -> None:
    agent = await harness.subscribed()
    message = harness.message(agent.uaid)
    agent.connection.output_paused()
    assert await push_if_subscribed(harness, message) == (503, "Client busy.")
    agent.disconnect()
    await harness.run_until_idle()
    assert await push_if_subscribed(harness, message) == (404, "Client not connected.")


async def test_a_message_for_a_user_agent_of_simplepush_is_503_though_it_has_any_channel(
    harness: Harness,
) -> None:
    agent = await harness.hello(None, use_webpush=False, channelIDs=[])
    agent.received()
    assert (await push_if_subscribed(harness, harness.message(agent.uaid)))[0] == 503
    assert agent.received() == []


# ── PUT /notif ──────────────────────────────────────────────────────────────────────────────────


async def test_a_check_that_starts_now_is_200(harness: Harness) -> None:
    agent = await harness.subscribed()
    message = await harness.store_message(agent.uaid)
    response = await call(harness, "PUT", f"/notif/{dashed(agent.uaid)}")
    assert status_and_text(response) == (200, "Notification check started")
    await harness.run_until_idle()
    assert agent.versions() == [message.version]


async def test_a_check_that_has_to_wait_is_202_and_made_later() -> None:
    harness = await Harness.open(max_unacked=1)
    agent = await harness.subscribed()
    await push(harness, harness.message(agent.uaid))
    stored = await harness.store_message(agent.uaid)
    response = await call(harness, "PUT", f"/notif/{agent.uaid}")
    assert status_and_text(response) == (202, "Flagged for Notification check")
    agent.ack(*agent.received())
    await harness.run_until_idle()
    assert agent.versions() == [stored.version]


async def test_a_check_before_the_hello_reply_is_202(harness: Harness) -> None:
    await unidentified(harness)
    response = await call(harness, "PUT", f"/notif/{UAID}")
    assert status_and_text(response) == (202, "Flagged for Notification check")


# ── DELETE /notif ───────────────────────────────────────────────────────────────────────────────


async def test_the_connection_of_that_connected_at_is_ended(harness: Harness) -> None:
    agent = await harness.subscribed()
    path = f"/notif/{dashed(agent.uaid)}/{agent.connection.connected_at}"
    assert status_and_text(await call(harness, "DELETE", path)) == (200, "Terminated duplicate")
    assert agent.received() == [("close", 1000, "replaced")]
    assert harness.registry.find(agent.uaid) is None


@pytest.mark.parametrize("offset", [-1, 1])
async def test_a_connection_of_another_connected_at_stays_open(
    harness: Harness, offset: int
) -> None:
    agent = await harness.subscribed()
    path = f"/notif/{agent.uaid}/{agent.connection.connected_at + offset}"
    assert status_and_text(await call(harness, "DELETE", path)) == (200, "")
    assert agent.received() == []
    assert agent.connection.is_connected


async def test_a_connected_at_that_is_no_number_ends_nothing(harness: Harness) -> None:
    agent = await harness.subscribed()
    assert (await call(harness, "DELETE", f"/notif/{agent.uaid}/now")).status == 200
    assert agent.connection.is_connected


async def acked_in_an_overload(harness: Harness) -> UserAgent:
    """A user agent that has acked a message whose row could not be deleted yet."""
    agent = await harness.subscribed()
    _, notification = await harness.read_from_storage(agent)
    harness.engine.fail("delete message", Throttled("full"))
    agent.ack(notification)
    await harness.run_until_idle()
    assert len(harness.rows()) == 1
    return agent


@pytest.mark.parametrize("end", [True, False], ids=["that connection", "none"])
async def test_the_response_waits_until_acked_rows_are_deleted(harness: Harness, end: bool) -> None:
    agent = await acked_in_an_overload(harness)
    connected_at = agent.connection.connected_at if end else 5
    answer = asyncio.ensure_future(call(harness, "DELETE", f"/notif/{agent.uaid}/{connected_at}"))
    await harness.run_until_idle()
    assert not answer.done()
    await harness.pass_time(1)
    assert harness.rows() == []
    assert (await answer).status == 200


async def test_a_node_whose_acked_rows_are_not_deleted_in_time_is_to_be_asked_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ACKS_TIMEOUT", 0.01)
    agent = await acked_in_an_overload(harness)
    path = f"/notif/{agent.uaid}/{agent.connection.connected_at}"
    for _ in range(2):
        assert (await call(harness, "DELETE", path)).status == 503
    assert not agent.connection.is_connected
    await harness.pass_time(1)
    assert harness.rows() == []
    assert (await call(harness, "DELETE", path)).status == 200


async def test_a_user_agent_that_has_left_is_not_absent_until_its_acked_rows_are_deleted(
    harness: Harness,
) -> None:
    """The record would forget this node, and the next one would not wait for the deletes."""
    agent = await acked_in_an_overload(harness)
    message = harness.message(agent.uaid)
    agent.connection.disconnect(1000)
    await harness.run_until_idle()
    assert harness.registry.find(agent.uaid) is None
    for _ in range(2):
        assert (await push(harness, message)).status == 503
        assert (await call(harness, "PUT", f"/notif/{agent.uaid}")).status == 503
    await harness.pass_time(1)
    assert harness.rows() == []
    assert (await push(harness, message)).status == 404
    assert (await call(harness, "PUT", f"/notif/{agent.uaid}")).status == 404


# ── GET /notif ──────────────────────────────────────────────────────────────────────────────────


async def test_whether_a_user_agent_is_connected_can_be_asked_and_nothing_is_sent(
    harness: Harness,
) -> None:
    agent = await harness.subscribed()
    await harness.store.current.store(harness.message(agent.uaid))
    for spelling in (agent.uaid, dashed(agent.uaid)):
        answer = await call(harness, "GET", f"/notif/{spelling}")
        assert status_and_text(answer) == (200, "Client connected.")
    assert agent.received() == []


@pytest.mark.parametrize("uaid", [UNKNOWN, "nonsense"])
async def test_an_absent_user_agent_is_not_connected(harness: Harness, uaid: str) -> None:
    answer = await call(harness, "GET", f"/notif/{uaid}")
    assert status_and_text(answer) == (404, "Client not connected.")


# ── the rest ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/push/{UAID}"),
        ("POST", f"/push/{UAID}"),
        ("DELETE", f"/notif/{UAID}"),
        ("PUT", f"/notif/{UAID}/5"),
        ("PUT", "/push"),
        ("GET", "/"),
    ],
)
async def test_anything_else_is_no_call_and_says_nothing_of_a_user_agent(
    harness: Harness, method: str, path: str
) -> None:
    """To a caller 404 means that the user agent is not connected."""
    assert (await call(harness, method, path)).status == 400
