"""Taking a stored message back."""

import pytest

from autopush.net.http_messages import Response
from autopush.store import PushStore, TablePlan
from autopush.store.tables import message_table
from autopush.webpush.identifiers import MessageId, MessageKind, new_message_id
from autopush.webpush.keyring import KeyRing, new_key
from autopush.webpush.notification import Notification
from keytables import Throttled, Unavailable
from support.connection_house import CHANNEL, UAID, House
from support.endpoint_harness import Endpoint, headers_of, refusal


async def stored(house: House, topic: str | None = None) -> Notification:
    message = house.message(topic=topic)
    await house.store.current.store(message)
    return message


async def delete(endpoint: Endpoint, message_id: str) -> Response:
    return await endpoint.ask("DELETE", f"/m/{message_id}")


@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_stored_message_is_deleted_with_204(
    house: House, endpoint: Endpoint, topic: str | None
) -> None:
    message, other = await stored(house, topic), await stored(house)
    response = await delete(endpoint, message.version)
    assert (response.status, response.body, response.content_type) == (204, b"", None)
    assert house.stored_versions() == [other.version]


@pytest.mark.parametrize("topic", [None, "news"])
async def test_an_absent_message_is_204_too(
    house: House, endpoint: Endpoint, topic: str | None
) -> None:
    message = await stored(house, topic)
    for _ in range(2):
        assert (await delete(endpoint, message.version)).status == 204


async def test_deleting_a_replaced_topic_message_keeps_the_newer_one(
    house: House, endpoint: Endpoint
) -> None:
    old, new = await stored(house, "news"), await stored(house, "news")
    assert (await delete(endpoint, old.version)).status == 204
    assert house.stored_versions() == [new.version]
    assert (await delete(endpoint, new.version)).status == 204
    assert house.rows() == []


async def test_the_id_is_whole_with_or_without_its_padding(
    house: House, endpoint: Endpoint
) -> None:
    for topic in ("a", "ab", "abc", "a" * 20):
        message = await stored(house, topic)
        assert (await delete(endpoint, message.version.rstrip("="))).status == 204
    assert house.rows() == []


async def test_a_message_in_the_table_of_another_month_is_found() -> None:
    house = await House.open()
    for month in ("message_2026_11", "message_2026_12"):
        await house.engine.ensure_table(message_table(month))
    house.store = await PushStore.open(
        house.engine,
        TablePlan(),
        key_hash="",
        clock=house.clock,
    )
    old = next(table for table in house.store.tables if table.name == "message_2026_11")
    message = house.message()
    await old.store(message)
    assert (await delete(Endpoint(house), message.version)).status == 204
    assert house.engine.tables["message_2026_11"].items == {}


async def test_a_message_in_a_table_that_another_node_created_is_found() -> None:
    house = await House.open()
    endpoint = Endpoint(house)
    await house.known_user()
    newer = await house.engine.ensure_table(message_table("message_2026_12"))
    house.edit_record(current_month="message_2026_12")
    message = house.message()
    await newer.put({"uaid": UAID, "chidmessageid": message.sort_key, "updateid": message.version})
    assert (await delete(endpoint, message.version)).status == 204
    assert newer.items == {}


async def test_a_dropped_table_does_not_keep_a_message_from_being_deleted() -> None:
    house = await House.open()
    for month in ("message_2026_11", "message_2026_12"):
        await house.engine.ensure_table(message_table(month))
    house.store = await PushStore.open(house.engine, TablePlan(), key_hash="", clock=house.clock)
    message = house.message()
    await house.store.current.store(message)
    await house.engine.drop_table("message_2026_11")
    assert (await delete(Endpoint(house), message.version)).status == 204
    assert house.engine.tables["message_2026_12"].items == {}


async def test_a_legacy_id_finds_its_row(house: House, endpoint: Endpoint) -> None:
    text = MessageId(MessageKind.LEGACY, UAID, CHANNEL).encode(house.ring)
    table = await house.engine.ensure_table(message_table("message"))
    await table.put({"uaid": UAID, "chidmessageid": f"{CHANNEL}:{text}", "updateid": text})
    assert (await delete(endpoint, text)).status == 204
    assert house.rows() == []


async def test_the_channels_row_cannot_be_deleted_as_a_message(
    house: House, endpoint: Endpoint
) -> None:
    await house.known_user()
    message = await stored(house)
    await delete(endpoint, message.version)
    assert await house.store.current.channels(UAID) == {CHANNEL}


@pytest.mark.parametrize("text", ["x", "gAAAAA", "=", "é", "x" * 5000, " "])
async def test_any_other_text_is_400_102(endpoint: Endpoint, text: str) -> None:
    response = await delete(endpoint, text)
    assert refusal(response) == (400, 102)
    assert headers_of(response)["access-control-allow-methods"] == "DELETE"


async def test_an_id_of_another_service_is_400_102(house: House, endpoint: Endpoint) -> None:
    message = await stored(house)
    foreign = new_message_id(KeyRing([new_key()]), UAID, CHANNEL, None, message.sort_time)
    assert refusal(await delete(endpoint, foreign)) == (400, 102)
    assert house.stored_versions() == [message.version]


@pytest.mark.parametrize("plain", [b"02:x:y:1", b"99:" + UAID.encode(), b"", b"\xff"])
async def test_an_encrypted_text_that_is_no_id_is_400_102(
    house: House, endpoint: Endpoint, plain: bytes
) -> None:
    assert refusal(await delete(endpoint, house.ring.encrypt(plain))) == (400, 102)


async def test_an_endpoint_token_is_no_message_id(house: House, endpoint: Endpoint) -> None:
    token = endpoint.path().rpartition("/")[2]
    assert refusal(await delete(endpoint, token)) == (400, 102)


@pytest.mark.parametrize(
    ("error", "answer"),
    [(Throttled("full"), (503, 201)), (Unavailable("gone"), (503, 202))],
    ids=["throttled", "unavailable"],
)
@pytest.mark.parametrize("topic", [None, "news"])
async def test_a_store_that_fails_is_503_and_the_deletion_may_be_repeated(
    house: House,
    endpoint: Endpoint,
    topic: str | None,
    error: Exception,
    answer: tuple[int, int],
) -> None:
    message = await stored(house, topic)
    house.engine.fail("delete message", error)
    assert refusal(await delete(endpoint, message.version)) == answer
    assert house.stored_versions() == [message.version]
    assert (await delete(endpoint, message.version)).status == 204
    assert house.rows() == []
