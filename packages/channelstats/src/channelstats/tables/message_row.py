"""A message as a row of the table Message, and as an item of the store.

Rule: a row knows nothing of the text it was made from: only counts, IDs and times.

Several things are one text in an attribute. What was encoded comes back as it was; both separators
of the past are understood, `:` is written.

    mentions   UID:UID:UID              also UID,UID,UID
    reactions  emoji:UID:UID,emoji:UID  also emoji;UID;UID,emoji;UID
    replies    UID:TS,UID:TS            in the order of time

An emoji's name may hold colons (`+1::skin-tone-2`) but no capital letters, so the users of a
reaction are the longest tail of tokens that look like IDs.

Rule: an item has at most 400 KB, so each list of a row is bounded: what does not fit is left
out of it, the number of replies or of reactions is not.

What was written before 2019-10 (`user_id`, `is_thread_head`) is read. Flags beyond those of the
data model are written only when they are set.
"""

import re
from collections.abc import Iterable
from enum import IntFlag
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import orjson

from channelstats.days import Calendar
from channelstats.identifiers import USER_ID, is_timestamp, is_user_id, seconds
from channelstats.tables.items import struct_of, text
from keytables import Item

REACTION_USERS: Final = rf"((?::{USER_ID})*)$"
"""The users of a reaction whose separator is `:`, as a regular expression; its name is before
them."""

_REACTION: Final = re.compile(rf"^(.*?){REACTION_USERS}", re.DOTALL)
_SEPARATORS: Final = re.compile("[:,]")
_NOT_IN_NAMES: Final = re.compile(r"[,;\s]")
_LONGEST_NAME: Final = 100
LONGEST_LIST: Final = 60_000
"""Bytes of the mentions or of the replies of a message: no real one has more."""
LONGEST_REACTIONS: Final = 150_000
"""12,000 people, as in a large workspace."""

_EXTENSION: Final = re.compile(r"[A-Za-z0-9]{1,16}")


# ── several things in one text ────────────────────────────────────────────────────────────────────


class Reaction(NamedTuple):
    emoji: str
    users: tuple[str, ...]


class Reply(NamedTuple):
    user: str
    ts: str


def emoji_name(text: str) -> str:
    """An emoji as it is kept: lower case, bounded, without separators and half surrogates."""
    sound = text[:_LONGEST_NAME].encode(errors="ignore").decode()
    return _NOT_IN_NAMES.sub("", sound.lower())


def encode_mentions(users: Iterable[str]) -> str:
    return _bounded(":", users)


def _bounded(separator: str, parts: Iterable[str]) -> str:
    """Whole parts, the first ones where not all of them fit."""
    text = separator.join(parts)
    if len(text) <= LONGEST_LIST:
        return text
    return text[: LONGEST_LIST + 1].rpartition(separator)[0]


def decode_mentions(text: str) -> list[str]:
    return [user for user in _SEPARATORS.split(text) if user]


def encode_reactions(reactions: Iterable[Reaction]) -> str:
    return ",".join(":".join((emoji, *users)) for emoji, users in reactions)


def decode_reactions(text: str) -> list[Reaction]:
    return [_reaction(part) for part in text.split(",") if part]


def _reaction(part: str) -> Reaction:
    if ";" in part:
        name, *users = part.split(";")
        return Reaction(name, tuple(user for user in users if user))
    match = _REACTION.match(part)
    assert match is not None  # its first group takes anything
    return Reaction(match[1], tuple(match[2].split(":")[1:]))


def encode_replies(replies: Iterable[Reply]) -> str:
    return _bounded(
        ",", (f"{user}:{ts}" for user, ts in sorted(replies, key=lambda reply: reply.ts))
    )


def decode_replies(text: str) -> list[Reply]:
    """The replies; what is not a pair of an ID and a timestamp is left out."""
    pairs = (part.rpartition(":") for part in text.split(","))
    return [Reply(user, ts) for user, _, ts in pairs if is_user_id(user) and is_timestamp(ts)]


def extension(name: str) -> str:
    """The extension of a file's name; nothing when it does not look like one."""
    stem, point, last = name.rpartition(".")
    return last.lower() if stem and point and _EXTENSION.fullmatch(last) else ""


def encode_json(value: object) -> str:
    """JSON text, `""` for something empty."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode() if value else ""


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


class Sign(IntFlag):
    """Kinds of words in a message, by which a question is followed through the talk after it."""

    TO_ALL = 1
    """It calls on whoever reads it: something new begins."""
    WANTS_YES = 2
    """It asks whether something is so: `…, right?`"""
    THANKS = 4
    SETTLED = 8
    """It says that something works now, or was found: of a question it is none."""
    AGREES = 16
    """It begins with a yes or a no."""
    REPLIES = 32
    """It begins as an answer does, or speaks to somebody: `it`, `because`, `you`."""
    LAUGHS = 64
    OWN = 128
    """It speaks of who writes: `I`, `my`. A question back to somebody seldom does."""
    ASKS_BACK = 256
    """It asks what somebody has or did, as one does to help them: `did you`, `is your`."""


class MessageRow(msgspec.Struct, gc=False, array_like=True):
    """One message. Empty text stands for an absent attribute.

    ``slack_uid`` is the author: a `user`, else a `bot_id` (then ``is_bot``), else nobody.
    ``replies`` are those with a `user`, and ``reply_count`` is their number; ``bot_replies`` are
    those of authors known by `bot_id` alone. ``question``: it asks something. ``signs``: those of
    `Sign`, outside threads. ``fetched_at`` is in seconds: how recent this is, or was when it was
    written.
    """

    slack_cid: str
    ts: str
    slack_uid: str = ""
    word_count: int = 0
    mentions: str = ""
    reactions: str = ""
    reaction_count: int = 0
    thread_ts: str = ""
    parent_user_id: str = ""
    replies: str = ""
    bot_replies: str = ""
    reply_count: int = 0
    subtype: str = ""
    files: str = ""
    room: str = ""
    edited_ts: str = ""
    deleted: bool = False
    question: bool = False
    signs: int = 0
    is_bot: bool = False
    reactions_truncated: bool = False
    fetched_at: int = 0
    source: str = ""

    @property
    def cid_ts(self) -> str:
        return f"{self.slack_cid}_{self.ts}"

    @property
    def is_threaded(self) -> bool:
        return self.thread_ts != ""

    @property
    def is_threadhead(self) -> bool:
        return self.thread_ts == self.ts

    @property
    def is_reply(self) -> bool:
        return self.thread_ts not in ("", self.ts)


_ALWAYS: Final = ("slack_cid", "ts", "word_count", "reaction_count", "reply_count")
_OPTIONAL: Final = tuple(name for name in MessageRow.__struct_fields__ if name not in _ALWAYS)
_optional_values: Final = attrgetter(*_OPTIONAL)


def item_of(row: MessageRow, calendar: Calendar) -> Item:
    """The item of a row; what is not in it always is in it where it holds something."""
    ts, thread_ts = row.ts, row.thread_ts
    item: Item = {
        "cid_ts": f"{row.slack_cid}_{ts}",
        "date": calendar.date(seconds(ts)),
        "ts": ts,
        "slack_cid": row.slack_cid,
        "word_count": row.word_count,
        "reaction_count": row.reaction_count,
        "reply_count": row.reply_count,
        "is_threadhead": thread_ts == ts,
        "is_threaded": thread_ts != "",
    }
    for name, value in zip(_OPTIONAL, _optional_values(row), strict=True):
        if value:
            item[name] = value
    return item


def row_of(item: Item) -> MessageRow:
    """The row of an item, of this or of an older spelling."""
    row = struct_of(MessageRow, item)
    row.slack_uid = row.slack_uid or text(item, "user_id")
    if "," in row.mentions:
        row.mentions = encode_mentions(decode_mentions(row.mentions))
    if ";" in row.reactions:
        row.reactions = encode_reactions(decode_reactions(row.reactions))
    if not (row.slack_cid and row.ts):
        cid, _, ts = text(item, "cid_ts").partition("_")
        row.slack_cid, row.ts = row.slack_cid or cid, row.ts or ts
    return row
