"""Another installation's tables, the original's above all → these tables.

Rule: people and channels first, then messages, then what follows from them. What is known here and
as recent stays, so a migration can be interrupted, and done again at any time; of two dates of an
account the earlier one is right.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from channelstats.counting import Counting
from channelstats.days import date_at
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.ingest.directory import store_users
from channelstats.ingest.events import OnEvent, Problem, StepProgress, ignore_event
from channelstats.ingest.first_posts import with_older
from channelstats.ingest.messages import EARLIEST, merge_messages, recency
from channelstats.ingest.older_tables import OlderTables, message_of
from channelstats.ingest.removal import Exclusions, unknown_channels, unknown_people
from channelstats.slack.export import left_out
from channelstats.tables import Tables
from channelstats.tables.configuration import Configuration, Counts
from channelstats.tables.directory import (
    OLDER_WATERMARK,
    WATERMARK,
    Channels,
    User,
    Users,
    UsersCreated,
)
from channelstats.tables.exclusion import add_digests, forgotten, resolve_channels
from channelstats.tables.first_posts import FirstPost, FirstPosts, derived
from channelstats.tables.items import number, text
from channelstats.tables.message_row import MessageRow
from channelstats.tables.text_store import TextStore
from keytables import Clock, Item

_AHEAD: Final = 86_400
"""Seconds that a message may lie in the future."""

_MESSAGES: Final = "messages"
_SAMPLE: Final = "ts_"


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
        source: OlderTables,
        tables: Tables,
        *,
        clock: Clock,
        counting: Counting,
        excluded: Collection[str] = (),
        excluded_channels: Collection[str] = (),
        on_event: OnEvent = ignore_event,
    ) -> None:
        self._source, self._tables, self._on_event = source, tables, on_event
        self._excluded_people, self._excluded_channels = excluded, excluded_channels
        self._now, self._counting = int(clock()), counting
        self._excluded = Exclusions()
        self._hidden: frozenset[str] = frozenset()
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
            # The original did not always say whom a message answers.
            stored = await tables.messages.of_channel(cid, EARLIEST)
            await tables.messages.write(row for row, _ in merge_messages(stored, ()))
            self._done("channels with their threads", done)
        await self._put_counts(people)
        self._done("first posts", await self._put_first_posts())
        await self._raise_watermarks()
        await tables.messages.close_days()
        return self._result

    def _done(self, what: str, read: int) -> None:
        self._result.read[what] = read
        self._on_event(StepProgress(what, read))

    def _report(self, problems: list[Problem]) -> None:
        self._result.problems += len(problems)
        for problem in problems:
            self._on_event(problem)

    async def _find_exclusions(self) -> dict[str, User]:
        """Find out whom and what to leave out; return the users of the other installation."""
        source, tables = self._source, self._tables
        known = source.get("Configuration")
        if known is not None and (digests := await forgotten(Configuration(known))):
            await add_digests(tables.configuration, digests)
        users, channels = source.get("User"), source.get("Channel")
        people = await Users(users).all() if users is not None else {}
        self._report(unknown_people(self._excluded_people, people))
        self._excluded = await Exclusions.load(tables, self._excluded_people, people)
        found = await Channels(channels).all() if channels is not None else {}
        names = {channel.friendly_name for channel in found.values()}
        self._report(unknown_channels(self._excluded_channels, names))
        self._hidden = resolve_channels(self._excluded_channels, found)
        return people

    # ── users and channels ───────────────────────────────────────────────────────────────────────

    async def _put_users(self, people: Mapping[str, User]) -> int:
        tables, source = self._tables, self._source
        known = await tables.users.all()
        users = {uid: user for uid, user in people.items() if is_user_id(uid)}
        new = [user for uid, user in users.items() if uid not in known]
        await store_users(tables, self._excluded.users(new), self._now)
        if (handle := source.get("UserCreated")) is not None:
            created = await UsersCreated(handle).all()
            await tables.users_created.add(
                (uid, at) for uid, at in created.items() if self._is_kept(uid)
            )
        async for items in source.pages("UserHash"):
            uids = {uid for item in items for uid in text(item, "uids").split()}
            await tables.user_hash.add(filter(self._is_kept, uids))
        return len(users)

    async def _put_channels(self) -> int:
        channels = self._tables.channels
        if (handle := self._source.get("Channel")) is None:
            return 0
        found = {
            cid: one for cid, one in (await Channels(handle).all()).items() if self._is_wanted(cid)
        }
        known = await channels.all()
        new = [one for cid, one in found.items() if cid not in known]
        await channels.put(sorted(new, key=lambda one: not one.is_archived))
        await self._tables.configuration.put_names({**found, **known}.values())
        async for items in self._source.pages("Channel"):
            for item in items:
                key, channel = text(item, "channel_key"), found.get(text(item, "slack_cid"))
                if channel is not None and key != channel.name and not is_channel_id(key):
                    await channels.put_alias(key, channel)
        return len(found)

    async def _put_memberships(self) -> int:
        if (handle := self._source.get("BulkStore")) is None:
            return 0
        texts, bulk, done = TextStore(handle), self._tables.bulk, 0
        async for items in self._source.pages("BulkStore"):
            for cid in filter(self._is_wanted, (text(item, "item_id") for item in items)):
                uids = (await texts.get(cid) or "").split(",")
                members = list(filter(self._is_kept, uids))
                if members and await bulk.get(cid) is None:
                    await bulk.put(cid, ",".join(members))
                done += bool(members)
        return done

    async def _put_samples(self) -> int:
        log, done = self._tables.members_log, 0
        new: dict[int, dict[str, int]] = defaultdict(dict)
        async for items in self._source.pages("ChannelMembersLog"):
            for item in items:
                if not self._is_wanted(cid := text(item, "slack_cid")):
                    continue
                known = dict(await log.samples(cid))
                for name in item:
                    at = name.removeprefix(_SAMPLE)
                    count = number(item, name)
                    if name != at and at.isdecimal() and count is not None:
                        done += 1
                        if int(at) not in known:
                            new[int(at)][cid] = count
        for second, members in sorted(new.items()):
            await log.add(second, members)
        return done

    async def _put_counts(self, people: Mapping[str, User]) -> None:
        """How many users there were, as of now where it is not known here."""
        configuration = self._tables.configuration
        if (handle := self._source.get("Configuration")) is None:
            return
        source = Configuration(handle)
        counts, history = await source.counts(), await source.history()
        if counts == Counts():
            return
        if not counts.active_humans:
            humans = sum(not (user.deleted or user.is_bot) for user in people.values())
            counts = msgspec.structs.replace(counts, active_humans=humans)
        known = await configuration.history()
        for day, taken in (history or {date_at(self._now, self._tables.zone): counts}).items():
            if day not in known and (history or not known):
                await configuration.add_to_history(day, taken)
        if await configuration.counts() == Counts():
            await configuration.put_counts(counts)

    # ── messages, and what follows from them ─────────────────────────────────────────────────────

    async def _copy_messages(self) -> set[str]:
        """Take in the messages; return the channels they are of."""
        messages, latest = self._tables.messages, f"{self._now + _AHEAD:010d}.000000"
        channels: set[str] = set()
        read = 0
        broken: list[str] = []
        async for items in self._source.pages("Message"):
            rows, wrong = _rows(items, latest)
            broken += wrong
            wanted = (row for row in rows if row.slack_cid not in self._hidden)
            came = {row.cid_ts: row for row in self._excluded.rows(wanted)}
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
        self._report(left_out(_MESSAGES, broken))
        return channels

    async def _put_first_posts(self) -> int:
        """Take the earlier of what messages say, and of what was known of messages that are not
        stored any more.
        """
        tables, counting = self._tables, self._counting
        users = await tables.users.all()
        bots = frozenset(user.slack_uid for user in users.values() if user.is_bot)
        posts = await derived(tables.messages, counting.counted(bots))
        older = await self._older_first_posts()
        if await tables.configuration.first_posts_counting() == counting.name:
            known = await tables.first_posts.all()
            older = {uid: min(post, known.get(uid, post)) for uid, post in older.items()}
            older = {**known, **older}
        posts = await with_older(tables, posts, older)
        await tables.first_posts.put(sorted(posts.items()))
        await tables.configuration.put_first_posts_counting(counting.name)
        return len(posts)

    async def _older_first_posts(self) -> dict[str, FirstPost]:
        if (handle := self._source.get("FirstPost")) is None:
            return {}
        return {
            uid: post
            for uid, post in (await FirstPosts(handle).all()).items()
            if self._is_kept(uid) and self._is_wanted(post.slack_cid)
        }

    async def _raise_watermarks(self) -> None:
        async for items in self._source.pages("ChannelConfiguration"):
            for item in items:
                at = number(item, WATERMARK, OLDER_WATERMARK)
                if at and at <= self._now and self._is_wanted(cid := text(item, "slack_cid")):
                    await self._tables.watermarks.raise_to(cid, at)

    def _is_wanted(self, cid: str) -> bool:
        return is_channel_id(cid) and cid not in self._hidden

    def _is_kept(self, uid: str) -> bool:
        return is_user_id(uid) and uid not in self._excluded


def _rows(items: Collection[Item], latest: str) -> tuple[list[MessageRow], list[str]]:
    """The rows of items, and what is wrong with others."""
    rows, broken = [], []
    for item in items:
        try:
            rows.append(message_of(item, latest))
        except ValueError as error:
            broken.append(str(error))
    return rows, broken
