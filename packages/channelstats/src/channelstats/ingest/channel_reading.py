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
from channelstats.ingest.messages import Origin, row_of
from channelstats.slack.client import Page
from channelstats.slack.errors import ThreadNotFound
from channelstats.slack.objects import HistoryMessage, Named, whole
from channelstats.slack.web_api import WebApi
from channelstats.tables.message_row import MessageRow

BROADCAST: Final = "thread_broadcast"

Rows = Mapping[str, MessageRow]


class ThreadState(msgspec.Struct, frozen=True):
    """What a head says about its thread: replies, and the timestamp of the latest, "" for none."""

    replies: int
    latest: str


_NONE: Final = ThreadState(0, "")
_UNKNOWN: Final = ThreadState(-1, "")


class ChannelReading(msgspec.Struct):
    """What was read: ``rows`` of messages; ``heads`` that history lists; timestamps of all that
    history ``listed``, and that were ``seen`` there or in threads; ``threads`` that were read
    whole, by the head's timestamp; the timestamp from which on history is ``complete``, "" for
    nowhere; names of authors beside messages; what was wrong with some.
    """

    rows: list[MessageRow] = []
    heads: dict[str, ThreadState] = {}
    listed: set[str] = set()
    seen: set[str] = set()
    threads: set[str] = set()
    complete: str = ""
    profiles: dict[str, Named] = {}
    broken: list[str] = []


class ChannelReader:
    """Reads one channel: messages from ``window`` on, heads from ``oldest`` on. ``stored`` are its
    rows from ``oldest`` on, by timestamp.
    """

    def __init__(
        self, api: WebApi, origin: Origin, *, oldest: str, window: str, stored: Rows
    ) -> None:
        self._api, self._origin, self._stored = api, origin, stored
        self._oldest, self._window = oldest, window
        self._found = ChannelReading()

    async def read(self) -> ChannelReading:
        """:raises SlackError: the channel could not be read whole"""
        await self._read_history()
        for ts in sorted(self._due()):
            await self._read_thread(ts)
        return self._found

    async def _read_history(self) -> None:
        found, cid = self._found, self._origin.slack_cid
        hidden = broken = False
        async for page in self._api.history(cid, self._oldest):
            hidden |= page.limited
            broken |= bool(page.broken)
            self._take(page, self._window)
            for message in page.items:
                if is_timestamp(message.ts):
                    found.listed.add(message.ts)
                    if thread := _thread(message):
                        found.heads[message.ts] = thread
        found.complete = self._window
        if hidden:  # by the workspace's plan; what is older than the oldest shown is not known
            shown = min(found.listed, default="")
            found.complete = max(self._window, shown) if shown else ""
        if broken:  # which messages those are is not known
            found.complete = ""

    def _due(self) -> set[str]:
        """The threads to read."""
        found, stored = self._found, _threads(self._stored.values())
        due = set()
        for ts in found.heads.keys() | (stored.keys() & found.listed):
            now, before = found.heads.get(ts, _NONE), stored.get(ts, _NONE)
            recent = max(now.latest, before.latest) >= self._window
            if self._is_whole(ts):
                wanted = ts >= self._window or recent or now != before
            else:
                wanted = recent or now == _UNKNOWN
            if wanted:
                due.add(ts)
        vanished = (ts for ts in stored if ts >= self._window and ts not in found.listed)
        return due.union(vanished)

    def _is_whole(self, ts: str) -> bool:
        """Whether all of the thread of a head is taken in, however old."""
        return ts >= self._window or ts in self._stored

    async def _read_thread(self, ts: str) -> None:
        found, cid = self._found, self._origin.slack_cid
        present = broken = False
        try:
            async for page in self._api.replies(cid, ts):
                present |= any(message.ts == ts for message in page.items)
                broken |= bool(page.broken)
                self._take(page, "" if self._is_whole(ts) else self._window)
        except ThreadNotFound:
            present = False
        vanished = ts not in found.listed and found.complete != "" and ts >= found.complete
        if (present or vanished) and not broken:
            found.threads.add(ts)

    def _take(self, page: Page[HistoryMessage], since: str) -> None:
        """Take in the messages from ``since`` on."""
        found = self._found
        found.broken += page.broken
        for message in page.items:
            found.seen.add(message.ts or "")
            if message.type != "message" or (message.ts or since) < since:
                continue
            try:
                row = row_of(message, self._origin)
            except ValueError as error:
                found.broken.append(str(error))
                continue
            found.rows.append(row)
            if message.user_profile is not None and row.slack_uid and not row.is_bot:
                found.profiles[row.slack_uid] = message.user_profile


def deleted_from(reading: ChannelReading, stored: Rows) -> list[MessageRow]:
    """The stored messages that were deleted: those that a whole answer had to hold and did not."""
    return [
        row
        for ts, row in stored.items()
        if not row.deleted and ts not in reading.seen and _was_to_be_there(row, reading)
    ]


def _was_to_be_there(row: MessageRow, reading: ChannelReading) -> bool:
    if row.is_reply and row.thread_ts in reading.threads:
        return True
    in_history = not row.is_reply or row.subtype == BROADCAST
    return in_history and reading.complete != "" and row.ts >= reading.complete


def _thread(message: HistoryMessage) -> ThreadState | None:
    """The thread of a head; None for a message that is none."""
    if message.thread_ts != message.ts and not message.reply_count:
        return None
    if message.subtype == TOMBSTONE:  # what it says of its thread is not so
        return _UNKNOWN
    latest = message.latest_reply
    return ThreadState(whole(message.reply_count) or 0, latest if is_timestamp(latest) else "")


def _threads(rows: Iterable[MessageRow]) -> dict[str, ThreadState]:
    """The threads that are stored, by the head's timestamp."""
    found: dict[str, ThreadState] = {}
    for row in rows:
        if row.is_reply and not row.deleted:
            known = found.get(row.thread_ts, _NONE)
            found[row.thread_ts] = ThreadState(known.replies + 1, max(known.latest, row.ts))
    return found
