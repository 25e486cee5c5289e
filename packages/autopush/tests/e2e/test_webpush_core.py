"""Web Push from outside: what the integration tests of the original and of autopush-rs check."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest

from autopush.webpush.tokens import KeyRing
from support.application_server import (
    AES128GCM,
    AESGCM,
    Answer,
    ApplicationServer,
    claims,
    draft_1,
)
from support.node_caller import NodeCaller
from support.senders import Sender
from support.service import Service, running_service
from support.user_agent import Message, UserAgent

Connect = Callable[..., Awaitable[UserAgent]]

BYTES = b"\xc3\x28\xa0\xa1\xe2\x28\xa1"
TEXT = "wyigoeIooQ"
CLEAN = {
    "encoding": "aesgcm",
    "encryption": "keyid=http://example.org/bob/keys/123;salt=XZwpw6o37R-6qoZjw6KwAw",
    "crypto_key": "keyid=a1;dh=JcqK-OLkJZlJ3sJJWstJCA",
}
MSG_LIMIT = 20
LONG_GONE = 1.05
"""Seconds after which a message with a TTL of 1 has expired."""

either_delivery = pytest.mark.parametrize("running", ["store-first", "bypass"], indirect=True)


@pytest.fixture(scope="module", params=["store-first"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("core")
    options = ("--direct-delivery", request.param, "--msg-limit", str(MSG_LIMIT))
    with running_service(data, *options) as service:
        yield service


async def subscribed(connect: Connect, key: str | None = None) -> tuple[UserAgent, str, str]:
    agent = await connect()
    return agent, *await agent.register(key=key)


async def away(connect: Connect, count: int = 1) -> tuple[str, list[tuple[str, str]]]:
    """A user agent that has gone offline: its UAID, and channel and endpoint of each
    subscription.
    """
    agent = await connect()
    subscriptions = [await agent.register() for _ in range(count)]
    await agent.close()
    return agent.uaid, subscriptions


def of_push(message: Message, answer: Answer) -> bool:
    return bool(message["version"] == answer.message_id)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_push_outside_wpush_is_404_in_json(
    running: Service, sender: ApplicationServer
) -> None:
    answer = await sender.push(f"{running.endpoint}/push/v1/token", BYTES)
    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.document["code"] == 404


async def test_a_client_that_never_says_use_webpush_gets_messages_as_kdes_distributor_does(
    open_connection: Connect, sender: ApplicationServer
) -> None:
    agent = await open_connection()
    await agent.send(messageType="hello")
    hello = await agent.reply()
    _, endpoint = await agent.register()
    await sender.push(endpoint, BYTES)
    assert (await agent.notification())["data"]
    await agent.close()
    again = await open_connection()
    await again.send(messageType="hello", uaid=hello["uaid"])
    assert (await again.reply())["uaid"] == hello["uaid"]
    assert (await again.notification())["data"]


@pytest.mark.parametrize("online", [True, False])
async def test_a_push_is_201_with_location_ttl_and_message_id(
    running: Service, connect: Connect, sender: ApplicationServer, online: bool
) -> None:
    agent, _, endpoint = await subscribed(connect)
    if not online:
        await agent.close()
    answer = await sender.push(endpoint, BYTES, ttl=60)
    assert answer.status == 201
    assert answer.headers["TTL"] == "60"
    assert answer.headers["Location"] == f"{running.endpoint}/m/{answer.message_id}"
    exposed = answer.headers["Access-Control-Expose-Headers"].split(",")
    assert {"location", "www-authenticate"} <= set(exposed)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


# ── hello, ping, register ────────────────────────────────────────────────────────────────────────


async def test_hello_gives_a_new_uaid_and_says_webpush(open_connection: Connect) -> None:
    agent = await open_connection()
    reply = await agent.hello(channelIDs=["unknown"])
    assert (reply["status"], reply["use_webpush"], reply["broadcasts"]) == (200, True, {})
    assert uuid.UUID(reply["uaid"]).hex == reply["uaid"]
    assert agent.socket.subprotocol == "push-notification"


async def test_a_known_uaid_is_kept_and_its_channel_still_delivers(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, [(channel, endpoint)] = await away(connect)
    agent = await connect(uaid)
    assert agent.uaid == uaid
    answer = await sender.push(endpoint, BYTES)
    message = await agent.notification()
    assert (message["channelID"], message["version"]) == (channel, answer.message_id)


@pytest.mark.parametrize("ping", [{}, {"messageType": "ping"}])
async def test_the_first_ping_is_answered_and_a_second_at_once_closes_with_4774(
    connect: Connect, ping: dict[str, object]
) -> None:
    agent = await connect()
    await agent.send(**ping)
    assert await agent.reply() == {}
    await agent.send(**ping)
    assert await agent.closed() == 4774


async def test_registering_a_channel_twice_gives_two_endpoints_of_one_channel(
    connect: Connect, sender: ApplicationServer
) -> None:
    agent, channel, first = await subscribed(connect)
    _, second = await agent.register(channel)
    assert first != second
    for endpoint in (first, second):
        answer = await sender.push(endpoint)
        message = await agent.notification()
        assert (message["channelID"], message["version"]) == (channel, answer.message_id)


# ── delivery ─────────────────────────────────────────────────────────────────────────────────────


@either_delivery
async def test_bytes_arrive_unpadded_with_clean_crypto_headers(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent, channel, endpoint = await subscribed(connect)
    answer = await sender.push(endpoint, BYTES, crypto=AESGCM)
    assert await agent.notification() == {
        "messageType": "notification",
        "channelID": channel,
        "version": answer.message_id,
        "data": TEXT,
        "headers": CLEAN,
    }


@either_delivery
async def test_several_direct_messages_need_no_ack_in_between(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent, _, endpoint = await subscribed(connect)
    sent = [(await sender.push(endpoint, BYTES)).message_id for _ in range(3)]
    assert [message["version"] for message in await agent.receive(3)] == sent


async def test_three_channels_get_their_stored_messages(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, subscriptions = await away(connect, 3)
    bodies = [BYTES, b"\0", b"three"]
    sent = {}
    for (channel, endpoint), body in zip(subscriptions, bodies, strict=True):
        answer = await sender.push(endpoint, body, crypto=AESGCM)
        sent[channel] = answer.message_id
    agent = await connect(uaid)
    messages = await agent.receive(3)
    assert {message["channelID"]: message["version"] for message in messages} == sent
    assert sorted(message["data"] for message in messages) == ["AA", "dGhyZWU", TEXT]
    assert all(message["headers"] == CLEAN for message in messages)
    await agent.ack(messages)
    await agent.close()
    await (await connect(uaid)).silence()


@either_delivery
async def test_an_empty_body_arrives_without_data_and_headers(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent, _, endpoint = await subscribed(connect)
    # Crypto headers of an empty body are ignored, even senseless ones.
    for crypto in ({}, AESGCM, {"Content-Encoding": "nonsense", "Encryption": "nonsense"}):
        answer = await sender.push(endpoint, crypto=crypto)
        assert answer.status == 201
        message = await agent.notification()
        assert message.keys() == {"messageType", "channelID", "version"}
        assert of_push(message, answer)
    await agent.ack([m for m in agent.received if m["messageType"] == "notification"])
    await agent.close()
    sent = [(await sender.push(endpoint, crypto=crypto)).message_id for crypto in ({}, AESGCM)]
    agent = await connect(agent.uaid)
    messages = await agent.receive(2)
    assert [message["version"] for message in messages] == sent
    assert all(m.keys() == {"messageType", "channelID", "version"} for m in messages)


@either_delivery
async def test_a_body_of_the_limit_arrives_intact_and_a_byte_more_is_413(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent, _, endpoint = await subscribed(connect)
    answer = await sender.push(endpoint, b"\xff" * 4097)
    assert (answer.status, answer.document["errno"]) == (413, 104)
    answer = await sender.push(endpoint, b"\xff" * 4096)
    message = await agent.notification()
    assert of_push(message, answer)
    assert message["data"] == "_" * 5461 + "w"


@pytest.mark.parametrize("crypto", [{}, {"Content-Encoding": "nonsense"}])
async def test_a_body_without_proper_encoding_is_400_and_not_delivered(
    connect: Connect, sender: ApplicationServer, crypto: dict[str, str]
) -> None:
    agent, _, endpoint = await subscribed(connect)
    answer = await sender.push(endpoint, BYTES, crypto=crypto)
    assert (answer.status, answer.document["errno"]) == (400, 110)
    good = await sender.push(endpoint)
    assert of_push(await agent.notification(), good)


# ── acks ─────────────────────────────────────────────────────────────────────────────────────────


@either_delivery
async def test_a_stored_message_comes_at_each_connect_until_acked(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    uaid, [(_, endpoint)] = await away(connect)
    answer = await sender.push(endpoint, BYTES, crypto=AESGCM)
    for _ in range(2):
        agent = await connect(uaid)
        message = await agent.notification()
        assert (message["version"], message["data"]) == (answer.message_id, TEXT)
        assert message["headers"] == CLEAN
        await agent.close()
    agent = await connect(uaid)
    await agent.ack(await agent.receive(1))
    await agent.close()
    await (await connect(uaid)).silence()


@either_delivery
@pytest.mark.parametrize("end", ["close", "drop"])
async def test_a_direct_message_that_is_not_acked_comes_again(
    running: Service, connect: Connect, sender: ApplicationServer, end: str
) -> None:
    agent, _, endpoint = await subscribed(connect)
    answer = await sender.push(endpoint, BYTES, crypto=AESGCM)
    first = await agent.notification()
    assert of_push(first, answer)
    await (agent.close() if end == "close" else agent.drop_connection())
    agent = await connect(agent.uaid)
    assert await agent.notification() == first
    await agent.ack([first])
    await agent.close()
    await (await connect(agent.uaid)).silence()


async def test_of_two_rows_of_the_legacy_form_only_the_one_not_acked_comes_again(
    running: Service, connect: Connect
) -> None:
    uaid, [(channel, _)] = await away(connect)
    await store_legacy_rows(running.data, uaid, channel, [b"one", b"two"])
    agent = await connect(uaid)
    messages = await agent.receive(2)
    assert {message["channelID"] for message in messages} == {channel}
    await agent.ack(messages[1:])
    await agent.close()
    agent = await connect(uaid)
    assert await agent.receive(1) == messages[:1]
    await agent.ack(messages[:1])
    await agent.close()
    await (await connect(uaid)).silence()


async def store_legacy_rows(data: Path, uaid: str, channel: str, bodies: list[bytes]) -> None:
    """What a release before topics left in the store."""
    # Only here: no other test reads the store itself.
    from autopush.store.tables import message_table
    from autopush.webpush.syntax import encode_base64url
    from keytables.sqlite import SqliteEngine

    keys = (data / "keys" / "crypto_key").read_text().split("\n")
    ring = KeyRing([key for key in keys if key and not key.startswith("#")])
    engine = await SqliteEngine.open(data / "autopush.sqlite")
    try:
        table = await engine.ensure_table(message_table("message"))
        for body in bodies:
            version = ring.encrypt(f"m:{uaid}:{channel.replace('-', '')}".encode())
            await table.put(
                {
                    "uaid": uaid,
                    "chidmessageid": f"{channel}:{version}",
                    "data": encode_base64url(body),
                    "headers": {"encoding": "aes128gcm"},
                    "ttl": 600,
                    "timestamp": int(time.time()),
                    "updateid": version,
                }
            )
    finally:
        await engine.close()


async def test_a_user_agent_that_acks_is_never_reset(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, [(_, endpoint)] = await away(connect)
    sent = [(await sender.push(endpoint)).message_id for _ in range(MSG_LIMIT + 1)]
    agent = await connect(uaid)
    got = await agent.receive(MSG_LIMIT, ack=True)
    await agent.close()
    agent = await connect(uaid)
    assert agent.uaid == uaid
    got += await agent.receive(1, ack=True)
    assert [message["version"] for message in got] == sent
    await agent.close()
    agent = await connect(uaid)
    assert agent.uaid == uaid
    await agent.silence()


# ── topics ───────────────────────────────────────────────────────────────────────────────────────


@either_delivery
async def test_a_topic_message_reaches_a_connected_user_agent(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent, channel, endpoint = await subscribed(connect)
    answer = await sender.push(endpoint, BYTES, topic="Inbox-1_a")
    message = await agent.notification()
    assert message.keys() == {"messageType", "channelID", "version", "data", "headers"}
    assert (message["channelID"], message["version"]) == (channel, answer.message_id)
    await agent.ack([message])
    await agent.close()
    await (await connect(agent.uaid)).silence()


async def test_of_two_stored_messages_of_a_topic_only_the_second_arrives(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, [(_, endpoint)] = await away(connect)
    await sender.push(endpoint, b"first", topic="inbox")
    answer = await sender.push(endpoint, BYTES, topic="inbox")
    agent = await connect(uaid)
    message = await agent.notification()
    assert (message["version"], message["data"]) == (answer.message_id, TEXT)
    await agent.silence()


async def test_a_stored_topic_message_that_was_acked_comes_only_once(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, [(_, endpoint)] = await away(connect)
    await sender.push(endpoint, BYTES, topic="inbox")
    agent = await connect(uaid)
    await agent.ack(await agent.receive(1))
    await agent.close()
    agent = await connect(uaid)
    await agent.silence()
    await agent.close()
    await (await connect(uaid)).silence()


# ── TTL ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("online", [True, False])
async def test_a_push_without_ttl_is_400_and_not_delivered(
    connect: Connect, sender: ApplicationServer, online: bool
) -> None:
    agent, _, endpoint = await subscribed(connect)
    if not online:
        await agent.close()
    answer = await sender.push(endpoint, BYTES, ttl=None)
    assert (answer.status, answer.document["errno"]) == (400, 111)
    assert "ttl" in answer.document["errors"]
    if not online:
        agent = await connect(agent.uaid)
    await agent.silence()


@either_delivery
async def test_with_ttl_0_a_message_is_delivered_at_once_or_never(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent, _, endpoint = await subscribed(connect)
    answer = await sender.push(endpoint, BYTES, ttl=0)
    assert (answer.status, answer.headers["TTL"]) == (201, "0")
    assert of_push(await agent.notification(), answer)
    await agent.close()  # not acked, and not to be stored for that
    answer = await sender.push(endpoint, BYTES, ttl=0)
    assert (answer.status, answer.headers["TTL"]) == (201, "0")
    await (await connect(agent.uaid)).silence()


async def test_an_expired_message_does_not_arrive_and_its_topic_can_be_used_again(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, [(_, endpoint)] = await away(connect)
    await sender.push(endpoint, b"old", ttl=1, topic="inbox")
    await sender.push(endpoint, b"old", ttl=1)
    await asyncio.sleep(LONG_GONE)
    agent = await connect(uaid)
    await agent.silence()
    answer = await sender.push(endpoint, BYTES, topic="inbox")
    assert of_push(await agent.notification(), answer)


async def test_expired_messages_do_not_hide_the_good_ones_behind_them(
    connect: Connect, sender: ApplicationServer
) -> None:
    one, [(_, first)] = await away(connect)
    two, [(_, second)] = await away(connect)
    for _ in range(12):
        await sender.push(first, b"old", ttl=1)
    good = [await sender.push(first, BYTES)]
    mixed = [await sender.push(second, BYTES) for _ in range(6)]
    for _ in range(6):
        await sender.push(second, b"old", ttl=1)
    mixed.append(await sender.push(second, BYTES))
    await asyncio.sleep(LONG_GONE)
    for uaid, expected in ((one, good), (two, mixed)):
        agent = await connect(uaid)
        got = await agent.receive(len(expected), ack=True)
        assert [m["version"] for m in got] == [answer.message_id for answer in expected]
        await agent.silence()


# ── what ends a message ──────────────────────────────────────────────────────────────────────────


async def test_after_unregister_a_push_is_410_to_be_cached(
    connect: Connect, sender: ApplicationServer
) -> None:
    agent, channel, endpoint = await subscribed(connect)
    assert (await agent.unregister(channel)) == {
        "messageType": "unregister",
        "channelID": channel,
        "status": 200,
    }
    answer = await sender.push(endpoint, BYTES)
    assert (answer.status, answer.document["errno"]) == (410, 106)
    assert answer.headers["Cache-Control"] == "max-age=86400"
    await agent.silence()


async def test_a_deleted_message_does_not_arrive(
    connect: Connect, sender: ApplicationServer
) -> None:
    uaid, [(_, endpoint)] = await away(connect)
    for topic in (None, "inbox"):
        answer = await sender.push(endpoint, BYTES, topic=topic)
        deleted = await sender.delete(answer.headers["Location"])
        assert (deleted.status, deleted.body) == (204, b"")
    await (await connect(uaid)).silence()


async def test_deleting_a_message_twice_is_204_twice(
    connect: Connect, sender: ApplicationServer
) -> None:
    _, [(_, endpoint)] = await away(connect)
    location = (await sender.push(endpoint)).headers["Location"]
    for spelling in (location, location.rstrip("="), location.replace("=", "%3D")):
        assert (await sender.delete(spelling)).status == 204


# ── VAPID ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_signed_push_is_delivered(connect: Connect, sender: ApplicationServer) -> None:
    agent, _, endpoint = await subscribed(connect)
    server = Sender()
    good = claims(endpoint)
    for crypto in (
        draft_1(server, server.token(good)),
        draft_1(server, server.token(good)) | {"Authorization": f"WebPush {server.token(good)}"},
        AES128GCM | {"Authorization": server.vapid(good)},
        AES128GCM | {"Authorization": server.vapid(good).replace(",k=", ", k=")},
    ):
        answer = await sender.push(endpoint, BYTES, crypto=crypto)
        message = await agent.notification()
        assert of_push(message, answer)
    assert "p256ecdsa" in agent.received[2]["headers"]["crypto_key"]


async def test_a_push_with_an_invalid_token_is_401(
    connect: Connect, sender: ApplicationServer
) -> None:
    agent, _, endpoint = await subscribed(connect)
    server = Sender()
    good = server.token(claims(endpoint))
    signed, _, signature = good.rpartition(".")
    wrong = [
        draft_1(server, good, key="invalid"),
        *(draft_1(server, server.token(claims(endpoint, exp=exp))) for exp in ("@", ["@"], None)),
        draft_1(server, server.token(claims(endpoint, aud="https://bogus.example"))),
        draft_1(server, server.token(claims(endpoint, aud=None))),
        draft_1(server, ""),
        draft_1(server, f"{signed}.{signature[::-1]}"),
        draft_1(server, good, key="invalid|"),
    ]
    for crypto in wrong:
        answer = await sender.push(endpoint, BYTES, crypto=crypto)
        assert (answer.status, answer.document["errno"]) == (401, 109), crypto
        assert answer.headers["WWW-Authenticate"] == "vapid"
    # Nothing of it was delivered: the next to come is a good one.
    answer = await sender.push(endpoint, BYTES)
    assert of_push(await agent.notification(), answer)


async def test_an_endpoint_made_with_a_key_takes_pushes_of_that_key_only(
    connect: Connect, sender: ApplicationServer
) -> None:
    server, other = Sender(), Sender()
    agent, _, endpoint = await subscribed(connect, key=server.key_text)
    assert "/wpush/v2/" in endpoint
    for good in (claims(endpoint), claims(endpoint, sub=None)):
        answer = await sender.push(endpoint, BYTES, Authorization=server.vapid(good))
        assert of_push(await agent.notification(), answer)
    for crypto in (
        AES128GCM | {"Authorization": other.vapid(claims(endpoint))},
        draft_1(other, other.token(claims(endpoint))),
        # Signed by the other, with the right one's key beside it.
        draft_1(server, other.token(claims(endpoint))),
        AES128GCM,
    ):
        answer = await sender.push(endpoint, BYTES, crypto=crypto)
        assert (answer.status, answer.document["errno"]) == (401, 109)
    await agent.silence()


async def test_padding_of_the_key_makes_no_difference(
    connect: Connect, sender: ApplicationServer
) -> None:
    server = Sender()
    agent, _, endpoint = await subscribed(connect, key=f"{server.key_text}=")
    answer = await sender.push(endpoint, BYTES, Authorization=server.vapid(claims(endpoint)))
    assert of_push(await agent.notification(), answer)


# ── ports ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_storage_check_may_be_asked_for_by_nodes_on_the_internal_port_only(
    running: Service, connect: Connect, sender: ApplicationServer
) -> None:
    agent, _, _ = await subscribed(connect)
    other_node = await NodeCaller.of(sender, running.data, agent.uaid)
    assert (await other_node.request("PUT", f"/notif/{agent.uaid}")).status in (200, 202)
    path = f"{other_node.base}/notif/{agent.uaid}"
    assert (await sender.request("PUT", running.node_api + path)).status == 401
    websocket_port = running.websocket.replace("ws://", "http://").rstrip("/")
    answers = {
        "endpoint": (await sender.request("PUT", running.endpoint + path)).status,
        "websocket": (await sender.request("PUT", websocket_port + path)).status,
    }
    assert answers == {"endpoint": 404, "websocket": 404}


async def test_every_port_serves_status_and_health(
    running: Service, sender: ApplicationServer
) -> None:
    websocket_port = running.websocket.replace("ws://", "http://").rstrip("/")
    for port in (running.endpoint, running.node_api, websocket_port):
        status = (await sender.request("GET", f"{port}/status")).document
        assert status.keys() == {"status", "version"}
        assert status["status"] == "OK"
        health = await sender.request("GET", f"{port}/health")
        assert (health.status, health.document["status"]) == (200, "OK")
        assert health.document["router"] == health.document["storage"] == {"status": "OK"}
        assert (await sender.request("GET", f"{port}/__heartbeat__")).status == 200
        assert (await sender.request("GET", f"{port}/__lbheartbeat__")).status == 200
        assert "version" in (await sender.request("GET", f"{port}/__version__")).document


async def test_a_page_of_another_origin_may_push(
    connect: Connect, sender: ApplicationServer
) -> None:
    _, _, endpoint = await subscribed(connect)
    async with aiohttp.ClientSession() as browser, browser.options(endpoint) as preflight:
        assert preflight.status == 200
        allowed = preflight.headers["Access-Control-Allow-Headers"].split(",")
        assert preflight.headers["Access-Control-Allow-Methods"] == "POST"
    assert {"content-encoding", "ttl", "authorization", "topic", "urgency"} <= set(allowed)
