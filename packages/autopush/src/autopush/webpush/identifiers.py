"""Identifiers: UAIDs, channel ids, message ids, and the sort keys of message rows.

Inside the service a UAID is 32 lower-case hex digits and a channel id the dashed lower-case form;
other spellings are converted on input.

    kind          plaintext of a message id             sort key of its row
    topic         01:{uaid}:{channel hex}:{topic}       01:{channel}:{topic}
    timestamped   02:{uaid}:{channel hex}:{sort time}   02:{sort time}:{channel}
    legacy        m:{uaid}:{channel hex}                {channel}:{message id}

Sort times are microseconds since the epoch, unpadded: the number of digits stays the same for
centuries, so rows sort by time. Ours have eight more digits, those of the process
(:class:`IdFactory`), which sort like decimals, so both kinds share one order. The Fernet text of a
message id, with padding, is the ``version`` a user agent sees, the ``updateid`` of a row and the
tail of ``Location``. The id of a message whose sender wants a receipt begins with a mark, and its
plaintext with the receipt subscription (32 hex digits and a colon).

Rule: a topic message has no sort time; text that does not match the table exactly is no message id.
"""

import secrets
import uuid
from enum import StrEnum
from hashlib import sha256
from typing import Final, TypeGuard

import msgspec

from autopush.clock import Clock

_HEX: Final = "0123456789abcdef"

CHANNELS_ROW: Final = " "
"""Sort key of the row that holds the channels of a user."""

TIMESTAMPED_ROWS: Final = "02:"
"""Topic rows and the channels row sort before this, legacy rows on either side."""

_PER_MICROSECOND: Final = 10**8
_MOST_DIGITS: Final = 26  # as many as the Fernet text of an id has room for without growing


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────


def new_secret() -> str:
    """Random text of 256 bits, base64url."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """What is stored of it: SHA-256 in hex, which is enough for a :func:`new_secret`."""
    return sha256(secret.encode()).hexdigest()


# ── UAIDs and channel ids ────────────────────────────────────────────────────────────────────────


def is_uaid(value: object) -> TypeGuard[str]:
    """Accepts the only form on the wire: 32 lower-case hex digits."""
    # strip() takes hex digits off both ends; nothing is left only if there was nothing else.
    return isinstance(value, str) and len(value) == 32 and not value.strip(_HEX)


def is_channel_id(value: object) -> TypeGuard[str]:
    """Accepts the only form on the wire: lower-case, dashed, 36 characters."""
    return (
        isinstance(value, str)
        and len(value) == 36
        and value[8] == value[13] == value[18] == value[23] == "-"
        and is_uaid(value.replace("-", ""))
    )


def undashed(channel_id: str) -> str:
    return channel_id.replace("-", "")


def dashed(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def canonical_uaid(value: object) -> str | None:
    """The UAID in any spelling of a UUID, or None."""
    if not isinstance(value, str) or len(value) > 45:  # urn:uuid: and 36 characters
        return None
    bare = value.lower().removeprefix("urn:uuid:").removeprefix("{").removesuffix("}")
    bare = bare.replace("-", "")
    return bare if is_uaid(bare) else None


def canonical_uuid(value: object) -> str | None:
    """The channel id (lower-case, dashed) in any spelling of a UUID, or None."""
    digits = canonical_uaid(value)
    return None if digits is None else dashed(digits)


def new_uaid() -> str:
    return uuid.uuid4().hex


# ── message ids and sort keys ────────────────────────────────────────────────────────────────────


class MessageKind(StrEnum):
    """The first part of a message id's plaintext; see the table above."""

    TOPIC = "01"
    TIMESTAMPED = "02"
    LEGACY = "m"


RECEIPT_MARK: Final = "R"
"""No Fernet text, and no SimplePush version, begins with it."""


def has_receipt(version: str) -> bool:
    """Whether the sender of that message wants to know what becomes of it; nothing is decrypted."""
    return version.startswith(RECEIPT_MARK)


def message_id_hash(text: str) -> str:
    """Logged in place of a message id, which is enough to delete the message."""
    return sha256(text.encode(errors="replace")).hexdigest()[:16]


def sort_key(channel_id: str, topic: str | None, sort_time: int | None, version: str) -> str:
    """``version`` (the id's text) counts in legacy rows only."""
    if topic is not None:
        return f"01:{channel_id}:{topic}"
    if sort_time is not None:
        return f"02:{sort_time}:{channel_id}"
    return f"{channel_id}:{version}"


def sort_key_after(sort_time: int) -> str:
    """Timestamped rows after ``sort_time`` are greater than this."""
    return f"02:{sort_time}:z"


class SortKey(msgspec.Struct, frozen=True, gc=False):
    """``version`` (the id's text): in legacy keys only."""

    kind: MessageKind
    channel_id: str
    topic: str | None = None
    sort_time: int | None = None
    version: str | None = None


def parse_sort_key(text: str) -> SortKey:
    """:raises ValueError: not the key of a message row, as that of :data:`CHANNELS_ROW`"""
    if text.startswith("02:"):
        time_text, _, channel_id = text[3:].partition(":")
        key = SortKey(MessageKind.TIMESTAMPED, channel_id, sort_time=parse_sort_time(time_text))
    elif text.startswith("01:"):
        key = SortKey(MessageKind.TOPIC, text[3:39], topic=text[40:])
        if text[39:40] != ":" or not key.topic:
            raise ValueError("not a sort key: topic is missing")
    else:
        key = SortKey(MessageKind.LEGACY, text[:36], version=text[37:])
        if text[36:37] != ":" or not key.version:
            raise ValueError("not a sort key: of no known form")
    if not is_channel_id(key.channel_id):
        raise ValueError("not a sort key: channel id is malformed")
    return key


class IdFactory:
    """Unique, increasing sort times: microseconds, then eight digits of this process.

    Each process draws its digits at random when it starts, so processes that share a store need no
    coordination: two give one time to messages of one channel only if they drew the same of 100
    million numbers *and* meet in one microsecond. (Shares of the range instead would have to be
    assigned and reclaimed across machines, and leave each process fewer times.) A restarted process
    draws again, so a clock set back does not repeat times; in a running one they only grow.
    """

    __slots__ = ("_clock", "_digits", "_last")

    def __init__(self, clock: Clock, digits: int | None = None) -> None:
        self._clock = clock
        self._digits = secrets.randbelow(_PER_MICROSECOND) if digits is None else digits
        self._last = 0

    def next(self) -> int:
        self._last = max(int(self._clock() * 1_000_000), self._last + 1)
        return self._last * _PER_MICROSECOND + self._digits


def microseconds_of(sort_time: int) -> int:
    """Epoch microseconds of a sort time made by :class:`IdFactory`."""
    return sort_time // _PER_MICROSECOND


def parse_sort_time(text: str) -> int:
    """:raises ValueError: not decimal digits, too many of them, or a leading zero"""
    # A leading zero would give one time two spellings, and so one message two keys.
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS) or text[0] == "0":
        raise ValueError(f"sort time: expected up to {_MOST_DIGITS} digits")
    return int(text)
