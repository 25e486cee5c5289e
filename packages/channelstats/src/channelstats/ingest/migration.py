"""Another installation's tables, of today's or of the original's form → these tables.

Rule: people and channels first, then messages, then what follows from them. What is known here and
as recent stays, so a migration can be interrupted, and done again at any time; of two dates of an
account the earlier one is right.

Rule: a row of the original's is taken as what comes from outside: what no code here would have
written is left out of it. A row that was written by this code stays as it is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final, cast
from zoneinfo import ZoneInfo

import msgspec

from channelstats.counting import Counting
from channelstats.days import date_at
from channelstats.identifiers import is_channel_id, is_timestamp, is_user_id
from channelstats.ingest.merging import merge_messages, recency
from channelstats.ingest.rows import EARLIEST, about_file, known_word, latest
from channelstats.ingest.runs import OnEvent, Run, StepProgress, ignore_event
from channelstats.slack.export import left_out
from channelstats.slack.objects import SlackFile
from channelstats.tables import Tables
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import Channel, User
from channelstats.tables.exclusion import add_forgotten, forgotten, resolve_channels
from channelstats.tables.first_posts import rebuild
from channelstats.tables.items import HASH_KEYS, MESSAGE_INDEXES, table
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    decode_mentions,
    decode_reactions,
    decode_replies,
    emoji_name,
    encode_json,
    encode_mentions,
    encode_reactions,
    encode_replies,
)
from keytables import (
    Clock,
    Engine,
    Index,
    Item,
    Key,
    KeyTuple,
    Page,
    SchemaError,
    Table,
    TableHandle,
)

_OLDER_KEYS: Final = {"Configuration": "item_key"}
_OLDER_INDEXES: Final = (
    Index("Date", Key("date")),
    Index("Slack_cid", Key("slack_cid")),
    Index("User_id", Key("user_id")),
)
_OURS: Final = ("api", "export")
_MESSAGES: Final = "messages"


# ── the tables that are read ─────────────────────────────────────────────────────────────────────


class NothingThere(Exception):  # noqa: N818
    """There is no table of that prefix; the message says which there are."""


async def open_source(engine: Engine, prefix: str, zone: ZoneInfo) -> Tables:
    """The tables of another installation, which are only read; one that is not there is empty.

    :raises NothingThere: there is no table of that prefix
    """
    there = set(await engine.table_names())
    names = [name for name in HASH_KEYS if f"{prefix}.{name}" in there]
    if not names:
        known = sorted({name.rpartition(".")[0] for name in there} - {""})
        only = f"only {', '.join(map(repr, known))}" if known else "no table at all"
        raise NothingThere(f"there are no tables that begin with {prefix!r}, {only}")
    absent = {name: cast(TableHandle, _NoTable(table(prefix, name))) for name in HASH_KEYS}
    opened = {name: await _opened(engine, prefix, name) for name in names}
    return Tables(absent | opened, zone)


class _NoTable:
    """What is read of a table that is not there."""

    def __init__(self, declared: Table) -> None:
        self.table = declared

    async def get(self, _: KeyTuple) -> Item | None:
        return None

    async def batch_get(self, _: Iterable[KeyTuple]) -> list[Item]:
        return []

    async def scan(self, **_: object) -> Page:
        return Page([], None)


async def _opened(engine: Engine, prefix: str, name: str) -> TableHandle:
    """A table as the program that made it has declared it."""
    ours = table(prefix, name)
    keys = [Key(_OLDER_KEYS[name])] if name in _OLDER_KEYS else []
    indexes = ((), MESSAGE_INDEXES, _OLDER_INDEXES) if name == "Message" else ((),)
    *others, last = (
        replace(ours, partition=key, indexes=some)
        for key in (*keys, ours.partition)
        for some in indexes
    )
    for declared in others:
        try:
            return await engine.open_table(declared)
        except SchemaError:
            continue
    return await engine.open_table(last)


# ── what is taken over ───────────────────────────────────────────────────────────────────────────


class MigrationResult(msgspec.Struct):
    """How many of each kind were ``read``, in their order; ``changed`` messages were not known
    here, or not as recent; ``problems`` cost single objects.
    """

    read: dict[str, int] = {}
    changed: int = 0
    problems: int = 0


class Migration:
    """One run. ``excluded``, ``excluded_channels``: names and IDs of what is left out."""

    def __init__(
        self,
        source: Tables,
        tables: Tables,
        *,
        clock: Clock,
        counting: Counting,
        excluded: Collection[str] = (),
        excluded_channels: Collection[str] = (),
        on_event: OnEvent = ignore_event,
    ) -> None:
        self._source, self._tables, self._counting = source, tables, counting
        self._excluded_people, self._excluded_channels = excluded, excluded_channels
        self._run = Run(tables, clock, on_event)
        self._hidden: frozenset[str] = frozenset()
        self._channels: dict[str, Channel] = {}
        self._result = MigrationResult()

    async def run(self) -> MigrationResult:
        """Take everything in."""
        tables = self._tables
        people = await self._find_exclusions()
        self._done("users", await self._put_users(people))
        self._done("channels", await self._put_channels())
        self._done("memberships", await self._put_memberships())
        self._done("samples of members", await self._put_samples())
        channels = await self._copy_messages()
        for done, cid in enumerate(sorted(channels), 1):
            # The original did not always store the author of the head beside a reply.
            stored = await tables.messages.of_channel(cid, EARLIEST)
            await tables.messages.write(row for row, _ in merge_messages(stored, ()))
            self._done("channels with their threads", done)
        await self._put_counts(people)
        self._done("first posts", await self._put_first_posts())
        await self._raise_watermarks()
        await tables.messages.close_days()
        self._result.problems = self._run.problems
        return self._result

    def _done(self, what: str, read: int) -> None:
        self._result.read[what] = read
        self._run.on_event(StepProgress(what, read))

    async def _find_exclusions(self) -> Mapping[str, User]:
        """Find the excluded people and channels; return the users of the other installation."""
        source, tables = self._source, self._tables
        if digests := await forgotten(source.configuration):
            await add_forgotten(tables.configuration, digests)
        people, found = await source.users.all(), await source.channels.all()
        await self._run.exclude_people(self._excluded_people, people)
        names = {channel.friendly_name for channel in found.values()}
        self._run.check_channels(self._excluded_channels, names)
        self._hidden = resolve_channels(self._excluded_channels, found)
        self._channels = {cid: one for cid, one in found.items() if self._is_wanted(cid)}
        return people

    # ── users and channels ───────────────────────────────────────────────────────────────────────

    async def _put_users(self, people: Mapping[str, User]) -> int:
        tables, source = self._tables, self._source
        known = await tables.users.all()
        users = {uid: user for uid, user in people.items() if is_user_id(uid)}
        new = [user for uid, user in users.items() if uid not in known]
        await tables.put_users(self._run.excluded.users(new), self._run.now)
        created = await source.users_created.all()
        await tables.users_created.add(
            (uid, at) for uid, at in created.items() if self._is_kept(uid)
        )
        await tables.user_hash.add(filter(self._is_kept, await source.user_hash.all()))
        return len(users)

    async def _put_channels(self) -> int:
        channels, known = self._tables.channels, await self._tables.channels.all()
        new = [one for cid, one in self._channels.items() if cid not in known]
        await channels.put(sorted(new, key=lambda one: not one.is_archived))
        await self._tables.configuration.put_names({**self._channels, **known}.values())
        for key, row in (await self._source.channels.rows()).items():
            channel = self._channels.get(row.slack_cid)
            if channel is not None and key != channel.name and not is_channel_id(key):
                await channels.put_alias(key, channel)
        return len(self._channels)

    async def _put_memberships(self) -> int:
        bulk, done = self._tables.bulk, 0
        for cid in filter(self._is_wanted, await self._source.bulk.names()):
            uids = (await self._source.bulk.get(cid) or "").split(",")
            members = list(filter(self._is_kept, uids))
            if members and await bulk.get(cid) is None:
                await bulk.put(cid, ",".join(members))
            done += bool(members)
        return done

    async def _put_samples(self) -> int:
        log, done = self._tables.members_log, 0
        new: dict[int, dict[str, int]] = defaultdict(dict)
        found = await self._source.members_log.all()
        for cid in filter(self._is_wanted, found):
            known = dict(await log.samples(cid))
            for at, count in found[cid]:
                done += 1
                if at not in known:
                    new[at][cid] = count
        for second, members in sorted(new.items()):
            await log.add(second, members)
        return done

    async def _put_counts(self, people: Mapping[str, User]) -> None:
        """How many users there were, as of now where it is not known here."""
        source, configuration = self._source.configuration, self._tables.configuration
        counts, history = await source.counts(), await source.history()
        if counts == Counts():
            return
        if not counts.active_humans:
            humans = sum(not (user.deleted or user.is_bot) for user in people.values())
            counts = msgspec.structs.replace(counts, active_humans=humans)
        known = await configuration.history()
        for day, taken in (history or {date_at(self._run.now, self._tables.zone): counts}).items():
            if day not in known and (history or not known):
                await configuration.add_to_history(day, taken)
        if await configuration.counts() == Counts():
            await configuration.put_counts(counts)

    # ── messages, and what follows from them ─────────────────────────────────────────────────────

    async def _copy_messages(self) -> set[str]:
        """Take in the messages; return the channels they are of."""
        messages, newest = self._tables.messages, latest(self._run.now)
        channels: set[str] = set()
        read = 0
        broken: list[str] = []
        async for page in self._source.messages.pages():
            rows = []
            for row in page:
                try:
                    rows.append(_checked(row, newest))
                except ValueError as error:
                    broken.append(str(error))
            wanted = (row for row in rows if row.slack_cid not in self._hidden)
            came = {row.cid_ts: row for row in self._run.excluded.rows(wanted)}
            known = await messages.known(came)
            new = [
                row
                for key, row in came.items()
                if key not in known or recency(row) > recency(known[key])
            ]
            await messages.write(new)
            channels.update(row.slack_cid for row in came.values())
            read += len(rows)
            self._result.changed += len(new)
            self._done(_MESSAGES, read)
        self._run.report(left_out(_MESSAGES, broken))
        return channels

    async def _put_first_posts(self) -> int:
        """Take the earlier of what messages say, and of what was known of messages that are not
        stored any more.
        """
        tables, configuration = self._tables, self._tables.configuration
        is_continued = await configuration.first_posts_counting() == self._counting.name
        known = await tables.first_posts.all() if is_continued else {}
        older = {
            uid: min(post, known.get(uid, post))
            for uid, post in (await self._source.first_posts.all()).items()
            if self._is_kept(uid) and self._is_wanted(post.slack_cid)
        }
        await configuration.put_first_posts_counting("")  # until they are judged
        await tables.first_posts.put(sorted(older.items()))
        await rebuild(tables, self._counting)
        return len(await tables.first_posts.all())

    async def _raise_watermarks(self) -> None:
        for cid, at in (await self._source.watermarks.all()).items():
            if at <= self._run.now and self._is_wanted(cid):
                await self._tables.watermarks.raise_to(cid, at)

    def _is_wanted(self, cid: str) -> bool:
        return is_channel_id(cid) and cid not in self._hidden

    def _is_kept(self, uid: str) -> bool:
        return is_user_id(uid) and uid not in self._run.excluded


# ── messages of the original ─────────────────────────────────────────────────────────────────────


def _checked(row: MessageRow, newest: str) -> MessageRow:
    """The row as it can be stored.

    :raises ValueError: it is none, or of an absurd time: after ``newest``
    """
    if not is_channel_id(row.slack_cid) or not is_timestamp(row.ts):
        raise ValueError("cid_ts: expected the ID of a channel, '_', and a timestamp")
    if not EARLIEST <= row.ts <= newest:
        raise ValueError("ts: before the year 2000, or in the future")
    return row if row.source in _OURS else _cleaned(row)


def _cleaned(row: MessageRow) -> MessageRow:
    author = row.slack_uid if is_user_id(row.slack_uid) else ""
    reactions = (
        Reaction(emoji_name(name), tuple(filter(is_user_id, users)))
        for name, users in decode_reactions(row.reactions)
    )
    replies = decode_replies(row.replies)
    threaded = is_timestamp(row.thread_ts)
    return msgspec.structs.replace(
        row,
        slack_uid=author,
        is_bot=author.startswith("B"),
        mentions=encode_mentions(
            uid for uid in decode_mentions(row.mentions) if is_user_id(uid) and uid != author
        ),
        reactions=encode_reactions(one for one in reactions if one.emoji and one.users),
        thread_ts=row.thread_ts if threaded else "",
        parent_user_id=row.parent_user_id if threaded and is_user_id(row.parent_user_id) else "",
        replies=encode_replies(replies),
        reply_count=len(replies),
        subtype=(known_word(row.subtype) or "unknown") if row.subtype else "",
        files=_files(row.files),
        room="",
        edited_ts="",
        source="",
    )


def _files(text: str) -> str:
    """What kinds of files there are: the original kept titles and previews of what they say."""
    if not text:
        return ""
    try:
        files = msgspec.json.decode(text, type=list[SlackFile], strict=False)
    except msgspec.MsgspecError:
        return ""
    return encode_json([about_file(file) for file in files])
