"""Another installation's tables, the original's above all → these tables.

Rule: people and channels first, then messages, then what follows from them. What is known here and
as recent stays, so a migration can be interrupted, and done again at any time.
"""

from collections.abc import AsyncGenerator, Collection
from typing import Final, TypeAlias

import msgspec

from channelstats.counting import Counting
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.ingest.first_posts import with_older
from channelstats.ingest.message_row import EARLIEST
from channelstats.ingest.migrating_directory import DirectoryMigration
from channelstats.ingest.older_rows import message_of
from channelstats.ingest.older_tables import OlderTables
from channelstats.ingest.opted_out import OptedOut, channels_not_meant, not_meant, opted_out
from channelstats.ingest.threads import recency, settle
from channelstats.slack.export import Problem, left_out
from channelstats.tables import Tables
from channelstats.tables.attributes import number, text
from channelstats.tables.configuration import Configuration
from channelstats.tables.directory import Channels, Users
from channelstats.tables.first_posts import FirstPost, FirstPosts, derived
from channelstats.tables.forgotten import add_digests, forgotten
from channelstats.tables.leaving_out import channels_meant
from channelstats.tables.message_row import MessageRow
from channelstats.tables.watermarks import ATTRIBUTE, OLDER_NAME
from keytables import Clock, Item

_AHEAD: Final = 86_400
"""Seconds that a message may lie in the future."""

_MESSAGES: Final = "messages"


class Copied(msgspec.Struct, frozen=True):
    """So many of a kind were read; ``changed`` of them were not known here, or not as recent."""

    what: str
    number: int
    changed: int = 0


MigrationEvent: TypeAlias = Copied | Problem


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
    ) -> None:
        self._source, self._tables = source, tables
        self._excluded, self._excluded_channels = excluded, excluded_channels
        self._now, self._counting = int(clock()), counting
        self._out = OptedOut()
        self._hidden: frozenset[str] = frozenset()

    async def run(self) -> AsyncGenerator[MigrationEvent, None]:
        """Take everything in, and report as it goes on. Of each kind the last event counts."""
        source, tables = self._source, self._tables
        known, users = source.get("Configuration"), source.get("User")
        if known is not None and (digests := await forgotten(Configuration(known))):
            await add_digests(tables.configuration, digests)
        people = await Users(users).all() if users is not None else {}
        for problem in not_meant(self._excluded, people):
            yield problem
        self._out = await opted_out(tables, self._excluded, people)
        channel = source.get("Channel")
        found = await Channels(channel).all() if channel is not None else {}
        names = {channel.friendly_name for channel in found.values()}
        for problem in channels_not_meant(self._excluded_channels, names):
            yield problem
        self._hidden = channels_meant(self._excluded_channels, found)
        directory = DirectoryMigration(source, tables, people, self._out, self._hidden, self._now)
        async for what, number_of in directory.run():
            yield Copied(what, number_of)
        channels: set[str] = set()
        async for event in self._copy_messages(channels):
            yield event
        for done, cid in enumerate(sorted(channels), 1):
            await self._rebuild_threads(cid)
            yield Copied("channels with their threads", done)
        await directory.put_counts()
        yield Copied("first posts", await self._put_first_posts())
        await self._raise_watermarks()
        await tables.messages.close_days()

    async def _copy_messages(self, channels: set[str]) -> AsyncGenerator[MigrationEvent, None]:
        """Take in the messages; note the channels they are of."""
        messages, latest = self._tables.messages, f"{self._now + _AHEAD:010d}.000000"
        read = changed = 0
        broken: list[str] = []
        async for items in self._source.pages("Message"):
            rows, wrong = _rows(items, latest)
            broken += wrong
            wanted = (row for row in rows if row.slack_cid not in self._hidden)
            came = {row.cid_ts: row for row in self._out.rows(wanted)}
            known = await messages.known(came)
            new = [
                row
                for key, row in came.items()
                if key not in known or recency(row) > recency(known[key])
            ]
            await messages.write(new)
            channels.update(row.slack_cid for row in came.values())
            read, changed = read + len(rows), changed + len(new)
            yield Copied(_MESSAGES, read, changed)
        for problem in left_out(_MESSAGES, broken):
            yield problem

    async def _rebuild_threads(self, cid: str) -> None:
        """The original did not always say whom a message answers."""
        stored = await self._tables.messages.of_channel(cid, EARLIEST)
        await self._tables.messages.write(row for row, _ in settle(stored, ()))

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
            if is_user_id(uid) and uid not in self._out and self._is_wanted(post.slack_cid)
        }

    async def _raise_watermarks(self) -> None:
        async for items in self._source.pages("ChannelConfiguration"):
            for item in items:
                at = number(item, ATTRIBUTE, OLDER_NAME)
                if at and at <= self._now and self._is_wanted(cid := text(item, "slack_cid")):
                    await self._tables.watermarks.raise_to(cid, at)

    def _is_wanted(self, cid: str) -> bool:
        return is_channel_id(cid) and cid not in self._hidden


def _rows(items: Collection[Item], latest: str) -> tuple[list[MessageRow], list[str]]:
    """The rows of items, and what is wrong with others."""
    rows, broken = [], []
    for item in items:
        try:
            rows.append(message_of(item, latest))
        except ValueError as error:
            broken.append(str(error))
    return rows, broken
