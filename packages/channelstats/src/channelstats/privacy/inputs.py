"""What reports and views are made of, under pseudonyms.

Rule: every ID and every name in the columns of messages and in what is known beside them is
replaced, and texts that nothing is counted from are dropped; numbers and times stay, as figures are
made from them. Whoever lists messages shows the day alone (`Inputs.hides_times`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import polars as pl

from channelstats.privacy.pseudonyms import Pseudonyms
from channelstats.stats.inputs import Inputs
from channelstats.tables.directory import Channel, User
from channelstats.tables.first_posts import FirstPost
from channelstats.tables.message_row import (
    Reaction,
    decode_mentions,
    decode_reactions,
    encode_mentions,
    encode_reactions,
)

_PEOPLE: Final = ("slack_uid", "parent_user_id")
_UNREAD: Final = ("replies", "bot_replies")
"""Columns that tell what else has to be read, and that no figure is made from."""


@dataclass(frozen=True)
class HiddenInputs:
    """Inputs under pseudonyms; ``people`` and ``channels`` are the names of every ID in them."""

    inputs: Inputs
    people: Mapping[str, str]
    channels: Mapping[str, str]


def hidden_inputs(inputs: Inputs, names: Pseudonyms) -> HiddenInputs:
    """The same inputs under pseudonyms. It takes a moment for many messages."""
    hiding = _Hiding(names)
    messages = hiding.messages(inputs.messages)
    first_posts = None
    if inputs.first_posts is not None:
        first_posts = {
            hiding.person(uid): FirstPost(post.message_id, hiding.channel(post.slack_cid))
            for uid, post in inputs.first_posts.items()
        }
    found = replace(
        inputs,
        messages=messages,
        users=hidden_users(inputs.users, names),
        channels=hidden_channels(inputs.channels, names),
        first_posts=first_posts,
        mark=names.mark_of,
    )
    people, channels = {*hiding.people, *inputs.users}, {*hiding.channels, *inputs.channels}
    return HiddenInputs(
        found,
        {names.identifier(uid): names.person(uid) for uid in people},
        {names.identifier(cid): names.channel(cid) for cid in channels},
    )


def hidden_users(users: Mapping[str, User], names: Pseudonyms) -> dict[str, User]:
    """By their pseudonymous IDs; of what is known of each, what figures are made from."""
    return {
        shown: User(
            shown,
            display_name=names.person(uid),
            tz=user.tz,
            tz_offset=user.tz_offset,
            is_bot=user.is_bot,
        )
        for uid, user in users.items()
        for shown in (names.identifier(uid),)
    }


def hidden_channels(channels: Mapping[str, Channel], names: Pseudonyms) -> dict[str, Channel]:
    """By their pseudonymous IDs."""
    return {
        shown: msgspec.structs.replace(channel, slack_cid=shown, friendly_name=names.channel(cid))
        for cid, channel in channels.items()
        for shown in (names.identifier(cid),)
    }


class _Hiding:
    """What was found while messages were hidden: the real IDs of ``people`` and ``channels``, to
    the ones that are shown.
    """

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names
        self.people: dict[str, str] = {}
        self.channels: dict[str, str] = {}

    def person(self, uid: str) -> str:
        if uid not in self.people:
            self.people[uid] = self._names.identifier(uid)
        return self.people[uid]

    def channel(self, cid: str) -> str:
        if cid not in self.channels:
            self.channels[cid] = self._names.identifier(cid)
        return self.channels[cid]

    def messages(self, messages: pl.DataFrame) -> pl.DataFrame:
        changes = {
            **dict.fromkeys(_PEOPLE, self.person),
            "slack_cid": self.channel,
            "mentions": self._mentions,
            "reactions": self._reactions,
            "room": self._room,
        }
        changed = [_replaced(messages[name], change) for name, change in changes.items()]
        nothing = [pl.lit(None, pl.String).alias(name) for name in _UNREAD]
        return messages.with_columns(*changed, *nothing)

    def _mentions(self, text: str) -> str:
        return encode_mentions(map(self.person, decode_mentions(text)))

    def _reactions(self, text: str) -> str:
        return encode_reactions(
            Reaction(self._names.emoji(emoji), tuple(map(self.person, users)))
            for emoji, users in decode_reactions(text)
        )

    def _room(self, text: str) -> str:
        try:
            room = msgspec.json.decode(text, type=_Room)
        except msgspec.DecodeError:
            return "{}"
        room.participant_history = [self.person(uid) for uid in room.participant_history or ()]
        return msgspec.json.encode(room).decode()


class _Room(msgspec.Struct):
    """What is counted of a huddle."""

    participant_history: list[str] | None = None
    date_start: int | None = None
    date_end: int | None = None


def _replaced(column: pl.Series, change: Callable[[str], str]) -> pl.Series:
    """The column with each of its texts changed."""
    texts = column.drop_nulls().unique()
    changed = pl.Series([change(text) for text in texts], dtype=pl.String)
    return column.replace_strict(texts, changed, default=None, return_dtype=pl.String)
