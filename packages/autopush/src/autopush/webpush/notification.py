"""A notification, from the push request to the user agent.

Rule: the JSON for a client or another node has exactly the members the protocol names; ``data`` is
base64url and ids are plain ASCII, so they go into JSON as they are.
"""

import msgspec
import orjson

from autopush.webpush.identifiers import is_channel_id, sort_key


class Notification(msgspec.Struct, gc=False, kw_only=True):
    """One message for one channel of one user agent.

    ``uaid``        32 hex digits; ``channel_id`` dashed; ``version`` the message id's Fernet text
    ``ttl``         seconds, after the cap; ``timestamp``: seconds since the epoch when it was taken
    ``topic``       or None
    ``data``        base64url without padding, or None with an empty body
    ``headers``     encoding, encryption, crypto_key, encryption_key, as far as sent; None without
                    a body
    ``sort_time``   as in ids; None for topic messages, legacy rows and what another node has sent
    ``urgency``     of RFC 8030, as far as sent; only bridges need it, so it is not stored
    ``stored``      name of the message table it is stored in already, None if it is not stored
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
    urgency: str | None = None
    stored: str | None = None

    @property
    def sort_key(self) -> str:
        """The sort key of its row. Without a topic and a sort time this is a legacy row's, so
        give a message from another node its sort time before storing it
        (:func:`~autopush.webpush.identifiers.sort_time_of`).
        """
        return sort_key(self.channel_id, self.topic, self.sort_time, self.version)

    def expired(self, now: float) -> bool:
        """Whether its TTL is over at ``now``, in seconds since the epoch."""
        return now >= self.timestamp + self.ttl

    def to_client(self) -> bytes:
        """The WebSocket message, JSON."""
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
        head = (
            f'{{"channelID":"{self.channel_id}","version":"{self.version}","ttl":{self.ttl}'
            f',"topic":{topic},"timestamp":{self.timestamp}{stored}'
        )
        if self.data is None:
            return f"{head}}}".encode()
        return f'{head},"data":"{self.data}","headers":{_headers_json(self.headers)}}}'.encode()


class _NodePayload(msgspec.Struct, gc=False):
    channel_id: str = msgspec.field(name="channelID")
    version: str
    ttl: int | None = None
    topic: str | None = None
    timestamp: int | None = None
    data: str | None = None
    headers: dict[str, str] | None = None
    stored: str | None = None


_COMMON_HEADERS = {"encoding": "aes128gcm"}
_COMMON_JSON = '{"encoding":"aes128gcm"}'
_node_payload = msgspec.json.Decoder(_NodePayload)


def from_node(uaid: str, body: bytes) -> Notification:
    """The notification in the body of ``PUT /push/{uaid}``; unknown members are ignored.

    :raises ValueError: not JSON, a member missing or of another type, an impossible value
    """
    try:
        sent = _node_payload.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"node payload: {error}") from None
    if not is_channel_id(sent.channel_id):
        raise ValueError("node payload: channelID is not a lower-case dashed UUID")
    if not sent.version:
        raise ValueError("node payload: version is empty")
    # JSON strings hold quotes and control characters only escaped. Without a backslash in the
    # body, then, no text in it can break the messages that are put together from it.
    if b"\\" in body and not all(
        map(_is_plain, (sent.version, sent.topic, sent.data, sent.stored))
    ):
        raise ValueError("node payload: a text in it holds a character it cannot have")
    if (sent.ttl or 0) < 0 or (sent.timestamp or 0) < 0:
        raise ValueError("node payload: ttl or timestamp is negative")
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
    )


def _is_plain(text: str | None) -> bool:
    return text is None or not ('"' in text or "\\" in text or not text.isprintable())


def _headers_json(headers: dict[str, str] | None) -> str:
    if headers == _COMMON_HEADERS:
        return _COMMON_JSON
    return orjson.dumps(headers or {}).decode()
