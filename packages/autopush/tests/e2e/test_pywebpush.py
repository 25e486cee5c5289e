"""pywebpush and py_vapid send, the user agent decrypts: with one worker and with two."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid01, Vapid02
from pywebpush import WebPushException

from support.application_server import ApplicationServer, application_server
from support.service import Service, running_service
from support.sockets import accepted
from support.subscription import Subscription
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]

LARGEST = 3993
"""Bytes of text whose aes128gcm body has exactly 4096."""

two_workers = pytest.mark.parametrize(
    "running",
    [("--workers", "2"), ("--workers", "2", "--direct-delivery", "bypass")],
    indirect=True,
    ids=["store-first", "bypass"],
)


@pytest.fixture(scope="module", params=[()], ids=["one worker"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("pywebpush"), *request.param) as service:
        yield service


@pytest.fixture
async def fresh() -> AsyncIterator[ApplicationServer]:
    """An application server with a connection of its own for each push: whichever worker."""
    async with application_server(reconnecting=True) as server:
        yield server


def vapid_key(kind: type[Vapid01] = Vapid02) -> tuple[Any, str]:
    """A key pair of py_vapid, and the public half as a page subscribes with it."""
    vapid = kind()
    vapid.generate_keys()
    point = vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return vapid, base64.urlsafe_b64encode(point).decode()


Attach = Callable[..., Awaitable[UserAgent]]


@pytest.fixture
def attach(running: Service, open_connection: Connect) -> Attach:
    """Connects a user agent to the worker with that number; with a UAID, it says hello."""

    async def attach(worker: int, uaid: str | None = None) -> UserAgent:
        for _ in range(64):  # the kernel chooses the worker of each connection
            agent = await open_connection()
            workers = running.workers
            holders = accepted(running.websocket_port, workers)
            if holders[agent.socket.local_address[1]] == workers[worker]:
                if uaid is not None:
                    assert (await agent.hello(uaid))["uaid"] == uaid
                return agent
        raise AssertionError("the kernel gives all connections to one worker")

    return attach


# ── one message ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [
        (None, "aes128gcm"),
        (None, "aesgcm"),
        (Vapid01, "aesgcm"),
        (Vapid02, "aesgcm"),
        (Vapid02, "aes128gcm"),
    ],
)
@pytest.mark.parametrize("online", [True, False], ids=["online", "offline"])
async def test_the_user_agent_reads_what_pywebpush_sent(
    running: Service, connect: Connect, encoding: str, online: bool, kind: type[Vapid01] | None
) -> None:
    vapid, key = vapid_key(kind) if kind else (None, None)
    agent = await connect()
    subscription = await Subscription.of(agent, key)
    if not online:
        await agent.close()
    text = "Grüße, 世界".encode()
    message_id = await subscription.push(text, vapid, content_encoding=encoding)
    if not online:
        agent = await connect(agent.uaid)
    message = await agent.notification()
    assert message["version"] == message_id
    assert subscription.read(message) == text


async def test_the_longest_text_fits_and_a_byte_more_is_refused(
    running: Service, connect: Connect
) -> None:
    agent = await connect()
    subscription = await Subscription.of(agent)
    text = os.urandom(LARGEST)
    await subscription.push(text)
    assert subscription.read(await agent.notification()) == text
    with pytest.raises(WebPushException) as refused:
        await subscription.push(text + b".")
    assert refused.value.response is not None
    assert refused.value.response.status_code == 413


# ── two workers ──────────────────────────────────────────────────────────────────────────────────


async def check_all_arrive_once(
    agent: UserAgent, subscription: Subscription, sent: dict[str, bytes]
) -> None:
    messages = await agent.receive(len(sent), ack=True)
    await agent.silence()
    assert {m["version"]: subscription.read(m) for m in messages} == sent


@two_workers
async def test_pushes_on_both_workers_arrive_once_and_decrypt(
    running: Service, connect: Connect
) -> None:
    vapid, key = vapid_key()
    agent = await connect()
    subscription = await Subscription.of(agent, key)
    texts = [b"%d" % number for number in range(24)]
    ids = await asyncio.gather(*(subscription.push(text, vapid) for text in texts))
    await check_all_arrive_once(agent, subscription, dict(zip(ids, texts, strict=True)))


@two_workers
@pytest.mark.parametrize("end", ["close", "drop"])
async def test_what_was_not_acked_on_one_worker_comes_again_on_the_other(
    running: Service, connect: Connect, attach: Attach, fresh: ApplicationServer, end: str
) -> None:
    agent = await connect()
    _, endpoint = await agent.register()
    await agent.close()
    agent = await attach(0, agent.uaid)
    answers = [await fresh.push(endpoint) for _ in range(6)]
    got = await agent.receive(6)
    await agent.ack(got[::2])
    await (agent.close() if end == "close" else agent.drop_connection())
    unacked = {message["version"] for message in got[1::2]}
    other = await attach(1, agent.uaid)
    again = await other.receive(3, ack=True)
    await other.silence()
    assert {message["version"] for message in again} == unacked
    assert unacked < {answer.message_id for answer in answers}
