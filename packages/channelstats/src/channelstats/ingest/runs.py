"""Shared by all imports: excluded people, progress events, how what was read is stored, and
checkpoints, by which an interrupted run goes on. For those over the Web API also the options and
the result.

Rule: of a channel the messages are stored first, then what says that they were read. Each step may
be repeated.

Rule: an event has names of channels, files and methods, and numbers; never message text or a token.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from itertools import count
from typing import Final, TypeAlias

import msgspec

from channelstats.counting import Counting
from channelstats.identifiers import is_channel_id, is_user_id, seconds
from channelstats.ingest.merging import Change, Scan, ScanLog, merge_messages
from channelstats.slack.export import Problem
from channelstats.slack.objects import ListedChannel
from channelstats.slack.web_api import WebApi
from channelstats.tables import Tables
from channelstats.tables.configuration import Configuration
from channelstats.tables.directory import User
from channelstats.tables.exclusion import Exclusions
from channelstats.tables.first_posts import FirstPostUpdater
from channelstats.tables.items import number, text, texts, without_empty
from channelstats.tables.message_row import MessageRow
from keytables import Clock, Item, Update, Value

PEOPLE_PLACE: Final = "exclude_users"
CHANNELS_PLACE: Final = "exclude_channels"


class StepProgress(msgspec.Struct, frozen=True):
    """``done`` of ``total`` are done of a ``step`` (0: not known of how many). The import of an
    export counts bytes, all else counts what the step is named after. ``channel``: the one at hand,
    "" at the beginning of a step; ``messages`` of this run so far.
    """

    step: str
    done: int
    total: int = 0
    channel: str = ""
    messages: int = 0


Event: TypeAlias = StepProgress | Problem
OnEvent: TypeAlias = Callable[[Event], object]
"""Is given every event at once; it may raise to end the run."""


def ignore_event(_: Event) -> None:
    """An `OnEvent` that does nothing."""


class Run:
    """A run into ``tables``: who is ``excluded`` from it, and how many ``problems`` cost single
    objects.
    """

    def __init__(self, tables: Tables, clock: Clock, counting: Counting, on_event: OnEvent) -> None:
        self.tables, self.clock, self.on_event = tables, clock, on_event
        self.excluded = Exclusions()
        self.problems = 0
        self._first_posts = FirstPostUpdater(tables, counting)
        self._known: set[str] = set()

    @property
    def now(self) -> int:
        return int(self.clock())

    def report(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.problems += 1
            self.on_event(problem)

    async def exclude_people(self, listed: Collection[str], users: Mapping[str, User]) -> None:
        """Exclude the forgotten, and the ``users`` that a list of names and IDs refers to."""
        self.report(
            Problem(PEOPLE_PLACE, f"nobody is called {name!r}, so nobody is left out by it")
            for name in unknown_people(listed, users)
        )
        self.excluded = await Exclusions.load(self.tables, listed, users)

    def check_channels(
        self, listed: Collection[str], names: Collection[str], *, private: bool = True
    ) -> None:
        """Report what on a list leaves no channel out: neither an ID nor one of these names, which
        are all that are known, of ``private`` channels too.
        """
        kind = "" if private else "public "
        self.report(
            Problem(
                CHANNELS_PLACE, f"no {kind}channel is called {name!r}, so none is left out by it"
            )
            for name in sorted(entry.removeprefix("#") for entry in listed)
            if not is_channel_id(name) and name not in names
        )

    # ── storing ──────────────────────────────────────────────────────────────────────────────────

    async def put_members(self, cid: str, members: Iterable[str], *, replace: bool = True) -> None:
        """Store who is in a channel, of those who are not left out; an empty list, which is what
        archiving leaves, replaces none. ``replace``: whether another list does.
        """
        kept, bulk = [uid for uid in members if uid not in self.excluded], self.tables.bulk
        if kept and (replace or await bulk.get(cid) is None):
            await bulk.put(cid, ",".join(kept))

    async def begin_messages(self, users: Mapping[str, User]) -> None:
        """To be called before messages are stored, with the users that are."""
        self._known = set(users)
        await self._first_posts.start(users)

    async def put_authors(self, authors: Iterable[User], *, is_listed: bool = True) -> None:
        """Store authors of messages, but for those who are known or left out. Where users were
        listed (``is_listed``) the others are from outside, and are stored if a profile names them.
        """
        unknown = [user for user in authors if user.slack_uid not in self._known]
        if is_listed:
            named = (user for user in unknown if user.name != user.slack_uid)
            unknown = [msgspec.structs.replace(user, is_stranger=True) for user in named]
        await self.tables.put_users(self.excluded.users(unknown), self.now, replace=False)
        self._known |= {user.slack_uid for user in unknown}

    async def put_messages(self, changes: list[Change]) -> None:
        await self.tables.messages.write(row for row, _ in changes)
        for row, replaced in changes:
            self._first_posts.on_change(row, replaced)

    async def merge_channel(
        self,
        cid: str,
        rows: Iterable[MessageRow],
        stored: Mapping[str, MessageRow],
        scans: ScanLog,
        scan: Scan,
        newest_top: str,
    ) -> list[Change]:
        """Store the ``rows`` of a channel, which are merged with those ``stored``; then the scan
        that they are of, and the timestamp of the newest that is no reply. Return the changes.
        """
        changes = merge_messages(stored, rows, scans)
        await self.put_messages(changes)
        await asyncio.gather(
            scans.with_scan(scan).save(self.tables.configuration, cid),
            self.tables.watermarks.raise_to(cid, seconds(newest_top)),
        )
        return changes

    async def end_messages(self) -> None:
        """To be called after the last message is stored."""
        await self._first_posts.finish()


def unknown_people(listed: Collection[str], users: Mapping[str, User]) -> list[str]:
    """Who on a list cannot be left out: neither an ID nor the name of one of these users."""
    names = {name for user in users.values() for name in (user.user_name, user.display_name)}
    entries = sorted(entry.removeprefix("@") for entry in listed)
    return [name for name in entries if not is_user_id(name) and name not in names]


_CHANNELS_OF_ROW: Final = 2_000
"""Noted in one row, which is written once for each of them, and has at most 400 KB."""


class Checkpoint:
    """Which channels an interrupted run has done, in rows of Configuration, and what else it has
    ``noted`` there last. ``begun``: when the first of the runs began that have left it.

    Rule: a channel is noted after all of it is stored. Notes are not believed that are older than
    so many ``seconds`` (the channels have gone on meanwhile), nor those that were made by other
    options, which have another ``mark``.
    """

    def __init__(
        self,
        configuration: Configuration,
        key: str,
        clock: Clock,
        *,
        mark: str = "",
        seconds: int | None = None,
    ) -> None:
        self._configuration, self._key, self._clock = configuration, key, clock
        self._mark, self._seconds = mark, seconds
        self._noted = 0
        """How many channels."""
        self.noted: Item = {}
        self.begun = 0

    async def start(self) -> frozenset[str]:
        """Return the IDs of the channels that are done."""
        rows, now = [row async for _, row in self._rows()], int(self._clock())
        row = rows[-1] if rows else {}
        age, lasts = now - (number(row, "at") or 0), self._seconds
        if text(row, "of") != self._mark or not (lasts is None or 0 <= age < lasts):
            await self.clear()
            rows, row = [], {}
        self.noted, self.begun = row, number(row, "begun") or now
        ids = frozenset[str]().union(*(texts(part, "done") for part in rows))
        self._noted = len(ids)
        return ids

    async def add(self, cid: str, noted: Mapping[str, Value] | None = None) -> None:
        """Note that a channel is done."""
        about: Item = {"at": int(self._clock()), "begun": self.begun, "of": self._mark}
        columns = without_empty({**about, **(noted or {})})
        update = Update(add_to=("done",), set=tuple(columns))
        key = self._row_key(self._noted // _CHANNELS_OF_ROW)
        await self._configuration.update(key, update, {**columns, "done": frozenset((cid,))})
        self._noted += 1

    async def clear(self) -> None:
        """Remove the notes at the end of a run: the next one reads every channel."""
        for key in [key async for key, _ in self._rows()][::-1]:  # what a crash leaves has no gap
            await self._configuration.delete(key)
        self._noted = 0

    async def _rows(self) -> AsyncIterator[tuple[str, Item]]:
        for n in count():
            row = await self._configuration.get(key := self._row_key(n))
            if not row:
                return
            yield key, row

    def _row_key(self, n: int) -> str:
        return f"{self._key} {n}" if n else self._key


# ── over the Web API ─────────────────────────────────────────────────────────────────────────────

DAY: Final = 86_400

UNANSWERED: Final = 5
"""Channels in a row without an answer after which Slack counts as out of reach."""

BELIEVED: Final = 6 * 3600
"""Seconds after its last note in which a run goes on where an interrupted one ended."""


class SyncOptions(msgspec.Struct, frozen=True):
    """``refetch`` days before the newest message known are read again, for late reactions, edits
    and deletions. Nothing said more than ``max_age`` days ago is taken in for the first time. Late
    replies are looked for in threads begun up to ``thread_max_age`` days ago. Where ``since`` is
    given (seconds), everything from then on is read, whatever is known. ``only`` (none: all) and
    ``exclude`` are IDs or names of channels; ``concurrency`` of them are read at once. ``join``:
    the token's bot becomes a member of the public channels that it could not read otherwise.
    ``exclude_people`` are IDs, user names or display names. ``kept``: days after which messages go
    (none: never).
    """

    refetch: int = 7
    max_age: int = 21
    thread_max_age: int = 90
    include_private: bool = False
    only: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    concurrency: int = 4
    since: int | None = None
    join: bool = False
    exclude_people: frozenset[str] = frozenset()
    kept: int | None = None

    def wants(self, channel: ListedChannel) -> bool:
        keys = {channel.id, channel.name or channel.id}
        if channel.is_private and not self.include_private:
            return False
        return not keys & self.exclude and (not self.only or bool(keys & self.only))

    @property
    def mark(self) -> str:
        """What tells these options from others that read other channels, or from another time."""
        return f"{self.since} {self.include_private} {sorted(self.only)} {sorted(self.exclude)}"

    def window(self, watermark: int, now: int) -> int:
        """The second from which on messages are read again."""
        if self.since is not None:
            return max(self.since, 0)
        return max(watermark - self.refetch * DAY, now - self.max_age * DAY, 0)

    def leaves_a_gap(self, read: int, now: int) -> bool:
        """Whether a channel with this window is not read from ``read`` on, where it was read up to
        before (0: never). What would be removed is not missing.
        """
        oldest = 0 if self.kept is None else now - self.kept * DAY
        return read > 0 and max(read, oldest) < self.window(read, now)

    def threads(self, now: int) -> int:
        """The second from which on heads are looked after."""
        return max(now - self.thread_max_age * DAY, 0)


class Gap(msgspec.Struct, frozen=True):
    """A channel that was read up to ``until`` and now from ``since`` on (seconds): what was said in
    between was not read.
    """

    name: str
    until: int
    since: int


class SyncResult(msgspec.Struct):
    """What a run has done. ``users`` were listed, ``new_users`` for the first time; ``listed`` and
    ``memberships`` are channels (None: no list was stored); ``channels`` those whose messages were
    read, and the sums over them. ``problems`` cost single objects; ``failed`` is what could not be
    read, the channels ``outside`` of which the token's bot is among it; ``left_out`` channels are
    archived and the bot was never in them. ``stopped``: why nothing more could be asked of Slack.
    """

    users: int = 0
    new_users: int = 0
    listed: int | None = None
    memberships: int = 0
    channels: int = 0
    messages: int = 0
    changed: int = 0
    edited: int = 0
    deleted: int = 0
    problems: int = 0
    failed: list[Problem] = []
    outside: list[str] = []
    gaps: list[Gap] = []
    left_out: int = 0
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything that was asked for is stored."""
        return not self.failed and not self.stopped


class SyncRun(Run):
    """A run over the Web API: where from, where to, and what it has done."""

    def __init__(
        self,
        api: WebApi,
        tables: Tables,
        clock: Clock,
        counting: Counting,
        options: SyncOptions,
        on_event: OnEvent,
    ) -> None:
        super().__init__(tables, clock, counting, on_event)
        self.api, self.options = api, options
        self.result = SyncResult()

    def checkpoint(self, part: str) -> Checkpoint:
        configuration, mark = self.tables.configuration, self.options.mark
        return Checkpoint(configuration, f"sync {part}", self.clock, mark=mark, seconds=BELIEVED)

    def progress(self, step: str, done: int, total: int, channel: str = "") -> None:
        self.on_event(StepProgress(step, done, total, channel, self.result.messages))

    def fail(self, place: str, error: object) -> Problem:
        """A part or a channel could not be read. What was stored of it stays."""
        failure = Problem(place, str(error).removeprefix(f"{place}: "))
        self.result.failed.append(failure)
        self.on_event(failure)
        return failure

    def stop(self, error: object) -> None:
        """Nothing more can be asked of Slack. What was taken in until then is stored."""
        if not self.result.stopped:
            self.result.stopped = str(error)
            self.on_event(Problem("stopped", str(error)))
