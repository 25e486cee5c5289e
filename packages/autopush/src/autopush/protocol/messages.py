"""The JSON messages of the WebSocket protocol: text frames in, replies out.

Rule: no member is trusted to have the right type. Each is decoded as sent and validated by the
session, so that each mistake gets its documented answer.
"""

from collections.abc import Collection, Iterator, Mapping
from math import ceil
from typing import Final

import msgspec
import orjson

from autopush.protocol.states import Event
from autopush.webpush.notification import MAX_VERSION
from autopush.webpush.urgency import LOWEST

WEBSOCKET_ANCHOR: Final = "errors-websocket"
"""The fragment of the errors page for refusals on the WebSocket."""
BAD_UUID_FORMAT: Final = "Bad UUID format, use lower case, dashed format"
INVALID_UUID: Final = "Invalid UUID specified"
MISSING_CHANNEL: Final = "Missing ChannelID"
INVALID_URGENCY: Final = "min: expected very-low, low, normal or high, got "
NO_URGENCY: Final = "SimplePush has no urgency"
PONG: Final = b"{}"
URGENCY_SET: Final = orjson.dumps({"messageType": "urgency", "status": 200})
MAX_CODE: Final = 999
UNUSABLE: Final = (101, 102)
"""Codes of an ack: the message could not be decrypted, or not be given to the page."""
MAX_VALUES: Final = 4096
"""Values in one message, approximately: more would block the event loop for milliseconds. The
largest possible ack has half as many.
"""

EVENTS: Final = {
    "hello": Event.HELLO,
    "ping": Event.PING,
    "register": Event.REGISTER,
    "unregister": Event.UNREGISTER,
    "ack": Event.ACK,
    "nack": Event.NACK,
    "broadcast_subscribe": Event.BROADCASTS,
    "urgency": Event.URGENCY,
}
"""By `messageType`."""


class ClientMessage(msgspec.Struct, frozen=True, rename="camel"):
    """Any message of a user agent; a missing member is None, a missing `channel_id` UNSET."""

    message_type: object = None
    uaid: object = None
    use_webpush: object = msgspec.field(name="use_webpush", default=None)
    channel_ids: object = msgspec.field(name="channelIDs", default=None)
    broadcasts: object = None
    wakeup_host: object = msgspec.field(name="wakeup_host", default=None)
    mobilenetwork: object = None
    channel_id: object = msgspec.field(name="channelID", default=msgspec.UNSET)
    key: object = None
    updates: object = None
    version: object = None
    code: object = None
    urgency: object = None
    min: object = None
    secret: object = None

    def __repr__(self) -> str:  # without its secret
        return f"ClientMessage({self.message_type!r})"


class NotAMessageError(ValueError):
    """Not a readable JSON object, or one of too many values; the text says which."""


_BEFORE_VALUES: Final = b",[{"  # one of them before each value, except for an object's only one
_decoder: Final = msgspec.json.Decoder(ClientMessage)
_EMPTY: Final = ClientMessage()
_WHITESPACE: Final = b" \t\r\n"
"""That of JSON (RFC 8259, section 2)."""


def decode(payload: bytes) -> ClientMessage:
    """Wrong member types are kept as sent.

    :raises NotAMessageError: not a JSON object, more than `MAX_VALUES` values, or a number out of
        range
    """
    if len(payload) > MAX_VALUES and sum(map(payload.count, _BEFORE_VALUES)) > MAX_VALUES:
        raise NotAMessageError("too many values")
    try:
        return _decoder.decode(payload)
    except msgspec.ValidationError:
        is_object = payload.lstrip(_WHITESPACE).startswith(b"{")
        text = "a number out of range" if is_object else "not a JSON object"
        raise NotAMessageError(text) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise NotAMessageError("not JSON") from None


def is_empty(message: ClientMessage, payload: bytes) -> bool:
    """Whether the frame was `{}`, a ping, and not an object of unknown members (not decoded)."""
    return message == _EMPTY and payload.translate(None, _WHITESPACE) == b"{}"


def event_of(message: ClientMessage, payload: bytes) -> Event:
    kind = message.message_type
    if isinstance(kind, str):
        return EVENTS.get(kind, Event.INVALID)
    if kind is None and is_empty(message, payload):
        return Event.PING
    return Event.INVALID


def code_of(message: ClientMessage) -> int | None:
    """None if it is missing or invalid."""
    return _valid_code(message.code)


def _valid_code(code: object) -> int | None:
    if isinstance(code, int) and not isinstance(code, bool) and 0 <= code <= MAX_CODE:
        return code
    return None


def nacked(message: ClientMessage) -> str | None:
    """The version that a nack names, if any; SimplePush sends a number."""
    version = message.version
    if isinstance(version, int) and not isinstance(version, bool) and 0 <= version <= MAX_VERSION:
        return str(version)
    return version if isinstance(version, str) else None


def ack_codes(updates: object, versions: Collection[str]) -> Iterator[tuple[str, int | None]]:
    """The code for each of these versions, which `updates` must ack; None without a valid one."""
    for update in updates if isinstance(updates, list) else ():
        if isinstance(update, dict):
            version = update.get("version")
            if isinstance(version, str) and version in versions:
                yield version, _valid_code(update.get("code"))


def hello(
    uaid: str,
    *,
    env: str,
    ping: float,
    broadcasts: Mapping[str, object],
    min_urgency: str = LOWEST,
    secret: str | None = None,
    is_simplepush: bool = False,
) -> bytes:
    """`ping`: seconds between server pings, omitted when 0. `broadcasts`: those to update.
    `min_urgency`: the filter, omitted when there is none. `secret`: of the UAID, if it has just got
    one.
    """
    reply: dict[str, object] = {"messageType": "hello", "uaid": uaid, "status": 200}
    if not is_simplepush:
        reply["use_webpush"] = True
        reply["broadcasts"] = broadcasts
    reply["env"] = env
    if ping:
        reply["ping"] = ping
    if min_urgency != LOWEST:
        reply["urgency"] = min_urgency
    if secret is not None:
        reply["secret"] = secret
    return orjson.dumps(reply)


def duplicate_hello(uaid: str, more_info: str, *, is_simplepush: bool = False) -> bytes:
    """The session goes on after a second hello, so the reply names its UAID."""
    reply: dict[str, object] = {
        "messageType": "hello",
        "uaid": uaid,
        "status": 401,
        "reason": "duplicate hello",
        "more_info": more_info,
    }
    if not is_simplepush:
        reply["use_webpush"] = True
    return orjson.dumps(reply)


def registered(channel_id: str, endpoint: str) -> bytes:
    return orjson.dumps(
        {
            "messageType": "register",
            "channelID": channel_id,
            "pushEndpoint": endpoint,
            "status": 200,
        }
    )


def unregistered(channel_id: str) -> bytes:
    return orjson.dumps({"messageType": "unregister", "channelID": channel_id, "status": 200})


def refusal(
    message_type: str,
    channel_id: object,
    status: int,
    reason: str,
    more_info: str,
    retry_after: float | None = None,
) -> bytes:
    """The channel is echoed if it is text. `more_info`: a URL. `retry_after`: seconds."""
    reply: dict[str, object] = {"messageType": message_type, "status": status, "reason": reason}
    if isinstance(channel_id, str):
        reply["channelID"] = channel_id
    if retry_after is not None:
        reply["retry_after"] = ceil(retry_after)
    reply["more_info"] = more_info
    return orjson.dumps(reply)


def broadcast(broadcasts: Mapping[str, object]) -> bytes:
    return orjson.dumps({"messageType": "broadcast", "broadcasts": broadcasts})
