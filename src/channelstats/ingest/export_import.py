"""An export archive → every table.

Rule: users and channels first, then a channel at a time: its messages, its watermark, and that it
is done; first posts at the end. Each step may be repeated, so an interruption costs one channel.

An export is as recent as its newest message. One older than what is stored adds what is missing
about users and channels, and changes nothing.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from channelstats.counting import Counting
from channelstats.days import date_at
from channelstats.identifiers import seconds
from channelstats.ingest.events import ChannelDone, Event, Finished, Problem, Started
from channelstats.ingest.first_posts import FirstPostKeeper
from channelstats.ingest.message_row import Origin, row_of
from channelstats.ingest.people import (
    channel_of,
    counts_of,
    members_of,
    user_of,
    user_of_profile,
)
from channelstats.ingest.threads import lowest, settle
from channelstats.slack.export import ChannelKind, Export, ExportChannel, left_out
from channelstats.slack.objects import Named
from channelstats.tables.directory import User
from channelstats.tables.message_row import MessageRow
from channelstats.tables.store import Tables
from tablestore import Clock

_AHEAD: Final = 86_400
"""Seconds that a message may lie in the future: clocks differ, years do not."""


class Choice(msgspec.Struct, frozen=True):
    """What to take in: public channels always."""

    include_private: bool = False
    include_dms: bool = False

    @property
    def kinds(self) -> frozenset[ChannelKind]:
        found = {ChannelKind.PUBLIC}
        if self.include_private:
            found.add(ChannelKind.PRIVATE)
        if self.include_dms:
            found |= {ChannelKind.DIRECT, ChannelKind.GROUP_DIRECT}
        return frozenset(found)


class _Read(msgspec.Struct):
    """What the files of a channel hold. ``profiles`` are those beside messages, by author."""

    rows: list[MessageRow]
    profiles: dict[str, Named]
    problems: list[Problem]


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
        self._latest = f"{int(clock()) + _AHEAD:010d}.000000"
        self._fetched_at = 0
        self._problems = 0

    async def run(self) -> AsyncGenerator[Event, None]:
        """Import, and report as it goes on."""
        export, tables = self._export, self._tables
        configuration = tables.configuration
        listed = await asyncio.to_thread(export.users)
        channels = await asyncio.to_thread(export.channels, self._choice.kinds)
        as_of = await asyncio.to_thread(export.newest, channels, self._latest)
        self._fetched_at = seconds(as_of) if as_of else 0
        done, newest = await configuration.import_done(export.fingerprint)
        users = [user_of(user) for user in listed or ()]
        yield Started(len(users), len(channels), len(done))
        for problem in self._met(export.problems()):
            yield problem

        await self._put_directory(users if listed is not None else None, channels)
        known = await tables.users.all()
        bots = frozenset(user.slack_uid for user in known.values() if user.is_bot)
        keeper = FirstPostKeeper(tables, self._counting, bots)
        await keeper.start()

        messages = changed = 0
        for number, channel in enumerate(channels, 1):
            if channel.about.id in done:
                continue
            read = await asyncio.to_thread(self._read, channel)
            for problem in self._met(read.problems):
                yield problem
            changes = await self._put_messages(channel, read, keeper)
            new = {uid: profile for uid, profile in read.profiles.items() if uid not in known}
            await tables.users.add(user_of_profile(uid, profile) for uid, profile in new.items())
            newest = max([newest, *(row.ts for row in read.rows)])
            await configuration.add_import_done(export.fingerprint, channel.about.id, newest)
            messages, changed = messages + len(read.rows), changed + changes
            yield ChannelDone(
                channel.about.id,
                channel_of(channel).name,
                number,
                len(channels),
                len(read.rows),
                changes,
            )

        await keeper.finish()
        if newest:
            await tables.members_log.add(seconds(newest), _members(channels))
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
            if recent:
                await tables.users.put(users)
                await configuration.put_counts(counts)
            else:
                await tables.users.add(users)
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
        members, bulk = members_of(channel), self._tables.bulk
        if members and (recent or await bulk.get(channel.about.id) is None):
            await bulk.put(channel.about.id, ",".join(members))

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _read(self, channel: ExportChannel) -> _Read:
        origin = Origin(channel.about.id, "export", self._fetched_at, self._latest)
        found = _Read([], {}, [])
        for place, messages in self._export.messages(channel):
            reasons = []
            for message in messages:
                if message.type != "message":
                    continue
                try:
                    row = row_of(message, origin)
                except ValueError as error:
                    reasons.append(str(error))
                    continue
                found.rows.append(row)
                if message.user_profile is not None and row.slack_uid and not row.is_bot:
                    found.profiles[row.slack_uid] = message.user_profile
            found.problems += left_out(place, reasons)
        found.problems[:0] = self._export.problems()
        return found

    async def _put_messages(
        self, channel: ExportChannel, read: _Read, keeper: FirstPostKeeper
    ) -> int:
        """Store what was read; return how many rows changed."""
        tables, cid = self._tables, channel.about.id
        stored = await tables.messages.of_channel(cid, lowest(read.rows)) if read.rows else {}
        changes = settle(stored, read.rows)
        await tables.messages.write(row for row, _ in changes)
        for row, replaced in changes:
            keeper.consider(row, replaced)
        top = max((row.ts for row in read.rows if not row.is_reply), default="")
        if top:
            await tables.watermarks.raise_to(cid, seconds(top))
        return len(changes)


def _members(channels: list[ExportChannel]) -> dict[str, int]:
    """How many members each channel has, as far as the export says."""
    return {
        channel.about.id: len(members_of(channel))
        for channel in channels
        if channel.about.members is not None and not channel.about.is_archived
    }
