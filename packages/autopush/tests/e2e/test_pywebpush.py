"""pywebpush and py_vapid send, the user agent decrypts."""

import base64
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from py_vapid import Vapid01, Vapid02
from pywebpush import WebPushException

from support.service import Service, running_service
from support.subscription import Subscription
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]

LARGEST = 3993
"""Bytes of text whose aes128gcm body has exactly 4096."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("pywebpush")) as service:
        yield service


def vapid_key(kind: type[Vapid01] = Vapid02) -> tuple[Any, str]:
    """A key pair of py_vapid, and the public half as a page subscribes with it."""
    vapid = kind()
    vapid.generate_keys()
    point = vapid.public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return vapid, base64.urlsafe_b64encode(point).decode()


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
