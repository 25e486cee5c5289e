"""Deleting a stored message."""

import pytest

from autopush.net.http_messages import Response
from autopush.store.tables import message_table
from autopush.webpush.notification import Notification
from autopush.webpush.tokens import KeyRing, new_key, new_message_id
from keytables import Throttled, Unavailable
from support.connection_harness import CHANNEL, UAID, Harness
from support.endpoint_harness import Endpoint, headers_of, refusal


async def stored(harness: Harness, topic: str | None = None) -> Notification:
    message = harness.message(topic=topic)
    await harness.store.current.store(message)
    return message


async def delete(endpoint: Endpoint, message_id: str) -> Response:
    return await endpoint.ask("DELETE", f"/m/{message_id}")


@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_stored_message_is_deleted_with_204(endpoint: Endpoint, topic: str | None) -> None:
    message, other = await stored(endpoint.harness, topic), await stored(endpoint.harness)
    response = await delete(endpoint, message.version)
    assert (response.status, response.body, response.content_type) == (204, b"", None)
    assert endpoint.harness.stored_versions() == [other.version]


@pytest.mark.parametrize("topic", [None, "news"])
async def test_an_absent_message_is_204_too(endpoint: Endpoint, topic: str | None) -> None:
    message = await stored(endpoint.harness, topic)
    for _ in range(2):
        assert (await delete(endpoint, message.version)).status == 204


async def test_a_legacy_id_finds_its_row(harness: Harness, endpoint: Endpoint) -> None:
    text = harness.ring.encrypt(f"m:{UAID}:{CHANNEL.replace('-', '')}".encode())
    table = await harness.engine.ensure_table(message_table("message"))
    await table.put({"uaid": UAID, "chidmessageid": f"{CHANNEL}:{text}", "updateid": text})
    assert (await delete(endpoint, text)).status == 204
    assert harness.rows() == []


async def test_the_channels_row_cannot_be_deleted_as_a_message(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    message = await stored(endpoint.harness)
    await delete(endpoint, message.version)
    assert await endpoint.harness.store.current.channels(UAID) == {CHANNEL}


@pytest.mark.parametrize("text", ["x", "gAAAAA", "=", "é", "x" * 5000, " "])
async def test_any_other_text_is_400_102(endpoint: Endpoint, text: str) -> None:
    response = await delete(endpoint, text)
    assert refusal(response) == (400, 102)
    assert headers_of(response)["access-control-allow-methods"] == "GET,DELETE"


async def test_an_id_of_another_service_is_400_102(harness: Harness, endpoint: Endpoint) -> None:
    message = await stored(harness)
    foreign = new_message_id(KeyRing([new_key()]), UAID, CHANNEL, None, message.sort_time)
    assert refusal(await delete(endpoint, foreign)) == (400, 102)
    assert harness.stored_versions() == [message.version]


async def test_an_endpoint_token_is_no_message_id(harness: Harness, endpoint: Endpoint) -> None:
    token = endpoint.path().rpartition("/")[2]
    assert refusal(await delete(endpoint, token)) == (400, 102)


@pytest.mark.parametrize(
    ("error", "answer"),
    [(Throttled("full"), (503, 201)), (Unavailable("gone"), (503, 202))],
    ids=["throttled", "unavailable"],
)
@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_store_that_fails_is_503_and_the_deletion_may_be_repeated(
    endpoint: Endpoint, topic: str | None, error: Exception, answer: tuple[int, int]
) -> None:
    message = await stored(endpoint.harness, topic)
    endpoint.harness.engine.fail("delete message", error)
    assert refusal(await delete(endpoint, message.version)) == answer
    assert endpoint.harness.stored_versions() == [message.version]
    assert (await delete(endpoint, message.version)).status == 204
    assert endpoint.harness.rows() == []
