"""Identifiers: UAIDs, channel ids, message ids, and the sort keys of message rows.

Inside the service a UAID is 32 lower-case hex digits and a channel id the 36-character dashed
lower-case form; any other spelling is converted where it comes in.

    kind          plaintext of a message id             sort key of its row
    topic         01:{uaid}:{channel hex}:{topic}       01:{channel}:{topic}
    timestamped   02:{uaid}:{channel hex}:{sort time}   02:{sort time}:{channel}
    legacy        m:{uaid}:{channel hex}                {channel}:{message id}

Sort times are microseconds since the epoch, in digits without padding: their number stays the same
for centuries, so rows sort by time. Ours have eight digits more, which are those of the process
(:class:`IdFactory`): read as text they are decimals, so rows of both kinds lie in one order. The
Fernet text of a message id, padding kept, is the ``version`` a user agent sees, the ``updateid`` of
a row and the tail of ``Location``.

Rule: a topic message never carries a sort time; what does not match the table exactly is no message
id.
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


# ── UAIDs and channel ids ────────────────────────────────────────────────────────────────────────


def is_uaid(value: object) -> TypeGuard[str]:
    """Whether ``value`` is a UAID in the one form it has on the wire: 32 lower-case hex digits."""
    # strip() takes hex digits off both ends; nothing is left only if there was nothing else.
    return isinstance(value, str) and len(value) == 32 and not value.strip(_HEX)


def is_channel_id(value: object) -> TypeGuard[str]:
    """Whether ``value`` is a channel id in its one form: lower-case, dashed, 36 characters."""
    return (
        isinstance(value, str)
        and len(value) == 36
        and value[8] == value[13] == value[18] == value[23] == "-"
        and is_uaid(value.replace("-", ""))
    )


def undashed(channel_id: str) -> str:
    """The 32 hex digits of a dashed id."""
    return channel_id.replace("-", "")


def dashed(digits: str) -> str:
    """The dashed form of 32 hex digits."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def canonical_uaid(value: object) -> str | None:
    """The UAID that ``value`` spells in any way a UUID is spelt, or None: it spells none."""
    if not isinstance(value, str) or len(value) > 45:  # urn:uuid: and 36 characters
        return None
    bare = value.lower().removeprefix("urn:uuid:").removeprefix("{").removesuffix("}")
    bare = bare.replace("-", "")
    return bare if is_uaid(bare) else None


def canonical_uuid(value: object) -> str | None:
    """The channel id (lower-case, dashed) that ``value`` spells in any way, or None."""
    digits = canonical_uaid(value)
    return None if digits is None else dashed(digits)


def new_uaid() -> str:
    """A fresh random UAID."""
    return uuid.uuid4().hex


# ── message ids and sort keys ────────────────────────────────────────────────────────────────────


class MessageKind(StrEnum):
    """The first part of a message id's plaintext; see the table above."""

    TOPIC = "01"
    TIMESTAMPED = "02"
    LEGACY = "m"


def message_id_hash(text: str) -> str:
    """What logs say in place of a message id: whoever has the id itself may delete the message."""
    return sha256(text.encode(errors="replace")).hexdigest()[:16]


def sort_key(channel_id: str, topic: str | None, sort_time: int | None, version: str) -> str:
    """The sort key of a message row; ``version`` (the id's text) counts in legacy rows only."""
    if topic is not None:
        return f"01:{channel_id}:{topic}"
    if sort_time is not None:
        return f"02:{sort_time}:{channel_id}"
    return f"{channel_id}:{version}"


def sort_key_after(sort_time: int) -> str:
    """The sort key that timestamped rows after ``sort_time`` are greater than."""
    return f"02:{sort_time}:z"


class SortKey(msgspec.Struct, frozen=True, gc=False):
    """A row's sort key taken apart; ``version`` (the id's text) is in legacy keys only."""

    kind: MessageKind
    channel_id: str
    topic: str | None = None
    sort_time: int | None = None
    version: str | None = None


def parse_sort_key(text: str) -> SortKey:
    """Take the sort key of a message row apart; :data:`CHANNELS_ROW` is none.

    :raises ValueError: of no known form
    """
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
    """Unique, increasing sort times: microseconds, then the digits of this process.

    Every process draws its digits at its start. So processes that share a store need not know of
    each other: for two of them to give one time to messages of one channel, they must have drawn
    the same of 100 million numbers *and* meet in one microsecond. (To give each a share of the
    times instead, someone has to hand out and take back the shares, over machines too, and the
    more shares there are, the fewer times each has.) A process started again draws again, so a
    clock set back meanwhile does not make its times repeat; while it runs they only grow.
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
    """A new sort time without the digits of the process."""
    return sort_time // _PER_MICROSECOND


def parse_sort_time(text: str) -> int:
    """The number of a sort time in decimal digits.

    :raises ValueError: it is none, or not as a new one is written
    """
    # A leading zero would give one time two spellings, and so one message two keys.
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS) or text[0] == "0":
        raise ValueError(f"sort time: expected up to {_MOST_DIGITS} digits")
    return int(text)
