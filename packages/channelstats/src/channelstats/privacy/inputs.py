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
    people, channels = _Shown(names), _Shown(names)
    posts = inputs.first_posts
    found = replace(
        inputs,
        messages=_hidden_messages(inputs.messages, people, channels, names),
        users=hidden_users(inputs.users, names),
        channels=hidden_channels(inputs.channels, names),
        first_posts=None
        if posts is None
        else {
            people[uid]: FirstPost(post.message_id, channels[post.slack_cid])
            for uid, post in posts.items()
        },
        mark=names.mark_of,
    )
    return HiddenInputs(
        found,
        {names.identifier(uid): names.person(uid) for uid in {*people, *inputs.users}},
        {names.identifier(cid): names.channel(cid) for cid in {*channels, *inputs.channels}},
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


class _Shown(dict[str, str]):
    """The pseudonymous IDs of the real ones that were met; made when one is met first."""

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names

    def __missing__(self, real: str) -> str:
        self[real] = shown = self._names.identifier(real)
        return shown


class _Room(msgspec.Struct):
    """What is counted of a huddle."""

    participant_history: list[str] | None = None
    date_start: int | None = None
    date_end: int | None = None


def _hidden_messages(
    messages: pl.DataFrame, people: _Shown, channels: _Shown, names: Pseudonyms
) -> pl.DataFrame:
    def mentions(text: str) -> str:
        return encode_mentions(people[uid] for uid in decode_mentions(text))

    def reactions(text: str) -> str:
        return encode_reactions(
            Reaction(names.emoji(emoji), tuple(people[uid] for uid in users))
            for emoji, users in decode_reactions(text)
        )

    def room(text: str) -> str:
        try:
            found = msgspec.json.decode(text, type=_Room)
        except msgspec.DecodeError:
            return "{}"
        found.participant_history = [people[uid] for uid in found.participant_history or ()]
        return msgspec.json.encode(found).decode()

    changes = {
        **dict.fromkeys(_PEOPLE, people.__getitem__),
        "slack_cid": channels.__getitem__,
        "mentions": mentions,
        "reactions": reactions,
        "room": room,
    }
    changed = [_replaced(messages[name], change) for name, change in changes.items()]
    return messages.with_columns(
        *changed, *(pl.lit(None, pl.String).alias(name) for name in _UNREAD)
    )


def _replaced(column: pl.Series, change: Callable[[str], str]) -> pl.Series:
    """The column with each of its texts changed."""
    texts = column.drop_nulls().unique()
    changed = pl.Series([change(text) for text in texts], dtype=pl.String)
    return column.replace_strict(texts, changed, default=None, return_dtype=pl.String)
