"""Messages as Slack writes them → rows; and rows that came, merged with those that are stored.

Rule: the text is counted and forgotten; of files only what they are is kept, not what they say.

Rule: of one message the more recent row stays: the later fetched_at, then more replies, then more
reactions. What a thread is follows from all of its messages, whichever import brought them.

A row that says nothing else than the stored one is not written for its time alone; the stored one
is as recent as the last time it was found unchanged, see `channelstats.ingest.scan_log`.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final

import msgspec

from channelstats.counting import TOMBSTONE
from channelstats.identifiers import is_bot_id, is_timestamp, is_user_id
from channelstats.ingest.scan_log import NO_SCANS, ScanLog
from channelstats.slack.objects import (
    Loose,
    Named,
    Room,
    SlackFile,
    SlackMessage,
    SlackReaction,
    SlackReply,
    whole,
)
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    Reply,
    decode_replies,
    emoji_name,
    encode_json,
    encode_mentions,
    encode_reactions,
    encode_replies,
    extension,
)

EARLIEST: Final = "0946684800.000000"
"""The year 2000. Nothing was said in Slack before; what claims to be is damaged."""

_AHEAD: Final = 86_400
"""Seconds that a message may lie in the future: clocks differ, years do not."""

_MENTION: Final = re.compile(r"<@([UW][A-Z0-9]+)(?:\|[^>]*)?>")
_WORD: Final = re.compile(r"[A-Za-z0-9_.+/-]{1,100}")
_MOST_REACTIONS: Final = 10_000_000
_USERS: Final = 1 << 15


class Origin(msgspec.Struct, frozen=True):
    """Where messages come from: their channel, how recent they are (seconds), and the latest
    timestamp that is not absurd.
    """

    slack_cid: str
    source: str
    fetched_at: int
    latest: str


def ts_of(second: int) -> str:
    return f"{second:010d}.000000"


def latest(now: int) -> str:
    """The latest timestamp that is not absurd."""
    return ts_of(now + _AHEAD)


def row_of(message: SlackMessage, origin: Origin) -> MessageRow:
    """Return the row of a message.

    :raises ValueError: it has no timestamp, or an absurd one
    """
    ts = message.ts
    if not is_timestamp(ts):
        raise ValueError("ts: expected ten digits, a point, six digits")
    if not EARLIEST <= ts <= origin.latest:
        raise ValueError("ts: before the year 2000, or in the future")
    author, is_bot = _author(message)
    row = MessageRow(origin.slack_cid, ts, author, is_bot=is_bot)
    row.fetched_at, row.source = origin.fetched_at, origin.source
    if message.subtype:
        row.subtype = known_word(message.subtype) or "unknown"
    if text := message.text:
        row.word_count = len(text.split())
        if "<@" in text:
            row.mentions = encode_mentions(
                uid for uid in _MENTION.findall(text) if uid != author and _user(uid)
            )
    thread = message.thread_ts
    if is_timestamp(thread) and EARLIEST <= thread <= origin.latest:
        row.thread_ts = thread
        row.parent_user_id = _user(message.parent_user_id)
    if message.reactions:
        _add_reactions(row, message.reactions)
    if message.replies and not row.is_reply:
        _add_replies(row, message.replies)
    if message.files or message.file:
        files = (*(message.files or ()), message.file)
        row.files = encode_json([about_file(file) for file in files if file is not None])
    if message.room is not None:
        row.room = encode_json(_huddle(message.room))
    if message.edited is not None and is_timestamp(message.edited.ts):
        row.edited_ts = message.edited.ts
    return row


def take_rows(
    messages: Iterable[SlackMessage],
    origin: Origin,
    rows: list[MessageRow],
    profiles: dict[str, Named],
) -> list[str]:
    """Add the rows of messages and the profiles of authors; return what is wrong with some."""
    broken = []
    for message in messages:
        if message.type != "message":
            continue
        try:
            row = row_of(message, origin)
        except ValueError as error:
            broken.append(str(error))
            continue
        rows.append(row)
        if message.user_profile is not None and row.slack_uid and not row.is_bot:
            profiles[row.slack_uid] = message.user_profile
    return broken


@lru_cache(maxsize=_USERS)
def _user(text: str | None) -> str:
    """The ID of a user, or nothing. Kept, for the same ones come again and again."""
    return text if is_user_id(text) else ""


def _author(message: SlackMessage) -> tuple[str, bool]:
    """The author, and whether it is known as a bot alone."""
    if author := _user(message.user):
        return author, False
    if is_bot_id(message.bot_id):
        return message.bot_id, True
    return "", False


def _add_replies(row: MessageRow, replies: Iterable[SlackReply | None]) -> None:
    """A message with replies is a head, also where an old export does not say so."""
    found = {
        reply.ts: Reply(user, reply.ts)
        for reply in replies
        if reply is not None and (user := _user(reply.user)) and is_timestamp(reply.ts)
    }
    row.replies, row.reply_count = encode_replies(found.values()), len(found)
    row.thread_ts = row.ts


def _add_reactions(row: MessageRow, reactions: Iterable[SlackReaction | None]) -> None:
    found = []
    for reaction in reactions:
        if reaction is None:
            continue
        users = tuple(uid for uid in reaction.users if uid is not None and _user(uid))
        count = _number(reaction.count, _MOST_REACTIONS)
        if count is None:
            count = len(users)
        if emoji := emoji_name(reaction.name):
            found.append(Reaction(emoji, users))
            row.reaction_count += count
            row.reactions_truncated |= len(users) < count
    row.reactions = encode_reactions(found)


def about_file(file: SlackFile) -> dict[str, str | int]:
    """What kind of file it is: neither its title nor its name nor where it is."""
    about = {
        "id": known_word(file.id),
        "created": _number(file.created),
        "extension": extension(file.name or ""),
        "mimetype": known_word(file.mimetype),
        "filetype": known_word(file.filetype),
        "size": _number(file.size),
        "user": file.user if is_user_id(file.user) else None,
    }
    return {name: value for name, value in about.items() if value not in (None, "")}


def _huddle(room: Room) -> dict[str, list[str] | int]:
    return {
        "participant_history": [uid for uid in room.participant_history or () if is_user_id(uid)],
        "date_start": _number(room.date_start) or 0,
        "date_end": _number(room.date_end) or 0,
    }


def known_word(text: str | None) -> str | None:
    return text if text is not None and _WORD.fullmatch(text) else None


def _number(value: Loose, most: int | None = None) -> int | None:
    number = whole(value)
    return number if number is not None and 0 <= number <= (most or number) else None


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
    for row in came:
        channel.add(row)
    channel.rebuild_threads()
    return channel.changes()


def earliest(rows: Iterable[MessageRow]) -> str:
    """The earliest timestamp that has to do with these rows: of a message, or of its thread."""
    return min((min(row.ts, row.thread_ts or row.ts) for row in rows), default="")


def recency(row: MessageRow) -> tuple[int, int, int, str]:
    """How recent a row says it is: compares as earlier or later."""
    return (row.fetched_at, row.reply_count, row.reaction_count, row.edited_ts)


class _ChannelRows:
    """The rows of a channel by timestamp; what was stored is copied before it is changed."""

    def __init__(self, stored: Mapping[str, MessageRow], scans: ScanLog) -> None:
        self._stored, self._scans = stored, scans
        self._rows = dict(stored)

    def add(self, row: MessageRow) -> None:
        """Add a row; of two of one message the more recent stays, or else the first."""
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
            return (self._scans.recency(row), *recency(row)[1:])
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
