"""Web Push from outside: what the integration tests of the original and of autopush-rs check."""

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import pytest

from support import wire
from support.application_server import AESGCM, ApplicationServer
from support.raw_client import raw_client
from support.service import Service, running_service
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]

BYTES = b"\xc3\x28\xa0\xa1\xe2\x28\xa1"
TEXT = "wyigoeIooQ"
CLEAN = {
    "encoding": "aesgcm",
    "encryption": "keyid=http://example.org/bob/keys/123;salt=XZwpw6o37R-6qoZjw6KwAw",
    "crypto_key": "keyid=a1;dh=JcqK-OLkJZlJ3sJJWstJCA",
}
either_delivery = pytest.mark.parametrize("running", ["store-first", "bypass"], indirect=True)


@pytest.fixture(scope="module", params=["store-first"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("core")
    with running_service(data, "--direct-delivery", request.param) as service:
        yield service


async def away(connect: Connect, count: int = 1) -> tuple[str, list[tuple[str, str]]]:
    """A user agent that has gone offline: its UAID, and channel and endpoint of each
    subscription.
    """
    agent = await connect()
    subscriptions = [await agent.register() for _ in range(count)]
    await agent.close()
    return agent.uaid, subscriptions


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


# ── user agents that are slow ────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@either_delivery
async def test_messages_a_user_agent_does_not_read_are_delivered_later(
    running: Service, sender: ApplicationServer
) -> None:
    async with raw_client(running.websocket_port) as client:
        await client.hello()
        channel = str(uuid.uuid4())
        register = {"messageType": "register", "channelID": channel}
        client.send(wire.text(json.dumps(register).encode()))
        endpoint = json.loads((await client.frame())[1])["pushEndpoint"]
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        body = bytes(4096)
        answers = await asyncio.gather(*(sender.push(endpoint, body) for _ in range(120)))
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        waiting = {answer.message_id for answer in answers}
        got: Counter[str] = Counter()
        while waiting - got.keys():
            message = json.loads((await client.frame())[1])
            got[message["version"]] += 1
            update = {"channelID": channel, "version": message["version"]}
            client.send(wire.text(json.dumps({"messageType": "ack", "updates": [update]}).encode()))
    assert got == Counter(waiting)
