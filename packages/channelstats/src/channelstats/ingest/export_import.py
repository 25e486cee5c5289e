"""An export archive → every table.

Rule: users and channels first, then a channel at a time: its messages, its watermark, and that it
is done; first posts at the end. Each step may be repeated, so an interruption costs one channel.
What fills an empty table asks it nothing until it is full.

An export is as recent as its newest message. One older than what is stored adds what is missing
about users and channels, and changes nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import msgspec

from channelstats.counting import Counting
from channelstats.days import date_at
from channelstats.identifiers import seconds
from channelstats.ingest.events import ChannelDone, Event, Finished, Problem, Reached, Started
from channelstats.ingest.export_channel import ChannelImport
from channelstats.ingest.export_reader import Ask, Reader, reader_of
from channelstats.ingest.first_posts import FirstPostKeeper
from channelstats.ingest.message_row import Origin
from channelstats.ingest.opted_out import OptedOut, channels_not_meant, not_meant, opted_out
from channelstats.ingest.people import channel_of, counts_of, members_of, store_users, user_of
from channelstats.slack.export import ChannelKind, Export, ExportChannel
from channelstats.tables.directory import User
from channelstats.tables.store import Tables
from keytables import Clock

_AHEAD: Final = 86_400
"""Seconds that a message may lie in the future: clocks differ, years do not."""


_ASKED: Final = 4
"""Channels that are read, or to be read, while one is stored."""


class Choice(msgspec.Struct, frozen=True):
    """What to take in: public channels always. Channels (IDs or names) and people (IDs, user names
    or display names) may be left out.
    """

    include_private: bool = False
    include_dms: bool = False
    exclude_channels: frozenset[str] = frozenset()
    exclude_people: frozenset[str] = frozenset()

    @property
    def kind_of_channels(self) -> str:
        """What is said of a channel that is none of those."""
        return "" if self.include_private else "public "

    @property
    def kinds(self) -> frozenset[ChannelKind]:
        found = {ChannelKind.PUBLIC}
        if self.include_private:
            found.add(ChannelKind.PRIVATE)
        if self.include_dms:
            found |= {ChannelKind.DIRECT, ChannelKind.GROUP_DIRECT}
        return frozenset(found)

    def wants(self, channel: ExportChannel) -> bool:
        return self.exclude_channels.isdisjoint((channel.about.id, channel.about.name))


class ExportImport:
    """One run. Give it the same export again to go on after an interruption."""

    def __init__(
        self,
        export: Export,
        tables: Tables,
        *,
        clock: Clock,
        counting: Counting,
        choice: Choice | None = None,
    ) -> None:
        self._export, self._tables, self._counting = export, tables, counting
        self._choice = choice or Choice()
        self._now = int(clock())
        self._latest = f"{self._now + _AHEAD:010d}.000000"
        self._fetched_at = 0
        self._problems = 0
        self._out = OptedOut()

    async def run(self) -> AsyncGenerator[Event, None]:
        """Import, and report as it goes on."""
        export, tables = self._export, self._tables
        configuration = tables.configuration
        listed = await asyncio.to_thread(export.users)
        listed_channels = await asyncio.to_thread(export.channels, self._choice.kinds)
        channels = list(filter(self._choice.wants, listed_channels))
        as_of = await asyncio.to_thread(export.newest, channels, self._latest)
        self._fetched_at = seconds(as_of) if as_of else 0
        done, newest = await configuration.import_done(export.fingerprint)
        users = [user_of(user) for user in listed or ()]
        yield Started(len(users), len(channels), len(done))
        for problem in self._met(export.problems()):
            yield problem

        people = await tables.users.all() | {user.slack_uid: user for user in users}
        names = {channel.name for channel in (await tables.channels.all()).values()}
        names |= {channel.about.name or "" for channel in listed_channels}
        hidden = channels_not_meant(
            self._choice.exclude_channels, names, self._choice.kind_of_channels
        )
        for problem in self._met([*not_meant(self._choice.exclude_people, people), *hidden]):
            yield problem
        self._out = await opted_out(tables, self._choice.exclude_people, people)
        await self._put_directory(users if listed is not None else None, channels)
        known = await tables.users.all()
        bots = frozenset(user.slack_uid for user in known.values() if user.is_bot)
        keeper = FirstPostKeeper(tables, self._counting, bots)
        await keeper.start()

        left = [channel for channel in channels if channel.about.id not in done]
        sizes = {channel.about.id: export.size(channel) for channel in channels}
        size = sum(sizes.values())
        todo = sum(sizes[channel.about.id] for channel in left)
        messages = changed = 0
        first = await tables.messages.is_empty()
        async with (
            tables.messages.loading(),
            reader_of(export, todo) as reader,
            aclosing(self._read(reader, left, first=first)) as read,
        ):
            number = len(channels) - len(left)
            async for channel, alone in read:
                cid, name = channel.about.id, channel_of(channel).name
                async with ChannelImport(
                    tables, keeper, self._out, cid, alone=alone, fetched_at=self._fetched_at
                ) as taken:
                    yield Reached(name, size - todo, size, messages)
                    async for piece in reader.answer():
                        for problem in self._met(piece.problems):
                            yield problem
                        new = (user for user in piece.authors if user.slack_uid not in known)
                        await store_users(tables, self._out.users(new), self._now, replace=False)
                        await taken.take(piece)
                        if not piece.is_last:
                            part = sizes[cid] * taken.messages // piece.total
                            so_far = messages + taken.messages
                            yield Reached(name, size - todo + part, size, so_far)
                    await taken.finish()
                newest = max(newest, taken.newest)
                await configuration.add_import_done(export.fingerprint, cid, newest)
                todo, number = todo - sizes[cid], number + 1
                messages, changed = messages + taken.messages, changed + taken.changed
                yield ChannelDone(cid, name, number, len(channels), taken.messages, taken.changed)

        await keeper.finish()
        await tables.messages.close_days()
        if newest:
            await tables.members_log.add(seconds(newest), _members(channels))
            await configuration.raise_last_run(seconds(newest))
        await configuration.forget_import(export.fingerprint)
        yield Finished(len(channels), messages, changed, self._problems, newest)

    def _met(self, problems: list[Problem]) -> list[Problem]:
        self._problems += len(problems)
        return problems

    # ── users and channels ───────────────────────────────────────────────────────────────────────

    async def _put_directory(self, users: list[User] | None, channels: list[ExportChannel]) -> None:
        tables, configuration = self._tables, self._tables.configuration
        recent = self._fetched_at >= await configuration.directory_as_of()
        if users is not None:
            counts = counts_of(users)
            stored_users = self._out.users(users)
            await store_users(tables, stored_users, self._now, replace=recent)
            if recent:
                await configuration.put_counts(counts)
            if self._fetched_at:
                await configuration.add_to_history(date_at(self._fetched_at, tables.zone), counts)
        known = await tables.channels.all()
        rows = {channel.about.id: channel_of(channel) for channel in channels}
        await tables.channels.put(row for cid, row in rows.items() if recent or cid not in known)
        stored = known | rows if recent else rows | known
        await configuration.put_names(stored.values())
        for channel in channels:
            await self._put_members(channel, recent=recent and not channel.about.is_archived)
        if recent:
            await configuration.put_directory_as_of(self._fetched_at)

    async def _put_members(self, channel: ExportChannel, *, recent: bool) -> None:
        """Keep who is in a channel: never an empty list, which is what archiving leaves."""
        members = [uid for uid in members_of(channel) if uid not in self._out]
        bulk = self._tables.bulk
        if members and (recent or await bulk.get(channel.about.id) is None):
            await bulk.put(channel.about.id, ",".join(members))

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    async def _read(
        self, reader: Reader, channels: list[ExportChannel], *, first: bool
    ) -> AsyncGenerator[tuple[ExportChannel, bool], None]:
        """Have channels read while others are stored; tell whose answer comes next,
        and whether nothing of that channel is stored: ``first`` says so of all.
        """
        asked: deque[tuple[ExportChannel, bool]] = deque()
        for channel in channels:
            cid = channel.about.id
            alone = first or not await self._tables.messages.has_channel(cid)
            await reader.ask(Ask(Origin(cid, "export", self._fetched_at, self._latest), alone))
            asked.append((channel, alone))
            if len(asked) > _ASKED:
                yield asked.popleft()
        while asked:
            yield asked.popleft()


def _members(channels: list[ExportChannel]) -> dict[str, int]:
    """How many members each channel has, as far as the export says."""
    return {
        channel.about.id: len(members_of(channel))
        for channel in channels
        if channel.about.members is not None and not channel.about.is_archived
    }
