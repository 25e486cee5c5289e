"""What nodes send each other: notifications, as the body of ``PUT /push/{uaid}``.

They are put together by ``to_node`` of each kind of notification, and read here.
"""

from typing import Final

import msgspec

from autopush.webpush.identifiers import is_channel_id, parse_sort_time
from autopush.webpush.notification import Notification
from autopush.webpush.version_update import MAX_VERSION, VersionUpdate


class _NodePayload(msgspec.Struct, gc=False):
    channel_id: str = msgspec.field(name="channelID")
    version: int | str
    ttl: int | None = None
    topic: str | None = None
    timestamp: int | None = None
    data: str | None = None
    headers: dict[str, str] | None = None
    stored: str | None = None
    unsettled: bool = False
    topic_order: int = 0
    sort_time: str | None = None


_node_payload: Final = msgspec.json.Decoder(_NodePayload)


def from_node(uaid: str, body: bytes) -> Notification:
    """The notification in the body of ``PUT /push/{uaid}``; unknown members are ignored.

    A ``version`` that is a number makes it one of SimplePush.

    :raises ValueError: not JSON, a member missing or of another type, an impossible value
    """
    try:
        sent = _node_payload.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"node payload: {error}") from None
    if not is_channel_id(sent.channel_id):
        raise ValueError("node payload: channelID is not a lower-case dashed UUID")
    if isinstance(sent.version, int):
        return _version_update(uaid, sent, sent.version)
    if not sent.version:
        raise ValueError("node payload: version is empty")
    # JSON strings hold quotes and control characters only escaped. Without a backslash in the
    # body, then, no text in it can break the messages that are put together from it.
    if b"\\" in body and not all(
        map(_is_plain, (sent.version, sent.topic, sent.data, sent.stored))
    ):
        raise ValueError("node payload: a text in it holds a character it cannot have")
    if (sent.ttl or 0) < 0 or (sent.timestamp or 0) < 0 or sent.topic_order < 0:
        raise ValueError("node payload: ttl, timestamp or topic_order is negative")
    return Notification(
        uaid=uaid,
        channel_id=sent.channel_id,
        version=sent.version,
        ttl=sent.ttl or 0,
        timestamp=sent.timestamp or 0,
        topic=sent.topic,
        data=sent.data or None,
        headers=(sent.headers or {}) if sent.data else None,
        stored=sent.stored or None,
        unsettled=sent.unsettled,
        topic_order=sent.topic_order,
        sort_time=None if sent.sort_time is None else _sort_time(sent.sort_time),
    )


def _version_update(uaid: str, sent: _NodePayload, number: int) -> VersionUpdate:
    if not 0 <= number <= MAX_VERSION:
        raise ValueError("node payload: version is out of range")
    update = VersionUpdate.of(uaid, sent.channel_id, number, sent.data)
    update.stored = sent.stored or None
    return update


def _sort_time(text: str) -> int:
    try:
        return parse_sort_time(text)
    except ValueError as error:
        raise ValueError(f"node payload: {error}") from None


def _is_plain(text: str | None) -> bool:
    return text is None or not ('"' in text or "\\" in text or not text.isprintable())
