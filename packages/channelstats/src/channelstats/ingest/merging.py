"""Rows that came, merged with those that are stored.

Rule: of one message the more recent row stays: the later fetched_at, then more replies, then more
reactions. Of a stored one and one from an export of which nothing says which was taken later, the
later edit comes first: only the later one of both can have it. What a thread is follows from all of
its messages, whichever import brought them.

Rule: a row that says nothing else than the stored one is not written for its time alone: the stored
one is as recent as the last time it was read again and found unchanged. So what was read after an
export is not replaced by that export, and days without news stay as they are.

When rows were found unchanged say scans: each run leaves one of each channel in the row
`seen <channel ID>` of Configuration. A few are kept, more or less evenly spread over the time of
the runs; for what they no longer cover the time in the row counts.
"""

import copy
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import pairwise
from operator import attrgetter
from typing import Final, Self

import msgspec

from channelstats.counting import TOMBSTONE
from channelstats.tables.configuration import Configuration
from channelstats.tables.items import number, text, without_empty
from channelstats.tables.message_row import MessageRow, Reply, decode_replies, encode_replies
from keytables import Value

# ── when rows were found unchanged ───────────────────────────────────────────────────────────────

_SCANS: Final = 8
_EXCEPTIONS: Final = 200
"""Of each kind: of a scan, and messages in it that were not seen, and threads beside its span."""


class Scan(msgspec.Struct, frozen=True):
    """At the time ``at`` (seconds) what is stored from ``since`` to ``until`` was seen, but not the
    messages ``unseen``; and, however old, the whole of the ``threads``.
    """

    at: int
    since: str
    until: str
    unseen: frozenset[str] = frozenset()
    threads: frozenset[str] = frozenset()

    @classmethod
    def of_run(
        cls,
        seen: Container[str],
        stored: Mapping[str, MessageRow],
        *,
        at: int,
        since: str,
        until: str,
        threads: Iterable[str] = (),
    ) -> Self:
        """The scan of a run that has ``seen`` messages of a channel (their timestamps); ``threads``
        are those read whole.
        """
        missed = sorted(
            ts
            for ts, row in stored.items()
            if since <= ts <= until and ts not in seen and not row.deleted
        )
        if len(missed) > _EXCEPTIONS:
            missed = missed[-_EXCEPTIONS:]
            since = missed[0]
        older = sorted(ts for ts in threads if ts < since)[-_EXCEPTIONS:]
        return cls(at, since, until, frozenset(missed), frozenset(older))

    def covers(self, row: MessageRow) -> bool:
        if row.thread_ts in self.threads:
            return True
        return self.since <= row.ts <= self.until and row.ts not in self.unseen

    def includes(self, old: "Scan") -> bool:
        """Whether an older scan says nothing that this one does not."""
        spans = self.since <= old.since and self.until >= old.until
        known = self.unseen <= old.unseen and old.threads <= self.threads
        return self.at >= old.at and spans and known


class ScanLog(msgspec.Struct, frozen=True):
    """The scans of a channel, in the order of time, and what times are ``worth`` where that is not
    the time itself (see `AgeOrder`).
    """

    scans: tuple[Scan, ...] = ()
    worth: Mapping[int, int] = {}

    @classmethod
    async def load(
        cls, configuration: Configuration, cid: str, worth: Mapping[int, int] | None = None
    ) -> Self:
        rows = (await configuration.get(_key(cid))).get("steps")
        steps = rows if isinstance(rows, list) else []
        return cls(tuple(_scan(row) for row in steps if isinstance(row, Mapping)), worth or {})

    async def save(self, configuration: Configuration, cid: str) -> None:
        """Store it: after the rows it is about."""
        rows: list[Value] = [
            without_empty(
                {
                    "at": scan.at,
                    "since": scan.since,
                    "until": scan.until,
                    "unseen": " ".join(sorted(scan.unseen)),
                    "threads": " ".join(sorted(scan.threads)),
                }
            )
            for scan in self.scans
        ]
        await configuration.put(_key(cid), {"steps": rows})

    def recency(self, row: MessageRow) -> int:
        """How recent a stored row is, in seconds. What is deleted is not there to be seen."""
        times = [row.fetched_at]
        if not row.deleted:
            times += (scan.at for scan in self.scans if scan.covers(row))
        return max(self.worth.get(at, at) for at in times)

    def with_scan(self, new: Scan) -> "ScanLog":
        kept = [scan for scan in self.scans if not new.includes(scan)]
        scans = sorted([*kept, new], key=lambda scan: scan.at)
        while len(scans) > _SCANS:
            gaps = [later.at - scan.at for scan, later in pairwise(scans)]
            del scans[gaps.index(min(gaps[:-1])) + 1]
        return ScanLog(tuple(scans), self.worth)


NO_SCANS: Final = ScanLog()


def _key(cid: str) -> str:
    return f"seen {cid}"


def _scan(row: Mapping[str, Value]) -> Scan:
    unseen, threads = (frozenset(text(row, name).split()) for name in ("unseen", "threads"))
    return Scan(number(row, "at") or 0, text(row, "since"), text(row, "until"), unseen, threads)


# ── merging ──────────────────────────────────────────────────────────────────────────────────────

Change = tuple[MessageRow, MessageRow | None]
"""A row to store, and the one it replaces."""


def merge_messages(
    stored: Mapping[str, MessageRow], came: Iterable[MessageRow], scans: ScanLog = NO_SCANS
) -> list[Change]:
    """Return the changes, in the order of time, that take ``came`` into one channel.

    ``stored`` are its rows, by timestamp, from `earliest` on; they are left as they are. The rows
    of ``came`` may be changed. ``scans`` are those of the channel.
    """
    channel = _ChannelRows(stored, scans)
    channel.add(came)
    channel.rebuild_threads()
    return channel.changes()


def gone(
    stored: Mapping[str, MessageRow],
    seen: Container[str],
    at: int,
    is_due: Callable[[MessageRow], bool],
) -> list[MessageRow]:
    """Those ``stored`` rows, as deleted at that time, that were not ``seen`` in what had to hold
    them: whether it had to says ``is_due``.
    """
    return [
        msgspec.structs.replace(row, deleted=True, fetched_at=at)
        for ts, row in stored.items()
        if not row.deleted and ts not in seen and is_due(row)
    ]


def earliest(rows: Iterable[MessageRow]) -> str:
    """The earliest timestamp that has to do with these rows: of a message, or of its thread."""
    return min((min(row.ts, row.thread_ts or row.ts) for row in rows), default="")


_Recency = tuple[int, int | str, int, int | str]


def recency(row: MessageRow) -> _Recency:
    """How recent a row says it is: compares as earlier or later."""
    return (row.fetched_at, row.reply_count, row.reaction_count, row.edited_ts)


class _ChannelRows:
    """The rows of a channel by timestamp; what was stored is copied before it is changed."""

    def __init__(self, stored: Mapping[str, MessageRow], scans: ScanLog) -> None:
        self._stored, self._scans = stored, scans
        self._rows = dict(stored)

    def add(self, rows: Iterable[MessageRow]) -> None:
        """Add rows; of two of one message the more recent stays, or else the first."""
        came: dict[str, MessageRow] = {}
        for row in rows:
            if (first := came.get(ts := row.ts)) is None:
                came[ts] = row
            else:
                came[ts] = self._best(first, row, recency)
        if not self._stored:
            self._rows = came
            return
        for ts, row in came.items():
            known = self._rows.get(ts)
            self._rows[ts] = row if known is None else self._best(known, row, self._recency)

    def _best(
        self, known: MessageRow, row: MessageRow, how_recent: Callable[[MessageRow], _Recency]
    ) -> MessageRow:
        there, came = how_recent(known), how_recent(row)
        best, other = (row, known) if came > there else (known, row)
        if came[0] == there[0]:
            # A broadcast comes twice, once without the fields of a reply.
            best = self._set(best, "thread_ts", best.thread_ts or other.thread_ts)
            best = self._set(best, "parent_user_id", best.parent_user_id or other.parent_user_id)
        if best.edited_ts == other.edited_ts:
            # Of a row that is older than these flags they are not known.
            best = self._set(best, "question", best.question or other.question)
            best = self._set(best, "signs", best.signs | other.signs)
        return best

    def _recency(self, row: MessageRow) -> _Recency:
        """How recent a stored row is, or one that came, beside each other."""
        is_stored = row is self._stored.get(row.ts)
        at = self._scans.recency(row) if is_stored else row.fetched_at
        if self._scans.worth:
            return (at, row.edited_ts, row.reply_count, row.reaction_count)
        return (at, *recency(row)[1:])

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
            parent = None if head is None else _head_author(head)
            if parent is not None:
                for reply in replies:
                    self._set(reply, "parent_user_id", parent)

    def _rebuild_head(self, head: MessageRow, replies: Iterable[MessageRow]) -> None:
        people = {reply.ts: reply for reply in decode_replies(head.replies)}
        bots = {reply.ts: reply for reply in decode_replies(head.bot_replies)}
        for row in replies:
            if row.slack_uid:
                (bots if row.is_bot else people)[row.ts] = Reply(row.slack_uid, row.ts)
        bots_only = (reply for ts, reply in bots.items() if ts not in people)
        head = self._set(head, "replies", encode_replies(people.values()))
        head = self._set(head, "bot_replies", encode_replies(bots_only))
        head = self._set(head, "reply_count", len(people))
        head = self._set(head, "thread_ts", head.ts)
        self._set(head, "parent_user_id", _head_author(head) or "")

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
            changed = [row for row in changed if _differs(row, known.get(row.ts))]
        return [(row, known.get(row.ts)) for row in sorted(changed, key=attrgetter("ts"))]


def _differs(row: MessageRow, known: MessageRow | None) -> bool:
    """Whether a row says something else than the stored one, beside where and when it came from."""
    if known is None:
        return True
    if row is known or row == known:
        return False
    return msgspec.structs.replace(row, fetched_at=known.fetched_at, source=known.source) != known


def _head_author(head: MessageRow) -> str | None:
    """Who a reply to this head is to: "" is nobody, None is not known from it."""
    return "" if head.subtype == TOMBSTONE else head.slack_uid or None
