"""What the Web API says now about the messages of one channel.

Rule: nothing older than the window is taken in, but what belongs to threads that are stored.

            only heads                window
    ──┼─────────────────────────────────┼───────────────────────────────────┼──
      stored ones: their threads, if    messages, and threads of the heads  now
      something has changed             among them
      others: replies in the window

History is listed from the first head on that is looked after; it says when a thread was last
replied to, so few threads have to be read.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from channelstats.counting import TOMBSTONE
from channelstats.identifiers import is_timestamp
from channelstats.ingest.rows import EVERYBODY, Origin, People, take_rows
from channelstats.slack.errors import ThreadNotFound
from channelstats.slack.objects import HistoryMessage, ProfileBeside, int_of
from channelstats.slack.web_api import ListingPage, WebApi
from channelstats.tables.message_row import MessageRow

BROADCAST: Final = "thread_broadcast"

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
            shown = min(self._listed, default="")
            self.complete = max(self._window, shown) if shown else ""
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
                wanted = ts >= self._window or recent or now != before
            else:
                wanted = recent or now == _UNKNOWN
            if wanted:
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

    def deleted(self, stored: Rows) -> list[MessageRow]:
        """Those of the ``stored`` messages that were deleted: those that a whole answer had to hold
        and did not.
        """
        return [
            row
            for ts, row in stored.items()
            if not row.deleted and ts not in self.seen and self._was_to_be_there(row)
        ]

    def _was_to_be_there(self, row: MessageRow) -> bool:
        if row.is_reply and row.thread_ts in self.threads:
            return True
        in_history = not row.is_reply or row.subtype == BROADCAST
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
            known = threads.get(row.thread_ts, _NONE)
            threads[row.thread_ts] = ThreadState(known.replies + 1, max(known.latest, row.ts))
    return threads
