"""Rows that were stored and rows that came → what to store, with threads rebuilt.

Rule: of one message the more recent row stays: the later fetched_at, then more replies, then more
reactions. What a thread is follows from all of its messages, whichever import brought them.

A row that says nothing else than the stored one is not written for its time alone; the stored one
is as recent as the last time it was seen unchanged, see `channelstats.ingest.seen`.
"""

import copy
from collections.abc import Iterable, Mapping
from operator import attrgetter

import msgspec

from channelstats.counting import TOMBSTONE
from channelstats.ingest.seen import NOTHING, Seen
from channelstats.tables.codecs import Reply, decode_replies, encode_replies
from channelstats.tables.message_row import MessageRow

Change = tuple[MessageRow, MessageRow | None]
"""A row to store, and the one it replaces."""


def settle(
    stored: Mapping[str, MessageRow], came: Iterable[MessageRow], seen: Seen = NOTHING
) -> list[Change]:
    """Return the changes, in the order of time, that take ``came`` into one channel.

    ``stored`` are its rows, by timestamp, from `lowest` on; they are left as they are. The rows of
    ``came`` may be changed. ``seen`` is what is known of the channel.
    """
    channel = _Channel(stored, seen)
    for row in came:
        channel.take(row)
    channel.rebuild_threads()
    return channel.changes()


def lowest(rows: Iterable[MessageRow]) -> str:
    """The earliest timestamp that has to do with these rows: of a message, or of its thread."""
    return min((min(row.ts, row.thread_ts or row.ts) for row in rows), default="")


def recency(row: MessageRow) -> tuple[int, int, int, str]:
    """How recent a row says it is: compares as earlier or later."""
    return (row.fetched_at, row.reply_count, row.reaction_count, row.edited_ts)


class _Channel:
    """The rows of a channel by timestamp; what was stored is copied before it is changed."""

    def __init__(self, stored: Mapping[str, MessageRow], seen: Seen) -> None:
        self._stored, self._seen = stored, seen
        self._rows = dict(stored)

    def take(self, row: MessageRow) -> None:
        """Take a row in; of two of one message the more recent stays, or else the first."""
        known = self._rows.get(row.ts)
        if known is None:
            self._rows[row.ts] = row
            return
        came, there = self._recency(row), self._recency(known)
        best, other = (row, known) if came > there else (known, row)
        self._rows[row.ts] = best
        if came[0] == there[0]:
            # A broadcast comes twice, once without the fields of a reply.
            self._set(best, "thread_ts", best.thread_ts or other.thread_ts)
            self._set(best, "parent_user_id", best.parent_user_id or other.parent_user_id)

    def _recency(self, row: MessageRow) -> tuple[int, int, int, str]:
        if row is self._stored.get(row.ts):
            return (self._seen.recency(row), *recency(row)[1:])
        return recency(row)

    def rebuild_threads(self) -> None:
        threads: dict[str, list[MessageRow]] = {}
        for row in self._rows.values():
            ts = row.thread_ts
            if not ts or row.deleted:
                continue
            replies = threads.setdefault(ts, [])
            if row.ts != ts:
                replies.append(row)
        for ts, replies in threads.items():
            head = self._rows.get(ts)
            if head is not None and not head.is_reply:
                self._rebuild_head(head, replies)
            parent = None if head is None else _author(head)
            if parent is not None:
                for reply in replies:
                    self._set(reply, "parent_user_id", parent)

    def _rebuild_head(self, head: MessageRow, replies: Iterable[MessageRow]) -> None:
        people = {reply.ts: reply for reply in decode_replies(head.replies)}
        bots = {reply.ts: reply for reply in decode_replies(head.bot_replies)}
        for row in replies:
            if row.slack_uid:
                (bots if row.is_bot else people)[row.ts] = Reply(row.slack_uid, row.ts)
        alone = (reply for ts, reply in bots.items() if ts not in people)
        head = self._set(head, "replies", encode_replies(people.values()))
        head = self._set(head, "bot_replies", encode_replies(alone))
        head = self._set(head, "reply_count", len(people))
        head = self._set(head, "thread_ts", head.ts)
        self._set(head, "parent_user_id", _author(head) or "")

    def _set(self, row: MessageRow, name: str, value: str | int) -> MessageRow:
        if getattr(row, name) == value:
            return row
        if row is self._stored.get(row.ts):
            row = self._rows[row.ts] = copy.copy(row)
        setattr(row, name, value)
        return row

    def changes(self) -> list[Change]:
        known, changed = self._stored, list(self._rows.values())
        if known:
            changed = [row for row in changed if _says_else(row, known.get(row.ts))]
        return [(row, known.get(row.ts)) for row in sorted(changed, key=attrgetter("ts"))]


def _says_else(row: MessageRow, known: MessageRow | None) -> bool:
    """Whether a row says something else than the stored one, beside whence and when it came."""
    if known is None:
        return True
    if row is known or row == known:
        return False
    return msgspec.structs.replace(row, fetched_at=known.fetched_at, source=known.source) != known


def _author(head: MessageRow) -> str | None:
    """Who a reply to this head is to: "" is nobody, None is not known from it."""
    return "" if head.subtype == TOMBSTONE else head.slack_uid or None
