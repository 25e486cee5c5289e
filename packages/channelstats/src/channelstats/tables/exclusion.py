"""Who and what stays out of the tables, leaves them, or is not shown: people and channels that a
list excludes, people whom the store has forgotten, messages that are too old.

Rule: nothing of those who are excluded stays: no message, no reaction, no mention, no reply in
somebody's list; and what was counted of them is subtracted. Rows and columns lose the same.

Rule: a person is noted as forgotten first, so that no import that runs meanwhile brings them back;
then everything of theirs is removed, and all reports that were made before, since they may hold
them. A run that was interrupted is done again from its beginning. What is noted is a digest of the
ID, never the ID: it can tell somebody who comes again, and nobody else.

Rule: messages go by the date that they are stored under; a whole date goes at a time, with what was
made of it. First posts stay, or everybody would look new.
"""

import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Final, Self

import msgspec
import orjson
import polars as pl

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.tables.directory import Channel, User
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    Reply,
    decode_mentions,
    decode_reactions,
    decode_replies,
    encode_json,
    encode_mentions,
    encode_reactions,
    encode_replies,
)
from channelstats.tables.store import Tables

_ID: Final = re.compile(r"[UWB][A-Z0-9]+")


def resolve_people(listed: Collection[str], users: Mapping[str, User]) -> frozenset[str]:
    """The IDs of the people on a list of IDs (known or not), user names and display names."""
    entries = {entry.removeprefix("@") for entry in listed}
    named = {
        uid
        for uid, user in users.items()
        if entries & {user.user_name, user.display_name, *user.other_ids.split()} - {""}
    }
    return frozenset({entry for entry in entries if is_user_id(entry)} | named)


def resolve_channels(listed: Collection[str], channels: Mapping[str, Channel]) -> frozenset[str]:
    """The IDs of the channels on a list of IDs and names."""
    entries = {entry.removeprefix("#") for entry in listed}
    named = {
        cid
        for cid, channel in channels.items()
        if channel.friendly_name in entries or channel.slack_name in entries
    }
    return frozenset(entries | named)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def row_without(row: MessageRow, is_excluded: Callable[[str], bool]) -> MessageRow | None:
    """The row without those who are excluded, or the same one; None when it is theirs."""
    if row.slack_uid and is_excluded(row.slack_uid):
        return None
    if not any(map(is_excluded, _people_in(row))):
        return row
    return with_other_people(row, lambda uid: "" if is_excluded(uid) else uid)


def row_of_people(row: MessageRow, ids: Mapping[str, str]) -> MessageRow:
    """The row with the ID that stands for each person with several (see `ids_of_people`), or the
    same one.
    """
    named = {row.slack_uid, *_people_in(row)}
    return row if named.isdisjoint(ids) else with_other_people(row, lambda uid: ids.get(uid, uid))


def _people_in(row: MessageRow) -> set[str]:
    """The IDs of everybody whom a row names, but for its author."""
    lists = f"{row.mentions} {row.reactions} {row.replies} {row.bot_replies}"
    return set(_ID.findall(f"{lists} {row.parent_user_id} {row.room} {row.files}"))


def with_other_people(row: MessageRow, id_of: Callable[[str], str]) -> MessageRow:
    """The row with another ID, or the same one, for each of a person; without those who get none,
    whose reactions and replies are no longer counted.
    """
    author = id_of(row.slack_uid)
    reactions, replies = decode_reactions(row.reactions), decode_replies(row.replies)
    gone_reactions = sum(not id_of(uid) for reaction in reactions for uid in reaction.users)
    left_replies, left_bot_replies = (
        [Reply(uid, reply.ts) for reply in some if (uid := id_of(reply.user))]
        for some in (replies, decode_replies(row.bot_replies))
    )
    left_reactions = (
        Reaction(name, users)
        for name, everybody in reactions
        if (users := tuple(distinct(filter(None, map(id_of, everybody))))) or not everybody
    )
    mentions = (
        uid
        for mentioned in decode_mentions(row.mentions)
        # Whoever mentions another ID of their own mentions nobody.
        if (uid := id_of(mentioned)) and (uid != author or mentioned == row.slack_uid)
    )
    room, files = orjson.loads(row.room or "{}"), orjson.loads(row.files or "[]")
    if room:
        took_part = map(id_of, room.get("participant_history", ()))
        room["participant_history"] = distinct(filter(None, took_part))
    for file in files:
        if uid := id_of(file.pop("user", "")):
            file["user"] = uid
    return msgspec.structs.replace(
        row,
        slack_uid=author,
        mentions=encode_mentions(mentions),
        reactions=encode_reactions(left_reactions),
        reaction_count=max(row.reaction_count - gone_reactions, 0),
        parent_user_id=id_of(row.parent_user_id),
        replies=encode_replies(left_replies),
        bot_replies=encode_replies(left_bot_replies),
        reply_count=max(row.reply_count - (len(replies) - len(left_replies)), 0),
        room=encode_json(room),
        files=encode_json(files),
    )


def distinct(uids: Iterable[str]) -> list[str]:
    """Each once, in their order."""
    return list(dict.fromkeys(uids))


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


def frame_without(
    frame: pl.DataFrame, people: Collection[str], channels: Collection[str] = ()
) -> pl.DataFrame:
    """The columns (see `channelstats.tables.columns`) without those people and channels."""
    if channels:
        frame = frame.filter(~pl.col("slack_cid").is_in(sorted(channels)))
    if not people:
        return frame
    them = sorted(people)
    return frame.filter(
        pl.col("slack_uid").is_null() | ~pl.col("slack_uid").is_in(them)
    ).with_columns(
        _left("mentions", ~pl.element().is_in(them)),
        _left("reactions", _not_by("reactor", them)),
        _fewer("reaction_count", "reactions", "reactor", them),
        pl.when(~pl.col("parent_user_id").is_in(them)).then("parent_user_id"),
        _left("replies", _not_by("replier", them)),
        _fewer("reply_count", "replies", "replier", them),
        *(
            pl.col(name).str.replace_all(rf'"(?:{"|".join(map(re.escape, them))})"', "null")
            for name in {"room"} & set(frame.columns)
        ),
    )


def _not_by(name: str, people: Collection[str]) -> pl.Expr:
    """Whether an entry of a list is of nobody of these."""
    return ~pl.element().struct.field(name).is_in(people).fill_null(value=False)


def _left(column: str, stays: pl.Expr) -> pl.Expr:
    """A list without what does not stay; null where nothing is left."""
    left = pl.col(column).list.filter(stays)
    return pl.when(left.list.len() > 0).then(left).alias(column)


def _fewer(number: str, column: str, name: str, people: Collection[str]) -> pl.Expr:
    gone = pl.col(column).list.filter(~_not_by(name, people)).list.len()
    return pl.max_horizontal(pl.col(number) - gone.fill_null(0), 0).alias(number)


# ── those forgotten ───────────────────────────────────────────────────────────────────────────────

_DIGITS: Final = 32


def digest(uid: str) -> str:
    return hashlib.sha256(f"channelstats {uid}".encode()).hexdigest()[:_DIGITS]


class Exclusions:
    """Who is left out of what comes: ``people`` are IDs, ``forgotten_people`` digests of IDs."""

    def __init__(
        self, people: Collection[str] = (), forgotten_people: Collection[str] = ()
    ) -> None:
        self._known = dict.fromkeys(people, True)
        self._forgotten = frozenset(forgotten_people)
        self._nobody = not people and not forgotten_people

    @classmethod
    async def load(
        cls, tables: Tables, listed: Collection[str], users: Mapping[str, User] | None = None
    ) -> Self:
        """The forgotten, and those of the ``users`` (by default all that are stored) that are on a
        list of names and IDs.
        """
        people = resolve_people(listed, await tables.users.all() if users is None else users)
        return cls(people, await tables.configuration.forgotten())

    def __contains__(self, uid: str) -> bool:
        if self._nobody:
            return False
        if uid not in self._known:  # as many as a workspace has
            self._known[uid] = digest(uid) in self._forgotten
        return self._known[uid]

    def users(self, users: Iterable[User]) -> list[User]:
        """Those who are not left out."""
        return [user for user in users if user.slack_uid not in self]

    def rows(self, rows: Iterable[MessageRow]) -> Iterable[MessageRow]:
        """The rows without those who are left out."""
        if self._nobody:
            return rows
        kept = (row_without(row, self.__contains__) for row in rows)
        return (row for row in kept if row is not None)


# ── what is removed ──────────────────────────────────────────────────────────────────────────────


class Forgotten(msgspec.Struct, frozen=True):
    """What has been removed so far: messages of theirs, and messages of others that named them;
    ``read`` rows were looked at. ``files`` still hold their messages: columns of dates that could
    neither be overwritten nor removed.
    """

    deleted: int = 0
    changed: int = 0
    read: int = 0
    files: tuple[Path, ...] = ()


async def forget_person(
    tables: Tables, uid: str, *, dry_run: bool = False
) -> AsyncGenerator[Forgotten, None]:
    """Remove everything of a person, under every ID of theirs, and report as it goes on. In a
    ``dry_run`` messages are counted, and nothing is touched.
    """
    user = (await tables.users.all()).get(uid)
    ids = frozenset((uid,) if user is None else user.ids)
    if not dry_run:
        await tables.configuration.add_forgotten(frozenset(map(digest, ids)))
    done = Forgotten()
    async for rows in tables.messages.pages():
        kept = [(row, row_without(row, ids.__contains__)) for row in rows]
        gone = [row for row, left in kept if left is None]
        changed = [left for row, left in kept if left is not None and left is not row]
        if not dry_run:
            await tables.messages.delete(gone)
            await tables.messages.write(changed)
        done = Forgotten(
            done.deleted + len(gone), done.changed + len(changed), done.read + len(rows)
        )
        yield done
    if dry_run:
        return
    files = await tables.messages.close_days()
    for other_id in sorted(ids):
        await tables.sent.forget(other_id)
        await tables.marks.forget(other_id)
    await _remove_people(tables, dict.fromkeys(ids, ""))
    yield msgspec.structs.replace(done, files=tuple(files))


async def join_people(tables: Tables, ids: Mapping[str, str]) -> None:
    """Have what is stored under the other ``ids`` of people (see `ids_of_people`) under the one
    that stands for them. First posts have to be found again, as after another way of counting.
    """
    async for rows in tables.messages.pages():
        joined = ((row, row_of_people(row, ids)) for row in rows)
        await tables.messages.write(after for row, after in joined if after is not row)
    created = await tables.users_created.all()
    await tables.users_created.add(
        (uid, created[other]) for other, uid in ids.items() if other in created
    )
    await _remove_people(tables, ids)
    await tables.configuration.put_first_posts_counting("")


async def _remove_people(tables: Tables, ids: Mapping[str, str]) -> None:
    """Remove what is stored beside messages under these IDs, and all reports; in lists of members
    each gives way to the other ID of the person, or to none ("").
    """
    for cid in filter(is_channel_id, await tables.bulk.names()):
        members = (await tables.bulk.get(cid) or "").split(",")
        if not ids.keys().isdisjoint(members):
            text = ",".join(filter(None, distinct(ids.get(uid, uid) for uid in members)))
            await (tables.bulk.put(cid, text) if text else tables.bulk.delete(cid))
    for removed in sorted(ids):
        await tables.users.delete(removed)
        await tables.users_created.delete(removed)
        await tables.user_hash.remove(removed)
    await tables.first_posts.delete(ids)
    await tables.reports.clear()


async def remove_before(tables: Tables, first: date) -> AsyncIterator[tuple[str, int]]:
    """Remove the messages of the dates before ``first``; yield each date and how many it had.

    Days are open afterwards, as after every writing.
    """
    for day in sorted(await tables.messages.days()):
        if day < first.isoformat() and (removed := await tables.messages.empty_day(day)):
            yield day, removed
