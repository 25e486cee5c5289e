"""Notifications of Web Push and SimplePush: for user agents and for other nodes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopush.webpush.notification import (
    MAX_VERSION,
    Notification,
    VersionUpdate,
    from_node,
    number_of,
    updates_message,
)
from support.cases import cases

# ── notification ──────────────────────────────────────────────────────────────────────────────────

UAID = "deadbeef00000000deadbeef00000001"
CHID = "12345678-aaaa-bbbb-cccc-1234567890ab"
PAYLOAD = {"channelID": CHID, "version": "gAAAA=="}

header_maps = st.dictionaries(
    st.sampled_from(["encoding", "encryption", "crypto_key", "encryption_key"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126)),
)
base64_text = st.text("abcXYZ019-_", min_size=1)
notifications = st.builds(
    lambda content, **members: Notification(
        uaid=UAID, data=content and content[0], headers=content and content[1], **members
    ),
    content=st.none() | st.tuples(base64_text, header_maps),
    channel_id=st.uuids().map(str),
    version=base64_text.map(lambda text: text + "=="),
    ttl=st.integers(0, 2_592_000),
    timestamp=st.integers(0, 2**40),
    topic=st.none() | base64_text,
    stored=st.sampled_from([None, "message", "message_2026_11"]),
    sort_time=st.none() | st.integers(1, 10**26 - 1),
)


def plain(**members: object) -> Notification:
    return Notification(uaid=UAID, channel_id=CHID, version="gAAAA==", **members)  # type: ignore[arg-type]


def test_the_json_for_a_client_has_exactly_these_members() -> None:
    notification = plain(
        data="eA",
        headers={"encoding": "aes128gcm"},
        ttl=60,
        timestamp=1,
        topic="news",
        sort_time=5,
        stored="message_2026_11",
    )
    assert notification.to_client() == (
        b'{"messageType":"notification","channelID":"12345678-aaaa-bbbb-cccc-1234567890ab",'
        b'"version":"gAAAA==","data":"eA","headers":{"encoding":"aes128gcm"}}'
    )


@given(notifications)
def test_a_client_reads_back_what_the_notification_holds(notification: Notification) -> None:
    written = json.loads(notification.to_client())
    assert written.pop("messageType") == "notification"
    assert written.pop("channelID") == notification.channel_id
    assert written.pop("version") == notification.version
    if notification.data is not None:
        assert written.pop("data") == notification.data
        assert written.pop("headers") == notification.headers
    assert not written


@given(notifications)
def test_a_node_reads_back_what_another_wrote(notification: Notification) -> None:
    assert from_node(UAID, notification.to_node()) == notification


def test_the_json_for_a_node_has_the_documented_members() -> None:
    notification = plain(data="eA", headers={"encoding": "aesgcm"}, ttl=60, timestamp=7)
    assert json.loads(notification.to_node()) == {
        **PAYLOAD,
        "ttl": 60,
        "topic": None,
        "timestamp": 7,
        "data": "eA",
        "headers": {"encoding": "aesgcm"},
    }
    stored = plain(ttl=60, timestamp=7, topic="news", stored="message_2026_11")
    assert json.loads(stored.to_node()) == {
        **PAYLOAD,
        "ttl": 60,
        "topic": "news",
        "timestamp": 7,
        "stored": "message_2026_11",
    }
    timed = plain(ttl=60, timestamp=7, sort_time=170000000000000012345678)
    assert json.loads(timed.to_node()) == {
        **PAYLOAD,
        "ttl": 60,
        "topic": None,
        "timestamp": 7,
        "sort_time": "170000000000000012345678",
    }


def test_members_of_newer_nodes_are_ignored() -> None:
    body = json.dumps({**PAYLOAD, "reliability_id": "x", "reliable_state": {"a": [1]}})
    assert from_node(UAID, body.encode()) == plain()


@cases("member", ["ttl", "topic", "timestamp", "data", "headers"])
def test_null_counts_as_absent(member: str) -> None:
    assert from_node(UAID, json.dumps({**PAYLOAD, member: None}).encode()) == plain()


@cases(
    ("member", "value"),
    [
        ("channelID", 5),
        ("channelID", None),
        ("channelID", CHID.upper()),
        ("channelID", CHID.replace("-", "")),
        ("version", -1),
        ("version", 2**63),
        ("version", 1.5),
        ("version", True),
        ("version", ""),
        ("version", 'a"b'),
        ("version", "a\\b"),
        ("version", "a\nb"),
        ("data", 'eA","x":"'),
        ("data", ["eA"]),
        ("topic", 'a","x":"'),
        ("topic", {}),
        ("ttl", "60"),
        ("ttl", -1),
        ("ttl", 1.5),
        ("timestamp", -1),
        ("timestamp", "now"),
        ("headers", ["a"]),
        ("headers", {"encoding": 1}),
        ("stored", True),
        ("sort_time", 5),
        ("sort_time", ""),
        ("sort_time", "05"),
        ("sort_time", "-5"),
        ("sort_time", "1" * 27),
    ],
)
def test_a_payload_of_another_shape_is_a_value_error(member: str, value: object) -> None:
    body = json.dumps({**PAYLOAD, member: value}).encode()
    with pytest.raises(ValueError, match=r"^node payload: "):
        from_node(UAID, body)


@pytest.mark.parametrize("missing", ["channelID", "version"])
def test_a_payload_without_its_ids_is_a_value_error(missing: str) -> None:
    body = json.dumps({name: text for name, text in PAYLOAD.items() if name != missing}).encode()
    with pytest.raises(ValueError, match=missing):
        from_node(UAID, body)


@cases(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b'{"channelID":"\xff"}', b'{"a":' * 50_000]
)
def test_what_is_no_object_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^node payload: "):
        from_node(UAID, body)


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
plausible = st.fixed_dictionaries(
    {"channelID": st.just(CHID), "version": st.text()},
    optional={
        "data": st.text(),
        "topic": st.text(),
        "ttl": st.integers(),
        "headers": st.dictionaries(st.text(), st.text(), max_size=3),
        "x": any_json,
    },
)
implausible = st.dictionaries(
    st.sampled_from([*PAYLOAD, "ttl", "topic", "timestamp", "data", "headers", "stored", "x"]),
    any_json,
).map(PAYLOAD.__or__)


@given(plausible | implausible, st.booleans())
def test_whatever_a_node_accepts_it_can_write_as_json(
    document: dict[str, object], ascii_only: bool
) -> None:
    body = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        notification = from_node(UAID, body)
    except ValueError:
        return
    written = json.loads(notification.to_client())
    assert (written["channelID"], written["version"]) == (CHID, document["version"])
    assert json.loads(notification.to_node())["topic"] == document.get("topic")


def test_a_notification_expires_when_its_ttl_is_over() -> None:
    notification = plain(ttl=60, timestamp=1000)
    assert not notification.expired(1059.9)
    assert notification.expired(1060)
    assert plain(timestamp=1000).expired(1000)


# ── version update ────────────────────────────────────────────────────────────────────────────────

CHANNEL = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
TEXTS = [None, "text", "", 'a"b\\c\n', "é\u2028😀", "</script>"]


@cases("data", TEXTS)
@cases("number", [0, 12, MAX_VERSION])
def test_the_user_agent_gets_the_number_and_the_data_as_sent(number: int, data: str | None) -> None:
    update = {"channelID": CHANNEL, "version": number}
    message = json.loads(VersionUpdate.of(UAID, CHANNEL, number, data).to_client())
    assert message == {
        "messageType": "notification",
        "updates": [update if data is None else {**update, "data": data}],
    }


@cases("data", TEXTS)
@cases("stored", [None, "storage"])
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
