"""A notification, from the push request to the user agent, and on its way between nodes.

A SimplePush notification announces a new version number of a channel. Only the newest counts, and
it never expires, so it is handled as a notification whose topic is the same for all.

Rule: the JSON for a client or another node has exactly the members of the protocol; ``data`` is
base64url and ids are plain ASCII, so they are inserted without escaping.
"""

from collections.abc import Sequence
from typing import Final, Self

import msgspec
import orjson

from autopush.webpush.identifiers import has_receipt, is_channel_id, parse_sort_time, sort_key
from autopush.webpush.urgency import NORMAL, known_urgency


class Notification(msgspec.Struct, gc=False, kw_only=True):
    """One message for one channel of one user agent.

    ``uaid``        32 hex digits; ``channel_id`` dashed; ``version`` the message id's Fernet text
    ``ttl``         seconds, after the cap; ``timestamp``: seconds since the epoch when it was taken
    ``data``        base64url without padding, or None with an empty body
    ``headers``     encoding, encryption, crypto_key, encryption_key, as far as sent; None without
                    a body
    ``sort_time``   as in ids; None for topic messages and legacy rows
    ``topic_order`` microseconds since the epoch when it was taken; 0 if that is not known. Of two
                    messages of one topic the one with the higher number is the newer one
    ``urgency``     of RFC 8030; stored, and sent to nodes, unless it is normal
    ``stored``      name of the message table it is stored in already, None if it is not stored
    ``unsettled``   the put that stored it may take effect once more
    ``has_receipt`` the sender wants to know what becomes of it; of a message from the store only
                    its version says so
    """

    uaid: str
    channel_id: str
    version: str
    ttl: int = 0
    timestamp: int = 0
    topic: str | None = None
    data: str | None = None
    headers: dict[str, str] | None = None
    sort_time: int | None = None
    topic_order: int = 0
    urgency: str = NORMAL
    stored: str | None = None
    unsettled: bool = False
    has_receipt: bool = False

    @property
    def sort_key(self) -> str:
        """Without topic and sort time a legacy key, as for nodes that send no sort times."""
        return sort_key(self.channel_id, self.topic, self.sort_time, self.version)

    def expired(self, now: float) -> bool:
        """``now``: epoch seconds."""
        return now >= self.timestamp + self.ttl

    def to_client(self) -> bytes:
        head = (
            f'{{"messageType":"notification","channelID":"{self.channel_id}"'
            f',"version":"{self.version}"'
        )
        if self.data is None:
            return f"{head}}}".encode()
        return f'{head},"data":"{self.data}","headers":{_headers_json(self.headers)}}}'.encode()

    def to_node(self) -> bytes:
        """The body of ``PUT /push/{uaid}`` on the node that holds the user agent, JSON."""
        topic = "null" if self.topic is None else f'"{self.topic}"'
        stored = "" if self.stored is None else f',"stored":"{self.stored}"'
        if self.unsettled:
            stored += ',"unsettled":true'
        if self.topic_order:
            stored += f',"topic_order":{self.topic_order}'
        if self.urgency != NORMAL:
            stored += f',"urgency":"{self.urgency}"'
        if self.sort_time is not None:
            stored += f',"sort_time":"{self.sort_time}"'
        head = (
            f'{{"channelID":"{self.channel_id}","version":"{self.version}","ttl":{self.ttl}'
            f',"topic":{topic},"timestamp":{self.timestamp}{stored}'
        )
        if self.data is None:
            return f"{head}}}".encode()
        return f'{head},"data":"{self.data}","headers":{_headers_json(self.headers)}}}'.encode()


_COMMON_HEADERS = {"encoding": "aes128gcm"}
_COMMON_JSON = '{"encoding":"aes128gcm"}'


def _headers_json(headers: dict[str, str] | None) -> str:
    if headers == _COMMON_HEADERS:
        return _COMMON_JSON
    return orjson.dumps(headers or {}).decode()


# ── SimplePush ────────────────────────────────────────────────────────────────────────────────────

MAX_VERSION: Final = 2**63 - 1
_FOREVER: Final = 2**62


class VersionUpdate(Notification, gc=False, kw_only=True):
    """``version``: as :func:`version_text` writes it. ``data``: any text, never stored."""

    ttl: int = _FOREVER
    topic: str | None = "version"

    @classmethod
    def of(cls, uaid: str, channel_id: str, number: int, data: str | None = None) -> Self:
        return cls(
            uaid=uaid, channel_id=channel_id, version=version_text(channel_id, number), data=data
        )

    @property
    def sort_key(self) -> str:
        return self.channel_id

    def expired(self, now: float) -> bool:  # noqa: ARG002 - as in the base class
        return False

    def to_client(self) -> bytes:
        return updates_message([self])

    def to_node(self) -> bytes:
        """The body of ``PUT /push/{uaid}`` on the node that holds the user agent, JSON."""
        body = _members(self) | {"data": self.data}
        if self.stored is not None:
            body["stored"] = self.stored
        return orjson.dumps(body)


def version_text(channel_id: str, number: int) -> str:
    """Unique among all channels of a user."""
    return f"{channel_id}:{number}"


def number_of(version: str) -> int:
    return int(version.rpartition(":")[2])


def updates_message(updates: Sequence[Notification]) -> bytes:
    members = [
        _members(update) if update.data is None else _members(update) | {"data": update.data}
        for update in updates
    ]
    return orjson.dumps({"messageType": "notification", "updates": members})


def _members(update: Notification) -> dict[str, object]:
    return {"channelID": update.channel_id, "version": number_of(update.version)}


# ── between nodes ─────────────────────────────────────────────────────────────────────────────────


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
    urgency: str = NORMAL


_node_payload: Final = msgspec.json.Decoder(_NodePayload)


def from_node(uaid: str, body: bytes) -> Notification:
    """Decode the body of ``PUT /push/{uaid}``; a numeric ``version`` makes it one of SimplePush.

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
    # Quotes and control characters in JSON strings are escaped: without a backslash in the body,
    # no text in it can break the JSON that is assembled from it.
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
        urgency=known_urgency(sent.urgency) or NORMAL,
        sort_time=None if sent.sort_time is None else _sort_time(sent.sort_time),
        has_receipt=has_receipt(sent.version),
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
