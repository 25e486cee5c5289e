"""Messages from the Web API → Message, FirstPost and ChannelConfiguration, many channels at once.

Rule: of a channel, everything is stored before it counts as read: messages, then the watermark,
then the note that it is done. What one channel meets is not the trouble of another; but the run has
read up to its beginning only when it read every channel that Slack lets it read.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Final

import msgspec

from channelstats.counting import TOMBSTONE
from channelstats.identifiers import is_timestamp
from channelstats.ingest.merging import Change, Scan, ScanLog, earliest, gone
from channelstats.ingest.rows import (
    EVERYBODY,
    Origin,
    People,
    latest,
    stored_name,
    take_rows,
    ts_of,
    users_of_messages,
)
from channelstats.ingest.runs import UNANSWERED, Gap, SyncRun
from channelstats.slack.errors import (
    NOT_A_MEMBER,
    CallRefused,
    ChannelRefused,
    MissingScope,
    NoAnswer,
    SlackError,
    ThreadNotFound,
    TokenRefused,
)
from channelstats.slack.export import Problem, left_out
from channelstats.slack.objects import HistoryMessage, ListedChannel, ProfileBeside, int_of
from channelstats.slack.web_api import ListingPage, WebApi
from channelstats.tables.directory import ids_of_people
from channelstats.tables.message_row import MessageRow


class MessageSync:
    """One run over the messages of some channels. Afterwards: ``begun``, since when those that are
    done were read, in this run and the interrupted ones before it; ``unread``, what it could have
    read and did not, or why it read nothing; "" for everything being read.
    """

    def __init__(self, run: SyncRun) -> None:
        self._run = run
        self._lacking: set[bool] = set()
        """Whether channels are private for which the token lacks a scope."""
        self._unanswered = 0
        self._joins = run.options.join
        self._people = EVERYBODY
        self._refused: list[Problem] = []
        """Channels that Slack does not let the token read, however often it is asked."""
        self._failed: list[Problem] = []
        self.begun = 0
        self.unread = "nothing was read"

    async def run(self, listed: list[ListedChannel]) -> None:
        """Read the channels, and report as they are done, in whichever order that is."""
        run = self._run
        users = await run.tables.users.all()
        self._people = People(ids_of_people(users))
        checkpoint = run.checkpoint("messages")
        done = await checkpoint.start()
        read, channels = len(done & {channel.id for channel in listed}), len(listed)
        run.progress("messages", read, channels)
        await run.begin_messages(users)
        self.begun = checkpoint.begun
        left = iter([channel for channel in listed if channel.id not in done])

        async def work() -> None:
            nonlocal read
            for channel in left:
                if await self._attempt(channel):
                    await checkpoint.add(channel.id)
                    read += 1
                    run.progress("messages", read, channels, _name(channel))
                if run.result.stopped:
                    return

        await _all_of([work() for _ in range(run.options.concurrency)])
        await run.end_messages()
        self.unread = self._what_is_unread(read)
        if not run.result.stopped:
            await checkpoint.clear()

    def _what_is_unread(self, read: int) -> str:
        missed = self._failed or ([] if read else self._refused)
        if not missed:
            return "" if read else "there is no channel to read"
        more = f" and {len(missed) - 1:,} more" if len(missed) > 1 else ""
        return f"{missed[0]}{more}"

    async def _attempt(self, channel: ListedChannel) -> bool:
        """Read a channel; return whether that was done."""
        run, private, name = self._run, bool(channel.is_private), _name(channel)
        if private in self._lacking:
            return False
        try:
            await self._read_or_join(channel)
        except TokenRefused as error:
            run.stop(error)
        except MissingScope as error:
            if private not in self._lacking:
                self._lacking.add(private)
                place = "every private channel" if private else "every public channel"
                self._failed.append(run.fail(place, error))
        except ChannelRefused as error:
            self._unanswered = 0
            self._refuse(channel, error)
        except SlackError as error:
            self._failed.append(run.fail(name, error))
            self._unanswered = self._unanswered + 1 if isinstance(error, NoAnswer) else 0
            if self._unanswered == UNANSWERED:
                run.stop(f"no answer for {UNANSWERED} channels in a row")
        else:
            self._unanswered = 0
            return True
        return False

    def _refuse(self, channel: ListedChannel, error: ChannelRefused) -> None:
        result, name = self._run.result, _name(channel)
        if error.code != NOT_A_MEMBER:
            self._refused.append(self._run.fail(name, error))
        elif channel.is_archived:  # nobody can let the bot in any more
            result.left_out += 1
        else:
            self._refused.append(Problem(name, str(error)))
            result.failed.append(self._refused[-1])
            result.outside.append(name)

    # ── one channel ──────────────────────────────────────────────────────────────────────────────

    async def _read_or_join(self, channel: ListedChannel) -> None:
        """Read a channel; where its bot has to be a member first, and that is wanted, join it."""
        try:
            return await self._read(channel)
        except ChannelRefused as error:
            may_join = self._joins and not channel.is_private and not channel.is_archived
            if error.code != NOT_A_MEMBER or not may_join:
                raise
        try:
            await self._run.api.join(channel.id)
        except MissingScope as error:  # for joining, not for reading
            self._joins = False
            raise CallRefused(error.method, error.reason) from None
        return await self._read(channel)

    async def _read(self, channel: ListedChannel) -> None:
        """Read a channel and store it."""
        run, cid, now = self._run, channel.id, self._run.now
        tables, options = run.tables, run.options
        watermark = await tables.watermarks.get(cid)
        since = options.window(watermark, now)
        oldest = ts_of(min(options.threads(now), since))
        stored = await tables.messages.of_channel(cid, oldest)
        origin = Origin(cid, "api", now, latest(now))
        window, people = ts_of(since), self._people
        reading = ChannelReader(
            run.api, origin, oldest=oldest, window=window, stored=stored, people=people
        )
        await reading.read()

        if (low := earliest(reading.rows)) and low < oldest:
            stored = await tables.messages.of_channel(cid, low)
        deleted = gone(stored, reading.seen, now, reading.was_due)
        scans = await ScanLog.load(tables.configuration, cid)
        before = max([watermark, *(scan.at for scan in scans.scans)])
        seen = {row.ts for row in reading.rows}
        scan = Scan.of_run(
            seen, stored, at=now, since=window, until=ts_of(now), threads=reading.threads
        )
        await run.put_authors(users_of_messages(reading.rows, reading.profiles))
        rows = [*run.excluded.rows(reading.rows), *deleted]
        top = max((row.ts for row in reading.rows if not row.is_reply), default="0")
        changes = await run.merge_channel(cid, rows, stored, scans, scan, top)

        run.report(left_out(_name(channel), reading.broken))
        result = run.result
        if options.leaves_a_gap(before, now):
            run.problems += 1
            result.gaps.append(Gap(_name(channel), before, since))
        result.channels += 1
        result.messages += len(seen)
        result.changed += len(changes)
        result.edited += sum(map(_is_edited, changes))
        result.deleted += len(deleted)


async def _all_of(workers: list[Coroutine[object, object, None]]) -> None:
    """Run them until all have ended; where one fails, the others are cancelled."""
    tasks = [asyncio.create_task(worker) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _name(channel: ListedChannel) -> str:
    return stored_name(channel.name) or channel.id


def _is_edited(change: Change) -> bool:
    row, replaced = change
    return replaced is not None and row.edited_ts > replaced.edited_ts


# ── what the Web API says now of one channel ─────────────────────────────────────────────────────

_BROADCAST: Final = "thread_broadcast"

Rows = Mapping[str, MessageRow]


class ThreadState(msgspec.Struct, frozen=True):
    """What a head says about its thread: replies, and the timestamp of the latest, "" for none."""

    replies: int
    latest: str


_NONE: Final = ThreadState(0, "")
_UNKNOWN: Final = ThreadState(-1, "")


class ChannelReader:
    """Reads one channel: messages from ``window`` on, heads from ``oldest`` on. ``stored`` are its
    rows from ``oldest`` on, by timestamp; ``people`` are those that IDs stand for.

    Rule: nothing older than the window is taken in, but what belongs to threads that are stored.

                only heads                window
        ──┼─────────────────────────────────┼───────────────────────────────────┼──
          stored ones: their threads, if    messages, and threads of the heads  now
          something has changed             among them
          others: replies in the window

    History is listed from the first head on that is looked after; it says when a thread was last
    replied to, so few threads have to be read.

    Afterwards: the ``rows`` and the ``profiles`` of authors, and what was ``broken``; timestamps of
    all messages ``seen``; heads of ``threads`` that were read whole; the timestamp from which on
    history is ``complete``, "" for nowhere.
    """

    def __init__(
        self,
        api: WebApi,
        origin: Origin,
        *,
        oldest: str,
        window: str,
        stored: Rows,
        people: People = EVERYBODY,
    ) -> None:
        self._api, self._origin, self._stored = api, origin, stored
        self._oldest, self._window = oldest, window
        self._people = people
        self._heads: dict[str, ThreadState] = {}
        self._listed: set[str] = set()
        self.rows: list[MessageRow] = []
        self.profiles: dict[str, ProfileBeside] = {}
        self.broken: list[str] = []
        self.seen: set[str] = set()
        self.threads: set[str] = set()
        self.complete = ""

    async def read(self) -> None:
        """:raises SlackError: the channel could not be read whole"""
        await self._read_history()
        for ts in sorted(self._due()):
            await self._read_thread(ts)

    async def _read_history(self) -> None:
        hidden = broken = False
        async for page in self._api.history(self._origin.slack_cid, self._oldest):
            hidden |= page.limited
            broken |= bool(page.broken)
            self._take(page, self._window)
            for message in page.items:
                if is_timestamp(message.ts):
                    self._listed.add(message.ts)
                    if thread := _thread(message):
                        self._heads[message.ts] = thread
        self.complete = self._window
        if hidden:  # by the workspace's plan; what is older than the oldest shown is not known
            oldest = min(self._listed, default="")
            self.complete = max(self._window, oldest) if oldest else ""
        if broken:  # which messages those are is not known
            self.complete = ""

    def _due(self) -> set[str]:
        """The threads to read."""
        heads, listed, stored = self._heads, self._listed, _threads(self._stored.values())
        due = {ts for ts in stored if ts >= self._window and ts not in listed}  # vanished
        for ts in heads.keys() | (stored.keys() & listed):
            now, before = heads.get(ts, _NONE), stored.get(ts, _NONE)
            recent = max(now.latest, before.latest) >= self._window
            if self._is_whole(ts):
                is_due = ts >= self._window or recent or now != before
            else:
                is_due = recent or now == _UNKNOWN
            if is_due:
                due.add(ts)
        return due

    def _is_whole(self, ts: str) -> bool:
        """Whether all of the thread of a head is taken in, however old."""
        return ts >= self._window or ts in self._stored

    async def _read_thread(self, ts: str) -> None:
        present = broken = False
        try:
            async for page in self._api.replies(self._origin.slack_cid, ts):
                present |= any(message.ts == ts for message in page.items)
                broken |= bool(page.broken)
                self._take(page, "" if self._is_whole(ts) else self._window)
        except ThreadNotFound:
            present = False
        vanished = ts not in self._listed and self._is_complete(ts)
        if (present or vanished) and not broken:
            self.threads.add(ts)

    def _take(self, page: ListingPage[HistoryMessage], since: str) -> None:
        """Take in the messages from ``since`` on."""
        self.seen.update(message.ts or "" for message in page.items)
        recent = (message for message in page.items if (message.ts or since) >= since)
        broken = take_rows(recent, self._origin, self.rows, self.profiles, self._people)
        self.broken += [*page.broken, *broken]

    def _is_complete(self, ts: str) -> bool:
        return self.complete != "" and ts >= self.complete

    def was_due(self, row: MessageRow) -> bool:
        """Whether a whole answer was given that holds the message, if it is still there."""
        if row.is_reply and row.thread_ts in self.threads:
            return True
        in_history = not row.is_reply or row.subtype == _BROADCAST
        return in_history and self._is_complete(row.ts)


def _thread(message: HistoryMessage) -> ThreadState | None:
    """The thread of a head; None for a message that is none."""
    if message.thread_ts != message.ts and not message.reply_count:
        return None
    if message.subtype == TOMBSTONE:  # what it says of its thread is not so
        return _UNKNOWN
    latest = message.latest_reply
    return ThreadState(int_of(message.reply_count) or 0, latest if is_timestamp(latest) else "")


def _threads(rows: Iterable[MessageRow]) -> dict[str, ThreadState]:
    """The threads that are stored, by the head's timestamp."""
    threads: dict[str, ThreadState] = {}
    for row in rows:
        if row.is_reply and not row.deleted:
            thread = threads.get(row.thread_ts, _NONE)
            threads[row.thread_ts] = ThreadState(thread.replies + 1, max(thread.latest, row.ts))
    return threads
