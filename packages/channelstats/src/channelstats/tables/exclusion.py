"""Messages without those who are excluded, by a list or because the store has forgotten them.

Rule: nothing of theirs stays: no message, no reaction, no mention, no reply in somebody's list; and
what was counted of them is subtracted. Rows and columns lose the same.

Rule: the list of those forgotten holds digests of their IDs, never the IDs: it can tell somebody
who comes again, and nobody else.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import msgspec
import orjson
import polars as pl

from channelstats.identifiers import is_user_id
from channelstats.tables.configuration import Configuration
from channelstats.tables.directory import Channel, User
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    decode_mentions,
    decode_reactions,
    decode_replies,
    encode_json,
    encode_mentions,
    encode_reactions,
    encode_replies,
)
from keytables import Update

IsExcluded = Callable[[str], bool]
"""Whether somebody of this ID is excluded."""

_ID: Final = re.compile(r"[UWB][A-Z0-9]+")


def resolve_people(listed: Collection[str], users: Mapping[str, User]) -> frozenset[str]:
    """The IDs of those whom a list means: by ID, known or not, by user name or by display name."""
    wanted = {entry.removeprefix("@") for entry in listed}
    named = {
        uid for uid, user in users.items() if wanted & {user.user_name, user.display_name} - {""}
    }
    return frozenset({entry for entry in wanted if is_user_id(entry)} | named)


def resolve_channels(listed: Collection[str], channels: Mapping[str, Channel]) -> frozenset[str]:
    """The IDs of the channels that a list means, by ID or by name."""
    wanted = {entry.removeprefix("#") for entry in listed}
    named = {cid for cid, channel in channels.items() if channel.friendly_name in wanted}
    return frozenset(wanted | named)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def row_without(row: MessageRow, is_excluded: IsExcluded) -> MessageRow | None:
    """The row without those who are excluded, or the same one; None when it is theirs."""
    if row.slack_uid and is_excluded(row.slack_uid):
        return None
    lists = f"{row.mentions} {row.reactions} {row.replies} {row.bot_replies}"
    found = set(_ID.findall(f"{lists} {row.parent_user_id} {row.room} {row.files}"))
    if not any(map(is_excluded, found)):
        return row

    def left(people: Iterable[str]) -> list[str]:
        return [uid for uid in people if not is_excluded(uid)]

    reactions = decode_reactions(row.reactions)
    left_reactions = [Reaction(name, tuple(left(users))) for name, users in reactions]
    replies, bot_replies = (
        [reply for reply in decode_replies(text) if not is_excluded(reply.user)]
        for text in (row.replies, row.bot_replies)
    )
    gone_replies = len(decode_replies(row.replies)) - len(replies)
    gone_reactions = _users(reactions) - _users(left_reactions)
    room, files = orjson.loads(row.room or "{}"), orjson.loads(row.files or "[]")
    if room:
        room["participant_history"] = left(room.get("participant_history", ()))
    for file in files:
        if is_excluded(file.get("user", "")):
            file.pop("user", None)
    return msgspec.structs.replace(
        row,
        mentions=encode_mentions(left(decode_mentions(row.mentions))),
        reactions=encode_reactions(reaction for reaction in left_reactions if reaction.users),
        reaction_count=max(row.reaction_count - gone_reactions, 0),
        parent_user_id="".join(left([row.parent_user_id])),
        replies=encode_replies(replies),
        bot_replies=encode_replies(bot_replies),
        reply_count=max(row.reply_count - gone_replies, 0),
        room=encode_json(room),
        files=encode_json(files),
    )


def _users(reactions: list[Reaction]) -> int:
    return sum(len(reaction.users) for reaction in reactions)


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


def frame_without(
    frame: pl.DataFrame, people: Collection[str], channels: Collection[str] = ()
) -> pl.DataFrame:
    """The columns (see `channelstats.tables.columns`) without those people and channels."""
    if channels:
        frame = frame.filter(~pl.col("slack_cid").is_in(sorted(channels)))
    if not people:
        return frame
    anyone = f"(?:{'|'.join(map(re.escape, sorted(people)))})"
    reacted, replied = rf"[:;]{anyone}\b", rf"\b{anyone}:[0-9.]+,?"
    return frame.filter(
        pl.col("slack_uid").is_null() | ~pl.col("slack_uid").is_in(sorted(people))
    ).with_columns(
        _off("mentions", rf"\b{anyone}\b[:,]?"),
        _off("reactions", reacted),
        _fewer("reaction_count", "reactions", reacted),
        pl.when(~pl.col("parent_user_id").is_in(sorted(people))).then("parent_user_id"),
        _off("replies", replied),
        _off("bot_replies", replied),
        _fewer("reply_count", "replies", replied),
        pl.col("room").str.replace_all(rf'"{anyone}"', "null"),
    )


def _off(column: str, pattern: str) -> pl.Expr:
    """A text without what matches; null where nothing is left."""
    left = pl.col(column).str.replace_all(pattern, "")
    return pl.when(left != "").then(left).alias(column)


def _fewer(number: str, column: str, pattern: str) -> pl.Expr:
    gone = pl.col(column).str.count_matches(pattern).fill_null(0).cast(pl.Int64)
    return pl.max_horizontal(pl.col(number) - gone, 0).alias(number)


# ── those forgotten ───────────────────────────────────────────────────────────────────────────────

_KEY: Final = "forgotten"
_ADD: Final = Update(add_to=("people",))
_DIGITS: Final = 32


def digest(uid: str) -> str:
    return hashlib.sha256(f"channelstats {uid}".encode()).hexdigest()[:_DIGITS]


async def add_forgotten(configuration: Configuration, uid: str) -> None:
    await add_digests(configuration, frozenset((digest(uid),)))


async def add_digests(configuration: Configuration, digests: frozenset[str]) -> None:
    """The same for people that another store has forgotten."""
    await configuration.update(_KEY, _ADD, {"people": digests})


async def forgotten(configuration: Configuration) -> frozenset[str]:
    """Digests of the people."""
    found = (await configuration.get(_KEY)).get("people")
    return frozenset(map(str, found)) if isinstance(found, frozenset) else frozenset()
