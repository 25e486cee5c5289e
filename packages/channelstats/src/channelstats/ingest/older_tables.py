"""The tables of another installation, of today's or of the original's form, opened to be read; and
its messages → rows.

Rule: nothing here writes. A table that is not there is as good as empty.

Rule: a row of the original's is taken as what comes from outside: what no code here would have
written is left out of it. A row that was written by this code stays as it is.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final, Self

import msgspec

from channelstats.identifiers import is_channel_id, is_timestamp, is_user_id
from channelstats.ingest.messages import EARLIEST, about_file, known_word
from channelstats.slack.objects import SlackFile
from channelstats.tables.items import HASH_KEYS, MESSAGE_INDEXES, everything
from channelstats.tables.message_row import (
    MessageRow,
    Reaction,
    decode_mentions,
    decode_reactions,
    decode_replies,
    emoji_name,
    encode_json,
    encode_mentions,
    encode_reactions,
    encode_replies,
    row_of,
)
from keytables import Engine, Index, Item, Key, SchemaError, Table, TableHandle

NAMES: Final = (
    "User",
    "UserCreated",
    "UserHash",
    "Channel",
    "BulkStore",
    "ChannelMembersLog",
    "Configuration",
    "Message",
    "FirstPost",
    "ChannelConfiguration",
)
"""What is worth reading: not reports, which are made again, nor tables of invented names."""

_OLDER_KEYS: Final = {"Configuration": "item_key"}
_OLDER_INDEXES: Final = (
    Index("Date", Key("date")),
    Index("Slack_cid", Key("slack_cid")),
    Index("User_id", Key("user_id")),
)


class NothingThere(Exception):  # noqa: N818
    """There is no table of that prefix; the message says which there are."""


class OlderTables:
    """See the module; the tables by name, those that are there."""

    def __init__(self, handles: Mapping[str, TableHandle]) -> None:
        self._handles = handles

    @classmethod
    async def open(cls, engine: Engine, prefix: str) -> Self:
        """:raises NothingThere: there is no table of that prefix"""
        there = set(await engine.table_names())
        names = [name for name in NAMES if f"{prefix}.{name}" in there]
        if not names:
            known = sorted({name.rpartition(".")[0] for name in there} - {""})
            only = f"only {', '.join(map(repr, known))}" if known else "no table at all"
            raise NothingThere(f"there are no tables that begin with {prefix!r}, {only}")
        return cls({name: await _opened(engine, prefix, name) for name in names})

    def get(self, name: str) -> TableHandle | None:
        return self._handles.get(name)

    async def pages(self, name: str) -> AsyncIterator[list[Item]]:
        """Everything in a table."""
        if (handle := self.get(name)) is not None:
            async for items in everything(handle):
                yield items


async def _opened(engine: Engine, prefix: str, name: str) -> TableHandle:
    """A table as it was declared by whoever made it."""
    keys = dict.fromkeys(key for key in (_OLDER_KEYS.get(name), HASH_KEYS[name]) if key)
    indexes = ((), MESSAGE_INDEXES, _OLDER_INDEXES) if name == "Message" else ((),)
    *others, last = (
        Table(f"{prefix}.{name}", Key(key), indexes=some) for key in keys for some in indexes
    )
    for table in others:
        try:
            return await engine.open_table(table)
        except SchemaError:
            continue
    return await engine.open_table(last)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────

_OURS: Final = ("api", "export")


def message_of(item: Item, latest: str) -> MessageRow:
    """The row of an item.

    :raises ValueError: it is none, or of an absurd time: after ``latest``
    """
    row = row_of(item)
    if not is_channel_id(row.slack_cid) or not is_timestamp(row.ts):
        raise ValueError("cid_ts: expected the ID of a channel, '_', and a timestamp")
    if not EARLIEST <= row.ts <= latest:
        raise ValueError("ts: before the year 2000, or in the future")
    return row if row.source in _OURS else _cleaned(row)


def _cleaned(row: MessageRow) -> MessageRow:
    author = row.slack_uid if is_user_id(row.slack_uid) else ""
    reactions = (
        Reaction(emoji_name(name), tuple(filter(is_user_id, users)))
        for name, users in decode_reactions(row.reactions)
    )
    replies = decode_replies(row.replies)
    threaded = is_timestamp(row.thread_ts)
    return msgspec.structs.replace(
        row,
        slack_uid=author,
        is_bot=author.startswith("B"),
        mentions=encode_mentions(
            uid for uid in decode_mentions(row.mentions) if is_user_id(uid) and uid != author
        ),
        reactions=encode_reactions(one for one in reactions if one.emoji and one.users),
        thread_ts=row.thread_ts if threaded else "",
        parent_user_id=row.parent_user_id if threaded and is_user_id(row.parent_user_id) else "",
        replies=encode_replies(replies),
        reply_count=len(replies),
        subtype=(known_word(row.subtype) or "unknown") if row.subtype else "",
        files=_files(row.files),
        room="",
        edited_ts="",
        source="",
    )


def _files(text: str) -> str:
    """What kinds of files there are: the original kept titles and previews of what they say."""
    if not text:
        return ""
    try:
        files = msgspec.json.decode(text, type=list[SlackFile], strict=False)
    except msgspec.MsgspecError:
        return ""
    return encode_json([about_file(file) for file in files])
