"""Messages as another installation stored them → rows.

Rule: a row of the original's is taken as what comes from outside: what no code here would have
written is left out of it. A row that was written by this code stays as it is.
"""

from typing import Final

import msgspec

from channelstats.identifiers import is_channel_id, is_timestamp, is_user_id
from channelstats.ingest.message_row import EARLIEST, about_file, known_word
from channelstats.slack.objects import SlackFile
from channelstats.tables.codecs import (
    Reaction,
    decode_mentions,
    decode_reactions,
    decode_replies,
    emoji_name,
    encode_json,
    encode_mentions,
    encode_reactions,
    encode_replies,
)
from channelstats.tables.message_row import MessageRow, row_of
from keytables import Item

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
