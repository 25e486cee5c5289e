"""A notification, from the push request to the user agent.

Rule: the JSON for a client or another node has exactly the members the protocol names; ``data`` is
base64url and ids are plain ASCII, so they go into JSON as they are.
"""

import msgspec
import orjson

from autopush.webpush.identifiers import sort_key


class Notification(msgspec.Struct, gc=False, kw_only=True):
    """One message for one channel of one user agent.

    ``uaid``        32 hex digits; ``channel_id`` dashed; ``version`` the message id's Fernet text
    ``ttl``         seconds, after the cap; ``timestamp``: seconds since the epoch when it was taken
    ``topic``       or None
    ``data``        base64url without padding, or None with an empty body
    ``headers``     encoding, encryption, crypto_key, encryption_key, as far as sent; None without
                    a body
    ``sort_time``   as in ids; None for topic messages and legacy rows
    ``topic_order`` microseconds since the epoch when it was taken; 0 if that is not known. Of two
                    messages of one topic the one with the higher number is the newer one
    ``urgency``     of RFC 8030, as far as sent; only bridges need it, so it is not stored
    ``stored``      name of the message table it is stored in already, None if it is not stored
    ``unsettled``   the put that stored it may take effect once more
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
    urgency: str | None = None
    stored: str | None = None
    unsettled: bool = False

    @property
    def sort_key(self) -> str:
        """The sort key of its row. Without a topic and a sort time this is a legacy row's, so
        a message of a node that does not send sort times gets it from its id.
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
        if self.unsettled:
            stored += ',"unsettled":true'
        if self.topic_order:
            stored += f',"topic_order":{self.topic_order}'
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
