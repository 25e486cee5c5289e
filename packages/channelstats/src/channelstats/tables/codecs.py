"""Attributes that hold several things as one text: mentions, reactions, replies, files.

Rule: what was encoded comes back as it was; both separators of the past are understood, `:` is
written.

    mentions   UID:UID:UID              also UID,UID,UID
    reactions  emoji:UID:UID,emoji:UID  also emoji;UID;UID,emoji;UID
    replies    UID:TS,UID:TS            in the order of time

An emoji's name may hold colons (`+1::skin-tone-2`) but no capital letters, so the users of a
reaction are the longest tail of tokens that look like IDs.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import orjson

from channelstats.identifiers import USER_ID, is_timestamp, is_user_id

REACTION_USERS: Final = rf"((?::{USER_ID})*)$"
"""The users of a reaction whose separator is `:`, as a regular expression; its name is before
them."""

_REACTION: Final = re.compile(rf"^(.*?){REACTION_USERS}", re.DOTALL)
_SEPARATORS: Final = re.compile("[:,]")
_NOT_IN_NAMES: Final = re.compile(r"[,;\s]")
_LONGEST_NAME: Final = 100
_EXTENSION: Final = re.compile(r"[A-Za-z0-9]{1,16}")


class Reaction(NamedTuple):
    emoji: str
    users: tuple[str, ...]


class Reply(NamedTuple):
    user: str
    ts: str


def emoji_name(text: str) -> str:
    """The name under which an emoji is kept: lower case, of bounded length, without separators and
    halves of surrogate pairs.
    """
    sound = text[:_LONGEST_NAME].encode(errors="ignore").decode()
    return _NOT_IN_NAMES.sub("", sound.lower())


def encode_mentions(users: Iterable[str]) -> str:
    return ":".join(users)


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
    found = _REACTION.match(part)
    assert found is not None  # its first group takes anything
    return Reaction(found[1], tuple(found[2].split(":")[1:]))


def encode_replies(replies: Iterable[Reply]) -> str:
    return ",".join(f"{user}:{ts}" for user, ts in sorted(replies, key=lambda reply: reply.ts))


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
