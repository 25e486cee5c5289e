"""What other nodes may ask: every row of the internal API, over real sessions."""

import asyncio
import json

import pytest

from autopush.connection import node_api
from autopush.connection.node_api import NodeApi
from autopush.dockerflow import Dockerflow
from autopush.net.http_messages import Request, Response
from autopush.protocol.rules import Rules
from autopush.webpush.identifiers import dashed
from autopush.webpush.notification import Notification
from keytables import Throttled
from support.connection_house import CHANNEL, UAID, House, UserAgent

NOBODY = "f" * 32


async def ask(house: House, method: str, path: str, body: bytes = b"") -> Response:
    dockerflow = Dockerflow(house.store, lambda: len(house.registry.sockets))
    api = NodeApi(house.registry, house.node.acked, house.ring, dockerflow)
    return await api(Request(method, path, "", {}, "127.0.0.1", body=body))


async def push(house: House, message: Notification, uaid: str | None = None) -> Response:
    return await ask(house, "PUT", f"/push/{uaid or message.uaid}", message.to_node())


def words(response: Response) -> tuple[int, str]:
    return response.status, response.body.decode()


async def greeting(house: House) -> UserAgent:
    """A user agent whose hello is not answered yet."""
    await house.known_user()
    agent = house.connect()
    agent.hello(UAID)
    return agent


# ── PUT /push ───────────────────────────────────────────────────────────────────────────────────


async def test_a_push_to_a_connected_user_agent_is_200_and_delivered(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    message.data, message.headers = "ZGF0YQ", {"encoding": "aes128gcm"}
    assert words(await push(house, message)) == (200, "Client accepted for delivery")
    assert agent.heard() == [
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
async def test_a_uaid_may_be_spelt_in_any_way(house: House, spelling: object) -> None:
    assert callable(spelling)
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    response = await push(house, message, uaid=spelling(agent.uaid))
    assert response.status == 200
    assert agent.versions() == [message.version]


@pytest.mark.parametrize("uaid", [NOBODY, "nonsense", "%00", "f" * 31, "g" * 32])
async def test_a_push_to_an_absent_user_agent_is_404(house: House, uaid: str) -> None:
    await house.subscribed()
    message = house.message()
    response = await ask(house, "PUT", f"/push/{uaid}", message.to_node())
    assert words(response) == (404, "Client not connected.")


async def test_a_user_agent_that_left_is_absent(house: House) -> None:
    agent = await house.subscribed()
    agent.leave()
    await house.settle()
    assert (await push(house, house.message(agent.uaid))).status == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"channelID":"x","version":"v"}',
        b'{"channelID":"%s","version":""}' % CHANNEL.encode(),
        b'{"channelID":"%s","version":7}' % CHANNEL.encode(),
        b'{"channelID":"%s","version":"v","ttl":-1}' % CHANNEL.encode(),
        b'{"channelID":"%s","version":"v","ttl":"60"}' % CHANNEL.encode(),
        b'{"channelID":"%s","version":"a\\"b"}' % CHANNEL.encode(),
    ],
)
async def test_a_body_that_is_no_notification_is_400_and_nothing_is_delivered(
    house: House, body: bytes
) -> None:
    agent = await house.subscribed()
    response = await ask(house, "PUT", f"/push/{agent.uaid}", body)
    assert response.status == 400
    assert response.body
    assert agent.heard() == []
    assert agent.connection.is_open


async def test_unknown_members_are_ignored(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    body = json.dumps(json.loads(message.to_node()) | {"reliability_id": "x", "more": [1]})
    assert (await ask(house, "PUT", f"/push/{agent.uaid}", body.encode())).status == 200
    assert agent.versions() == [message.version]


async def test_a_push_to_a_busy_user_agent_is_503(house: House) -> None:
    house = await House.open(Rules(max_unacked=1))
    agent = await house.subscribed()
    assert (await push(house, house.message(agent.uaid))).status == 200
    agent.heard()
    response = await push(house, house.message(agent.uaid))
    assert words(response) == (503, "Client busy.")
    assert agent.heard() == []


async def test_a_push_to_a_user_agent_that_is_being_greeted_is_503(house: House) -> None:
    agent = await greeting(house)
    assert words(await push(house, house.message())) == (503, "Client busy.")
    assert agent.heard() == []


async def test_a_pushed_message_that_is_not_acked_is_saved_where_its_id_says(house: House) -> None:
    agent = await house.subscribed()
    plain, topic = house.message(agent.uaid), house.message(agent.uaid, topic="news")
    for message in (plain, topic):
        await push(house, message)
    agent.leave()
    await house.settle()
    assert [row["chidmessageid"] for row in house.rows()] == [topic.sort_key, plain.sort_key]


async def test_a_pushed_message_with_a_foreign_id_is_taken_all_the_same(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    message.version = "of-another-implementation"
    await push(house, message)
    agent.leave()
    await house.settle()
    assert house.stored_versions() == ["of-another-implementation"]


async def stored(house: House, agent: UserAgent) -> Notification:
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    message.stored = house.store.current.name
    return message


async def test_a_pushed_message_that_is_stored_is_deleted_when_acked(house: House) -> None:
    agent = await house.subscribed()
    await push(house, await stored(house, agent))
    agent.ack(*agent.heard())
    await house.settle()
    assert house.rows() == []


async def test_a_pushed_message_that_is_stored_in_another_table_is_503_and_looked_for(
    house: House,
) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    message.stored = "message_2026_10"
    waiting = house.message(agent.uaid)
    await house.store.current.store(waiting)
    assert words(await push(house, message)) == (503, "Client busy.")
    await house.settle()
    assert agent.versions() == [waiting.version]


async def test_a_pushed_message_that_cannot_be_looked_up_is_503_and_nothing_is_delivered(
    house: House,
) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await agent.connection.messages.store(message)
    message.stored = "message"
    house.engine.fail("get message", Throttled("too much to do"))
    assert words(await push(house, message)) == (503, "The store does not answer.")
    assert agent.heard() == []
    assert words(await push(house, message)) == (200, "Client accepted for delivery")


async def test_a_pushed_message_that_is_stored_is_not_saved_again(house: House) -> None:
    agent = await house.subscribed()
    message = await stored(house, agent)
    await push(house, message)
    agent.leave()
    await house.settle()
    assert house.stored_versions() == [message.version]


async def test_a_message_that_storage_gave_already_is_not_sent_again(house: House) -> None:
    agent = await house.subscribed()
    message = await stored(house, agent)
    agent.connection.check_storage()
    await house.settle()
    assert agent.versions() == [message.version]
    assert (await push(house, message)).status == 200
    assert agent.versions() == []


async def test_a_message_that_was_read_from_storage_and_acked_is_not_sent_again(
    house: House,
) -> None:
    agent = await house.subscribed()
    message = await stored(house, agent)
    agent.connection.check_storage()
    await house.settle()
    agent.ack(*agent.heard())
    assert (await push(house, message)).status == 200
    assert agent.versions() == []


# ── PUT /notif ──────────────────────────────────────────────────────────────────────────────────


async def test_a_check_that_starts_now_is_200(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await house.store.current.store(message)
    response = await ask(house, "PUT", f"/notif/{dashed(agent.uaid)}")
    assert words(response) == (200, "Notification check started")
    await house.settle()
    assert agent.versions() == [message.version]


async def test_a_check_that_has_to_wait_is_202_and_made_up_for(house: House) -> None:
    house = await House.open(Rules(max_unacked=1))
    agent = await house.subscribed()
    await push(house, house.message(agent.uaid))
    stored = house.message(agent.uaid)
    await house.store.current.store(stored)
    response = await ask(house, "PUT", f"/notif/{agent.uaid}")
    assert words(response) == (202, "Flagged for Notification check")
    agent.ack(*agent.heard())
    await house.settle()
    assert agent.versions() == [stored.version]


async def test_a_check_while_the_hello_waits_is_202(house: House) -> None:
    await greeting(house)
    response = await ask(house, "PUT", f"/notif/{UAID}")
    assert words(response) == (202, "Flagged for Notification check")


@pytest.mark.parametrize("uaid", [NOBODY, "nonsense"])
async def test_a_check_for_an_absent_user_agent_is_404(house: House, uaid: str) -> None:
    response = await ask(house, "PUT", f"/notif/{uaid}")
    assert words(response) == (404, "Client not connected.")


# ── DELETE /notif ───────────────────────────────────────────────────────────────────────────────


async def test_the_connection_of_that_time_is_ended(house: House) -> None:
    agent = await house.subscribed()
    path = f"/notif/{dashed(agent.uaid)}/{agent.connection.connected_at}"
    assert words(await ask(house, "DELETE", path)) == (200, "Terminated duplicate")
    assert agent.heard() == [("close", 1000, "")]
    assert house.registry.find(agent.uaid) is None


@pytest.mark.parametrize("off", [-1, 1])
async def test_a_connection_of_another_time_stays(house: House, off: int) -> None:
    agent = await house.subscribed()
    path = f"/notif/{agent.uaid}/{agent.connection.connected_at + off}"
    assert words(await ask(house, "DELETE", path)) == (200, "")
    assert agent.heard() == []
    assert agent.connection.here


@pytest.mark.parametrize("path", [f"/notif/{NOBODY}/5", "/notif/nonsense/5"])
async def test_ending_an_absent_connection_is_200(house: House, path: str) -> None:
    assert words(await ask(house, "DELETE", path)) == (200, "")


async def test_a_time_that_is_no_number_ends_nothing(house: House) -> None:
    agent = await house.subscribed()
    assert (await ask(house, "DELETE", f"/notif/{agent.uaid}/now")).status == 200
    assert agent.connection.here


async def acked_in_an_overload(house: House) -> UserAgent:
    """A user agent that has acked a message whose row could not be deleted yet."""
    agent = await house.subscribed()
    await house.store.current.store(house.message(agent.uaid))
    agent.connection.check_storage()
    await house.settle()
    house.engine.fail("delete message", Throttled("full"))
    agent.ack(*agent.heard())
    await house.settle()
    assert len(house.rows()) == 1
    return agent


@pytest.mark.parametrize("end", [True, False], ids=["that connection", "none"])
async def test_the_answer_comes_when_what_was_acked_here_is_deleted(
    house: House, end: bool
) -> None:
    agent = await acked_in_an_overload(house)
    connected_at = agent.connection.connected_at if end else 5
    answer = asyncio.ensure_future(ask(house, "DELETE", f"/notif/{agent.uaid}/{connected_at}"))
    await house.settle()
    assert not answer.done()
    await house.pass_time(1)
    assert house.rows() == []
    assert (await answer).status == 200


async def test_the_answer_comes_in_time_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_api, "ACKS_END", 0.01)
    agent = await acked_in_an_overload(house)
    assert (await ask(house, "DELETE", f"/notif/{agent.uaid}/5")).status == 200
    assert len(house.rows()) == 1


async def test_where_nothing_was_acked_the_store_is_not_asked(house: House) -> None:
    agent = await house.subscribed()
    house.engine.calls.clear()
    await ask(house, "DELETE", f"/notif/{agent.uaid}/{agent.connection.connected_at}")
    assert house.engine.calls == []


async def test_what_an_ended_duplicate_leaves_unacked_is_saved(house: House) -> None:
    agent = await house.subscribed()
    message = house.message(agent.uaid)
    await push(house, message)
    await ask(house, "DELETE", f"/notif/{agent.uaid}/{agent.connection.connected_at}")
    await house.settle()
    assert house.stored_versions() == [message.version]


# ── the rest ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/status", "/health", "/__heartbeat__", "/__lbheartbeat__"])
async def test_the_status_pages_are_here_too(house: House, path: str) -> None:
    assert (await ask(house, "GET", path)).status == 200


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
async def test_anything_else_is_404(house: House, method: str, path: str) -> None:
    assert (await ask(house, method, path)).status == 404
