"""SimplePush notifications: their forms for user agents and nodes."""

import json

import pytest

from autopush.webpush.notification import (
    MAX_VERSION,
    Notification,
    VersionUpdate,
    from_node,
    number_of,
    updates_message,
)

UAID = "0123456789abcdef0123456789abcdef"
CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
TEXTS = [None, "text", "", 'a"b\\c\n', "é\u2028😀", "</script>"]


@pytest.mark.parametrize("data", TEXTS)
@pytest.mark.parametrize("number", [0, 12, MAX_VERSION])
def test_the_user_agent_gets_the_number_and_the_data_as_sent(number: int, data: str | None) -> None:
    update = {"channelID": CHANNEL, "version": number}
    message = json.loads(VersionUpdate.of(UAID, CHANNEL, number, data).to_client())
    assert message == {
        "messageType": "notification",
        "updates": [update if data is None else {**update, "data": data}],
    }


@pytest.mark.parametrize("data", TEXTS)
@pytest.mark.parametrize("stored", [None, "storage"])
def test_another_node_reads_what_a_node_sends(data: str | None, stored: str | None) -> None:
    update = VersionUpdate.of(UAID, CHANNEL, 12, data)
    update.stored = stored
    read = from_node(UAID, update.to_node())
    assert isinstance(read, VersionUpdate)
    assert read == update


def test_the_body_for_another_node_has_the_originals_members() -> None:
    body = {"channelID": CHANNEL, "version": 12, "data": None}
    assert json.loads(VersionUpdate.of(UAID, CHANNEL, 12).to_node()) == body
    assert from_node(UAID, json.dumps(body).encode()) == VersionUpdate.of(UAID, CHANNEL, 12)
    del body["data"]
    assert from_node(UAID, json.dumps(body).encode()) == VersionUpdate.of(UAID, CHANNEL, 12)


def test_a_version_in_text_is_one_of_web_push() -> None:
    body = json.dumps({"channelID": CHANNEL, "version": "12"}).encode()
    assert type(from_node(UAID, body)) is Notification


def test_a_version_never_expires_and_is_named_by_its_channel() -> None:
    update = VersionUpdate.of(UAID, CHANNEL, 12)
    assert not update.expired(1e18)
    assert update.sort_key == CHANNEL
    assert number_of(update.version) == 12
    assert update.version != VersionUpdate.of(UAID, OTHER, 12).version


def test_several_updates_are_one_message_in_their_order() -> None:
    updates = [VersionUpdate.of(UAID, OTHER, 2, "x"), VersionUpdate.of(UAID, CHANNEL, 1)]
    assert json.loads(updates_message(list(updates)))["updates"] == [
        {"channelID": OTHER, "version": 2, "data": "x"},
        {"channelID": CHANNEL, "version": 1},
    ]
