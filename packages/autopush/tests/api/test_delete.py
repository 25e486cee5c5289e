"""Deleting a stored message."""

import pytest

from autopush.net.http_messages import Response
from autopush.store import PushStore, TablePlan
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
async def test_a_stored_message_is_deleted_with_204(
    harness: Harness, endpoint: Endpoint, topic: str | None
) -> None:
    message, other = await stored(harness, topic), await stored(harness)
    response = await delete(endpoint, message.version)
    assert (response.status, response.body, response.content_type) == (204, b"", None)
    assert harness.stored_versions() == [other.version]


@pytest.mark.parametrize("topic", [None, "news"])
async def test_an_absent_message_is_204_too(
    harness: Harness, endpoint: Endpoint, topic: str | None
) -> None:
    message = await stored(harness, topic)
    for _ in range(2):
        assert (await delete(endpoint, message.version)).status == 204


async def test_deleting_a_replaced_topic_message_keeps_the_newer_one(
    harness: Harness, endpoint: Endpoint
) -> None:
    old, new = await stored(harness, "news"), await stored(harness, "news")
    assert (await delete(endpoint, old.version)).status == 204
    assert harness.stored_versions() == [new.version]
    assert (await delete(endpoint, new.version)).status == 204
    assert harness.rows() == []


async def test_the_id_is_whole_with_or_without_its_padding(
    harness: Harness, endpoint: Endpoint
) -> None:
    for topic in ("a", "ab", "abc", "a" * 20):
        message = await stored(harness, topic)
        assert (await delete(endpoint, message.version.rstrip("="))).status == 204
    assert harness.rows() == []


async def test_a_message_in_the_table_of_another_month_is_found() -> None:
    harness = await Harness.open()
    for month in ("message_2026_11", "message_2026_12"):
        await harness.engine.ensure_table(message_table(month))
    harness.store = await PushStore.open(
        harness.engine,
        TablePlan(),
        key_hash="",
        clock=harness.clock,
    )
    old = next(table for table in harness.store.tables if table.name == "message_2026_11")
    message = harness.message()
    await old.store(message)
    assert (await delete(Endpoint(harness), message.version)).status == 204
    assert harness.engine.tables["message_2026_11"].items == {}


async def test_a_message_in_a_table_that_another_node_created_is_found() -> None:
    harness = await Harness.open()
    endpoint = Endpoint(harness)
    await harness.known_user()
    newer = await harness.engine.ensure_table(message_table("message_2026_12"))
    harness.change_record(current_month="message_2026_12")
    message = harness.message()
    await newer.put({"uaid": UAID, "chidmessageid": message.sort_key, "updateid": message.version})
    assert (await delete(endpoint, message.version)).status == 204
    assert newer.items == {}


async def test_a_dropped_table_does_not_keep_a_message_from_being_deleted() -> None:
    harness = await Harness.open()
    for month in ("message_2026_11", "message_2026_12"):
        await harness.engine.ensure_table(message_table(month))
    harness.store = await PushStore.open(
        harness.engine, TablePlan(), key_hash="", clock=harness.clock
    )
    message = harness.message()
    await harness.store.current.store(message)
    await harness.engine.drop_table("message_2026_11")
    assert (await delete(Endpoint(harness), message.version)).status == 204
    assert harness.engine.tables["message_2026_12"].items == {}


async def test_a_legacy_id_finds_its_row(harness: Harness, endpoint: Endpoint) -> None:
    text = harness.ring.encrypt(f"m:{UAID}:{CHANNEL.replace('-', '')}".encode())
    table = await harness.engine.ensure_table(message_table("message"))
    await table.put({"uaid": UAID, "chidmessageid": f"{CHANNEL}:{text}", "updateid": text})
    assert (await delete(endpoint, text)).status == 204
    assert harness.rows() == []


async def test_the_channels_row_cannot_be_deleted_as_a_message(
    harness: Harness, endpoint: Endpoint
) -> None:
    await harness.known_user()
    message = await stored(harness)
    await delete(endpoint, message.version)
    assert await harness.store.current.channels(UAID) == {CHANNEL}


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


@pytest.mark.parametrize("plain", [b"02:x:y:1", b"99:" + UAID.encode(), b"", b"\xff"])
async def test_an_encrypted_text_that_is_no_id_is_400_102(
    harness: Harness, endpoint: Endpoint, plain: bytes
) -> None:
    assert refusal(await delete(endpoint, harness.ring.encrypt(plain))) == (400, 102)


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
    harness: Harness,
    endpoint: Endpoint,
    topic: str | None,
    error: Exception,
    answer: tuple[int, int],
) -> None:
    message = await stored(harness, topic)
    harness.engine.fail("delete message", error)
    assert refusal(await delete(endpoint, message.version)) == answer
    assert harness.stored_versions() == [message.version]
    assert (await delete(endpoint, message.version)).status == 204
    assert harness.rows() == []
