"""Bodies reach the user agent byte by byte, whatever is in them, directly and from the store."""

import json
from typing import Any

import pytest

from autopush.webpush.syntax import encode_base64url
from support.connection_harness import CHANNEL, Harness
from support.endpoint_harness import AES128GCM, MAX_DATA, Endpoint

DECLARATIVE = json.dumps(
    {"web_push": 8030, "notification": {"title": "Grüße", "navigate": "https://example.com/"}}
).encode()
BODIES = {
    "one byte": b"\0",
    "no salt and no key": b"\xff" * 20,
    "text of a UnifiedPush sender": '{"content": "Grüße"}'.encode(),
    "every byte": bytes(range(256)),
    "a record size of 0": bytes(86),
    "4,096 bytes": b"x" * MAX_DATA,
}


async def received(
    harness: Harness, endpoint: Endpoint, headers: dict[str, str], body: bytes, *, stored: bool
) -> dict[str, Any]:
    """The notification of a push to a user agent that is connected, or was not at that moment."""
    agent = await harness.subscribed()
    uaid = agent.uaid
    if stored:
        agent.disconnect()
        await harness.run_until_idle()
    assert (await endpoint.push(headers, body, uaid=uaid)).status == 201
    if stored:
        agent = await harness.hello(uaid)
        _, notification = agent.received()
        assert isinstance(notification, dict)
        return notification
    return agent.reply()


BOTH = pytest.mark.parametrize("stored", [False, True], ids=["direct", "stored"])


@BOTH
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_under_the_name_of_aes128gcm_is_not_looked_into(
    harness: Harness, endpoint: Endpoint, body: bytes, stored: bool
) -> None:
    notification = await received(harness, endpoint, AES128GCM, body, stored=stored)
    assert notification["channelID"] == CHANNEL
    assert notification["data"] == encode_base64url(body)
    assert notification["headers"] == {"encoding": "aes128gcm"}


@BOTH
async def test_an_empty_body_arrives_without_data_and_headers(
    harness: Harness, endpoint: Endpoint, stored: bool
) -> None:
    notification = await received(harness, endpoint, {"ttl": "60"}, b"", stored=stored)
    assert notification.keys() == {"messageType", "channelID", "version"}


@BOTH
async def test_declarative_web_push_arrives_with_its_content_type(
    harness: Harness, endpoint: Endpoint, stored: bool
) -> None:
    headers = AES128GCM | {"content-type": "application/notification+json"}
    notification = await received(harness, endpoint, headers, DECLARATIVE, stored=stored)
    assert notification["data"] == encode_base64url(DECLARATIVE)
    assert notification["headers"] == {
        "encoding": "aes128gcm",
        "content_type": "application/notification+json",
    }
