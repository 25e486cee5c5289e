"""Rows that were stored and rows that came → what to store, with threads rebuilt.

Rule: of one message the more recent row stays: the later fetched_at, then more replies, then more
reactions. What a thread is follows from all of its messages, whichever import brought them.
"""

import copy
from collections.abc import Iterable, Mapping

from channelstats.counting import TOMBSTONE
from channelstats.tables.codecs import Reply, decode_replies, encode_replies
from channelstats.tables.message_row import MessageRow

Change = tuple[MessageRow, MessageRow | None]
"""A row to store, and the one it replaces."""


def settle(stored: Mapping[str, MessageRow], came: Iterable[MessageRow]) -> list[Change]:
    """Return the changes, in the order of time, that take ``came`` into one channel.

    ``stored`` are its rows, by timestamp, from `lowest` on; they are left as they are. The rows of
    ``came`` may be changed.
    """
    channel = _Channel(stored)
    for row in came:
        channel.take(row)
    channel.rebuild_threads()
    return channel.changes()


def lowest(rows: Iterable[MessageRow]) -> str:
    """The earliest timestamp that has to do with these rows: of a message, or of its thread."""
    return min((min(row.ts, row.thread_ts or row.ts) for row in rows), default="")


def _recency(row: MessageRow) -> tuple[int, int, int, str]:
    return (row.fetched_at, row.reply_count, row.reaction_count, row.edited_ts)


class _Channel:
    """The rows of a channel by timestamp; what was stored is copied before it is changed."""

    def __init__(self, stored: Mapping[str, MessageRow]) -> None:
        self._stored = stored
        self._rows = dict(stored)

    def take(self, row: MessageRow) -> None:
        """Take a row in; of two of one message the more recent stays, or else the first."""
        known = self._rows.get(row.ts)
        if known is None:
            self._rows[row.ts] = row
            return
        best, other = (row, known) if _recency(row) > _recency(known) else (known, row)
        self._rows[row.ts] = best
        if best.fetched_at == other.fetched_at:
            # A broadcast comes twice, once without the fields of a reply.
            self._set(best, "thread_ts", best.thread_ts or other.thread_ts)
            self._set(best, "parent_user_id", best.parent_user_id or other.parent_user_id)

    def rebuild_threads(self) -> None:
        threads: dict[str, list[MessageRow]] = {}
        for row in self._rows.values():
            if row.deleted:
                continue
            if row.is_reply:
                threads.setdefault(row.thread_ts, []).append(row)
            elif row.is_threadhead:
                threads.setdefault(row.ts, [])
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
        known = self._stored
        changed = (row for ts, row in self._rows.items() if row != known.get(ts))
        return [(row, known.get(row.ts)) for row in sorted(changed, key=lambda row: row.ts)]


def _author(head: MessageRow) -> str | None:
    """Who a reply to this head is to: "" is nobody, None is not known from it."""
    return "" if head.subtype == TOMBSTONE else head.slack_uid or None
