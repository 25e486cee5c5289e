"""An export archive → every table.

Rule: users and channels first, then a channel at a time: its rows, what follows from them, its
watermark, and that it is done; first posts at the end. Each step may be repeated, so an
interruption costs one channel. What fills an empty table asks it nothing until it is full.

The same import again, with no message written since, reads no channel: see `_unchanged`.

An export is as recent as its newest message; `export_time` says which of two is the later one. One
older than what is stored adds what is missing about users and channels, and changes nothing. What
is stored of an older one and not in a later one, from its first message of a channel on, was
deleted.
"""

import asyncio
import hashlib
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from pathlib import PurePath
from typing import Final

import msgspec

from channelstats.counting import Counting
from channelstats.days import date_at, midnight
from channelstats.identifiers import seconds
from channelstats.ingest.export_reader import ChannelContent, channel_reader
from channelstats.ingest.export_time import AgeOrder, ExportAge, ReadUpTo, place_among, read_up_to
from channelstats.ingest.home import Home, check_home, grids_of
from channelstats.ingest.merging import Scan, ScanLog, earliest, gone
from channelstats.ingest.people import (
    home_teams,
    join_stored,
    mark_strangers,
    most_are_of,
    people_of,
)
from channelstats.ingest.rows import ROWS_VERSION, Origin, channel_of, counts_of, latest, members_of
from channelstats.ingest.runs import Checkpoint, OnEvent, Run, StepProgress, ignore_event
from channelstats.slack.export import Export, ExportChannel, Problem, day_of, unlisted_problems
from channelstats.slack.export_layout import ChannelKind
from channelstats.slack.objects import SlackUser
from channelstats.tables.directory import ids_of_people
from channelstats.tables.items import number, struct_of, text, without_empty
from channelstats.tables.message_row import MessageRow
from channelstats.tables.store import Tables
from keytables import Clock, Item

UNLISTED_FLAG: Final = "--unlisted"
"""What asks for folders that are in no list."""

_LAST: Final = "last_import"

_AGES: Final = "seen exports"
"""The row of Configuration that has the ages of exports, by their marks."""

_MOST_AGES: Final = 100

_MOST_DELETED: Final = 5
"""Messages of a channel that may be missing in a later export, or half of those that are stored,
to be taken for deleted. Programs may leave out others, as those around the head of an old thread.
"""

_READ_AHEAD: Final = 3
"""Channels that are read, or to be read, while one is stored."""


class ImportOptions(msgspec.Struct, frozen=True):
    """What to take in: public channels always. Channels (IDs or names) and people (IDs, user names
    or display names) may be left out. Of an Enterprise Grid one ``workspace`` may be chosen; with
    ``include_unlisted`` come folders that are in no list. ``until`` is the last day that the export
    covers; None where that is to be found out.
    """

    include_private: bool = False
    include_dms: bool = False
    include_unlisted: bool = False
    workspace: str = ""
    exclude_channels: frozenset[str] = frozenset()
    exclude_people: frozenset[str] = frozenset()
    until: date | None = None

    @property
    def kinds(self) -> frozenset[ChannelKind]:
        kinds = {ChannelKind.PUBLIC}
        if self.include_private:
            kinds.add(ChannelKind.PRIVATE)
        if self.include_dms:
            kinds |= {ChannelKind.DIRECT, ChannelKind.GROUP_DIRECT}
        if self.include_unlisted:
            kinds.add(ChannelKind.UNLISTED)
        return frozenset(kinds)

    def wants(self, channel: ExportChannel) -> bool:
        return self.exclude_channels.isdisjoint(
            (channel.about.id, channel.about.name, channel.name)
        )

    def is_here(self, channel: ExportChannel) -> bool:
        """Whether a channel is in the workspace that was chosen."""
        return not self.workspace or self.workspace in channel.workspaces


class ImportResult(msgspec.Struct):
    """What is stored: channels of this run and of interrupted ones before it, messages and changed
    rows of this run, problems met in it, and the newest timestamp, "" without messages;
    ``left_out`` is how many channels there were of each kind that was not asked for, ``elsewhere``
    how many in other workspaces; ``read``, up to when the export has every message, None without
    messages; ``is_ordered``, whether it was certainly taken before or after each other export.
    """

    channels: int = 0
    messages: int = 0
    changed: int = 0
    problems: int = 0
    newest: str = ""
    read: ReadUpTo | None = None
    left_out: dict[ChannelKind, int] = {}
    elsewhere: int = 0
    is_ordered: bool = True


class ExportImport:
    """One run. Give it the same export again to go on after an interruption."""

    def __init__(
        self,
        export: Export,
        tables: Tables,
        *,
        clock: Clock,
        counting: Counting,
        options: ImportOptions | None = None,
        on_event: OnEvent = ignore_event,
    ) -> None:
        self._export, self._tables = export, tables
        self._options = options or ImportOptions()
        self._run = Run(tables, clock, counting, on_event)
        key = f"import {export.fingerprint}"
        self._checkpoint = Checkpoint(tables.configuration, key, clock)
        self._latest = latest(self._run.now)
        self._order, self._newest = AgeOrder(0), ""
        self._ids: Mapping[str, str] = {}
        self._homes = frozenset[str]()
        self._teams: dict[str, str] = {}
        self._lists_users = True
        self._workspaces = Counter[str]()
        self._bytes = self._bytes_done = 0
        self._result = ImportResult()

    async def run(self) -> ImportResult:
        """Import everything that is not stored yet.

        :raises OtherWorkspace: what is stored is of another one
        """
        export, tables, result = self._export, self._tables, self._result
        configuration = tables.configuration
        users = await asyncio.to_thread(export.users, self._options.workspace)
        everywhere = await asyncio.to_thread(export.channels)
        self._lists_users = users is not None
        every_kind, kinds = list(filter(self._options.is_here, everywhere)), self._options.kinds
        result.elsewhere = len(everywhere) - len(every_kind)
        listed = [channel for channel in every_kind if channel.kind in kinds]
        not_chosen = [channel for channel in every_kind if channel.kind not in kinds]
        result.left_out = dict(Counter(channel.kind for channel in not_chosen))
        channels = list(filter(self._options.wants, listed))
        self._homes = home_teams(users or (), is_grid=bool(export.workspaces))
        await self._check_home(users or (), everywhere)
        self._newest = await asyncio.to_thread(export.newest, channels, self._latest)
        self._order = await self._place(channels)
        result.is_ordered = self._order.is_certain
        done = await self._checkpoint.start()
        unchanged = {} if done else await self._unchanged()
        noted = unchanged or self._checkpoint.noted
        result.newest, result.messages = text(noted, "newest"), number(noted, "messages") or 0
        if isinstance(links := noted.get("workspaces"), Mapping):
            self._workspaces.update({name: number(links, name) or 0 for name in links})
        self._run.report(export.problems())
        self._run.report(unlisted_problems(not_chosen, UNLISTED_FLAG))
        await self._put_directory(users, channels, listed)

        await self._run.begin_messages(await tables.users.all())
        del users  # Of a large workspace these are tens of megabytes.
        left = [channel for channel in channels if channel.about.id not in done]
        self._bytes = sum(map(export.size, channels))
        self._bytes_done = self._bytes - sum(map(export.size, left))
        if not unchanged:
            await self._import_channels(left)
        await self._run.end_messages()
        homes = self._homes or most_are_of(Counter(self._teams.values()))
        await mark_strangers(tables, self._teams, homes)
        await tables.messages.close_days()
        if result.newest:
            await tables.members_log.add(seconds(result.newest), _members(channels, self._ids))
            result.read = self._read_up_to(channels)
            await configuration.raise_last_run(result.read.at)
        # Files of shared channels are linked to where they come from: most are from here.
        for name, _ in self._workspaces.most_common(1):
            await configuration.put_workspace(name, self._order.mark)
        await self._checkpoint.clear()
        result.channels, result.problems = len(channels), self._run.problems
        if not done:
            await self._note_end()
        return result

    async def _check_home(
        self, users: Collection[SlackUser], channels: Iterable[ExportChannel]
    ) -> None:
        """:raises OtherWorkspace: what is stored is of another one"""
        teams = self._homes
        if self._export.workspaces:  # any of which may be imported alone
            teams = grids_of(users) or (frozenset() if self._options.workspace else teams)
        called = PurePath(self._export.path).name.removesuffix(".zip")
        listed = (user.id for user in users if not user.is_stranger)
        cids = (channel.about.id for channel in channels if channel.kind)
        await check_home(self._tables, Home(teams, called), listed, cids)

    # ── how recent it is ─────────────────────────────────────────────────────────────────────────

    async def _place(self, channels: list[ExportChannel]) -> AgeOrder:
        """Where the export stands among those that were imported before; it is noted for those that
        come after.
        """
        export, now, zone = self._export, self._run.now, self._tables.zone
        configuration = self._tables.configuration
        newest = seconds(self._newest) if self._newest else 0
        if not newest and (day := _newest_day(channels)) is not None:
            newest = min(midnight(day, zone), now)  # of its files no message can be read
        age = ExportAge.of(newest, export.written(), export.path, now)
        rows = {
            int(mark): row
            for mark, row in (await configuration.get(_AGES)).items()
            if isinstance(row, Mapping) and text(row, "of") != export.fingerprint
        }
        order = place_among(age, {mark: struct_of(ExportAge, row) for mark, row in rows.items()})
        if newest:
            about = without_empty({"of": export.fingerprint, **msgspec.structs.asdict(age)})
            kept: Item = {str(mark): row for mark, row in sorted(rows.items())[1 - _MOST_AGES :]}
            await configuration.put(_AGES, {**kept, str(order.mark): about})
        return order

    # ── the same import again ────────────────────────────────────────────────────────────────────

    async def _unchanged(self) -> Item:
        """What the last import noted, if it was this one and no message was written since; nothing
        where anything could be new.
        """
        noted = await self._tables.configuration.get(_LAST)
        state = await self._tables.messages.versions.since(date.min)
        is_same = state is not None and text(noted, "state") == state
        return noted if is_same and text(noted, "of") == self._mark else {}

    async def _note_end(self) -> None:
        """Note what was stored, unless the same import could find something else another time:
        problems are reported each time, and who is excluded by name depends on today's names.
        """
        configuration, result = self._tables.configuration, self._result
        state = await self._tables.messages.versions.since(date.min)
        if state is None or result.problems or self._options.exclude_people:
            await configuration.delete(_LAST)
            return
        about: Item = {"of": self._mark, "state": state, "messages": result.messages}
        more: Item = {"newest": result.newest, "workspaces": dict(self._workspaces)}
        await configuration.put(_LAST, without_empty({**about, **more}))

    @property
    def _mark(self) -> str:
        """What tells this import from one of another export, or made in another way."""
        options = msgspec.json.encode(self._options, order="deterministic").decode()
        way = ROWS_VERSION, self._tables.zone.key, self._order.mark, options
        return hashlib.sha256(f"{self._export.fingerprint} {way}".encode()).hexdigest()

    def _read_up_to(self, channels: list[ExportChannel]) -> ReadUpTo:
        """Up to when the export has every message of these channels."""
        return read_up_to(
            seconds(self._result.newest),
            self._run.now,
            self._tables.zone,
            day_file=_newest_day(channels),
            written=self._export.written(),
            path=self._export.path,
            last_day=self._options.until,
        )

    # ── users and channels ───────────────────────────────────────────────────────────────────────

    async def _put_directory(
        self,
        listed: list[SlackUser] | None,
        channels: list[ExportChannel],
        every: list[ExportChannel],
    ) -> None:
        tables, configuration, options = self._tables, self._tables.configuration, self._options
        run, stored_users = self._run, await tables.users.all()
        users = people_of(listed or (), stored_users, self._homes)
        self._ids = ids_of_people(stored_users | {user.slack_uid: user for user in users})
        if await join_stored(tables, self._ids, stored_users):
            stored_users = await tables.users.all()
        people = stored_users | {user.slack_uid: user for user in users}
        known = await tables.channels.all()
        names = {channel.name for channel in known.values()}
        names |= {channel.slack_name for channel in known.values()}
        names |= {name for channel in every for name in (channel.about.name or "", channel.name)}
        await run.exclude_people(options.exclude_people, people)
        run.check_channels(options.exclude_channels, names, private=options.include_private)

        stored_of = await configuration.directory_as_of()
        recent = self._order.mark >= self._order.worth.get(stored_of, stored_of)
        if listed is not None:
            counts = counts_of(users)
            await tables.put_users(run.excluded.users(users), run.now, replace=recent)
            if recent:
                await configuration.put_counts(counts)
            if self._order.mark:
                await configuration.add_to_history(date_at(self._order.mark, tables.zone), counts)
        rows = {channel.about.id: channel_of(channel, self._ids) for channel in channels}
        await tables.channels.put(row for cid, row in rows.items() if recent or cid not in known)
        stored = known | rows if recent else rows | known
        await configuration.put_names(stored.values())
        await configuration.put_general(rows.values())
        for channel in channels:
            replaces = recent and not channel.about.is_archived
            members = members_of(channel, self._ids)
            await run.put_members(channel.about.id, members, replace=replaces)
        if recent:
            await configuration.raise_directory_as_of(self._order.mark)

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    async def _import_channels(self, channels: list[ExportChannel]) -> None:
        """Store one channel after the other; the next ones are read meanwhile."""
        tables, left = self._tables, deque(channels)
        is_empty = await tables.messages.is_empty()
        reading: deque[tuple[ExportChannel, bool, asyncio.Future[ChannelContent]]] = deque()
        size = sum(map(self._export.size, channels))
        async with (
            tables.messages.loading(),
            channel_reader(self._export, size, self._ids) as read,
        ):
            while left or reading:
                while left and len(reading) < _READ_AHEAD:
                    channel = left.popleft()
                    cid = channel.about.id
                    is_new = is_empty or not await tables.messages.has_channel(cid)
                    origin = Origin(cid, "export", self._order.mark, self._latest)
                    content = read(channel, origin, is_new)
                    reading.append((channel, is_new, content))
                channel, is_new, content = reading.popleft()
                self._progress(channel, 0)
                await self._store(channel, await content, is_new=is_new)
                self._bytes_done += self._export.size(channel)
                await self._checkpoint.add(
                    channel.about.id,
                    {"newest": self._result.newest, "workspaces": dict(self._workspaces)},
                )

    async def _store(
        self, channel: ExportChannel, content: ChannelContent, *, is_new: bool
    ) -> None:
        """Store the rows of a channel, then what follows from them. Where none ``is_new``, they are
        merged with what is there once all have come.
        """
        run, tables, cid, result = self._run, self._tables, channel.about.id, self._result
        self._workspaces.update(content.workspaces)
        self._teams.update(content.teams)
        run.report(content.problems)
        await run.put_authors(content.authors, is_listed=self._lists_users)
        rows, deleted = list[MessageRow](), list[MessageRow]()
        seen = set[str]()
        before = result.messages
        for piece in content.pieces():
            if so_far := result.messages - before:
                self._progress(channel, so_far / content.messages)
            result.messages += len(piece)
            seen.update(row.ts for row in piece)
            kept = list(run.excluded.rows(piece))
            if is_new:
                await run.put_messages([(row, None) for row in kept])
                result.changed += len(kept)
            else:
                rows += kept
        if not content.messages:
            return
        stored = {} if is_new else await tables.messages.of_channel(cid, earliest(rows))
        order = self._order
        scans = await ScanLog.load(tables.configuration, cid, order.worth)
        since, until = content.oldest, content.newest
        if not content.problems:
            until = max(until, self._newest)
            deleted = gone(
                stored,
                seen,
                order.mark,
                lambda row: since <= row.ts <= until and scans.recency(row) < order.mark,
            )
            there = sum(since <= ts <= until and not row.deleted for ts, row in stored.items())
            if len(deleted) > max(_MOST_DELETED, there // 2):
                reason = f"{len(deleted):,} messages stored before are not in this export"
                run.report([Problem(channel.name or cid, f"{reason}, and not taken for deleted")])
                deleted = []
        scan = Scan.of_run(seen, stored, at=order.mark, since=since, until=until)
        every = [*rows, *deleted]
        changes = await run.merge_channel(cid, every, stored, scans, scan, content.newest_top)
        result.changed += len(changes)
        result.newest = max(result.newest, content.newest)

    def _progress(self, channel: ExportChannel, share: float) -> None:
        """Report that so much of a channel is stored."""
        done = self._bytes_done + int(share * self._export.size(channel))
        name, messages = channel_of(channel).name, self._result.messages
        self._run.on_event(StepProgress("messages", done, self._bytes, name, messages))


def _newest_day(channels: Iterable[ExportChannel]) -> date | None:
    """The newest date that files of days are called by."""
    named = (map(day_of, reversed(channel.days)) for channel in channels)
    days = (next(filter(None, some), None) for some in named)  # they are in order
    return max(filter(None, days), default=None)


def _members(channels: list[ExportChannel], ids: Mapping[str, str]) -> dict[str, int]:
    """How many members each channel has, as far as the export says."""
    return {
        channel.about.id: len(members_of(channel, ids))
        for channel in channels
        if channel.about.members is not None and not channel.about.is_archived
    }
