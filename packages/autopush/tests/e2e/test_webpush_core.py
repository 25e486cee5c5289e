"""Web Push from outside: what the integration tests of the original and of autopush-rs check."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

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
LONG_GONE = 1.05
"""Seconds after which a message with a TTL of 1 has expired."""

either_delivery = pytest.mark.parametrize("running", ["store-first", "bypass"], indirect=True)


@pytest.fixture(scope="module", params=["store-first"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("core")
    with running_service(data, "--direct-delivery", request.param) as service:
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


# ── hello, ping, register ────────────────────────────────────────────────────────────────────────


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


# ── topics ───────────────────────────────────────────────────────────────────────────────────────


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


# ── TTL ──────────────────────────────────────────────────────────────────────────────────────────


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
