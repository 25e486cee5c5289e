"""A message as a row of the table Message, and as an item of the store.

Rule: a row knows nothing of the text it was made from: only counts, IDs and times.

What was written before 2019-10 (`user_id`, `is_thread_head`) is read. Flags beyond those of the
data model are written only when they are set.
"""

import msgspec

from channelstats.days import Calendar
from channelstats.identifiers import seconds
from channelstats.tables.attributes import flag, number, text
from channelstats.tables.codecs import (
    decode_mentions,
    decode_reactions,
    encode_mentions,
    encode_reactions,
)
from keytables import Item


class MessageRow(msgspec.Struct, gc=False, array_like=True):
    """One message. Empty text stands for an absent attribute.

    ``slack_uid`` is the author: a `user`, else a `bot_id` (then ``is_bot``), else nobody.
    ``replies`` are those with a `user`, and ``reply_count`` is their number; ``bot_replies`` are
    those of authors known by `bot_id` alone. ``fetched_at`` is in seconds: how recent this is, or
    was when it was written.
    """

    slack_cid: str
    ts: str
    slack_uid: str = ""
    word_count: int = 0
    mentions: str = ""
    reactions: str = ""
    reaction_count: int = 0
    thread_ts: str = ""
    parent_user_id: str = ""
    replies: str = ""
    bot_replies: str = ""
    reply_count: int = 0
    subtype: str = ""
    files: str = ""
    room: str = ""
    edited_ts: str = ""
    deleted: bool = False
    is_bot: bool = False
    reactions_truncated: bool = False
    fetched_at: int = 0
    source: str = ""

    @property
    def cid_ts(self) -> str:
        return f"{self.slack_cid}_{self.ts}"

    @property
    def is_threaded(self) -> bool:
        return self.thread_ts != ""

    @property
    def is_threadhead(self) -> bool:
        return self.thread_ts == self.ts

    @property
    def is_reply(self) -> bool:
        return self.thread_ts not in ("", self.ts)


def item_of(row: MessageRow, calendar: Calendar) -> Item:
    """The item of a row; the calendar gives its date."""
    ts, thread_ts = row.ts, row.thread_ts
    item: Item = {
        "cid_ts": f"{row.slack_cid}_{ts}",
        "date": calendar.date(seconds(ts)),
        "ts": ts,
        "slack_cid": row.slack_cid,
        "word_count": row.word_count,
        "reaction_count": row.reaction_count,
        "reply_count": row.reply_count,
        "is_threadhead": thread_ts == ts,
        "is_threaded": thread_ts != "",
    }
    # The rest where it holds something. Written out: it is a third of the time of a loop, and this
    # is done for every message.
    if row.slack_uid:
        item["slack_uid"] = row.slack_uid
    if row.mentions:
        item["mentions"] = row.mentions
    if row.reactions:
        item["reactions"] = row.reactions
    if thread_ts:
        item["thread_ts"] = thread_ts
    if row.parent_user_id:
        item["parent_user_id"] = row.parent_user_id
    if row.replies:
        item["replies"] = row.replies
    if row.bot_replies:
        item["bot_replies"] = row.bot_replies
    if row.subtype:
        item["subtype"] = row.subtype
    if row.files:
        item["files"] = row.files
    if row.room:
        item["room"] = row.room
    if row.edited_ts:
        item["edited_ts"] = row.edited_ts
    if row.deleted:
        item["deleted"] = True
    if row.is_bot:
        item["is_bot"] = True
    if row.reactions_truncated:
        item["reactions_truncated"] = True
    if row.fetched_at:
        item["fetched_at"] = row.fetched_at
    if row.source:
        item["source"] = row.source
    return item


def row_of(item: Item) -> MessageRow:
    """The row of an item, of this or of an older spelling."""
    mentions, reactions = text(item, "mentions"), text(item, "reactions")
    if "," in mentions:
        mentions = encode_mentions(decode_mentions(mentions))
    if ";" in reactions:
        reactions = encode_reactions(decode_reactions(reactions))
    cid, _, ts = text(item, "cid_ts").partition("_")
    return MessageRow(
        slack_cid=text(item, "slack_cid") or cid,
        ts=text(item, "ts") or ts,
        slack_uid=text(item, "slack_uid", "user_id"),
        word_count=number(item, "word_count") or 0,
        mentions=mentions,
        reactions=reactions,
        reaction_count=number(item, "reaction_count") or 0,
        thread_ts=text(item, "thread_ts"),
        parent_user_id=text(item, "parent_user_id"),
        replies=text(item, "replies"),
        bot_replies=text(item, "bot_replies"),
        reply_count=number(item, "reply_count") or 0,
        subtype=text(item, "subtype"),
        files=text(item, "files"),
        room=text(item, "room"),
        edited_ts=text(item, "edited_ts"),
        deleted=flag(item, "deleted"),
        is_bot=flag(item, "is_bot"),
        reactions_truncated=flag(item, "reactions_truncated"),
        fetched_at=number(item, "fetched_at") or 0,
        source=text(item, "source"),
    )
