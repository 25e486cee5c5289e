"""The table FirstPost: where and when each person first said something.

Rule: only an earlier post replaces one, except where a post turned out not to count.

Rows whose key is no user, or whose time is 0, are strays of the past and are left out.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

import polars as pl

from channelstats.identifiers import is_timestamp, is_user_id, seconds, timestamp
from channelstats.tables.items import batches, everything, number, text
from channelstats.tables.messages import Messages
from keytables import TableHandle


class FirstPost(NamedTuple):
    """Compares as earlier or later: by time, then by channel."""

    message_id: str
    slack_cid: str

    @property
    def ts(self) -> int:
        return seconds(self.message_id)


_NEEDED: Final = ("slack_uid", "ts", "slack_cid", "subtype", "deleted")
"""Columns that tell whether a message counts, and whose it is."""


def earliest(messages: pl.DataFrame) -> pl.DataFrame:
    """The first message of each author, as columns `slack_uid`, `ts`, `slack_cid`."""
    columns = messages.select("slack_uid", "ts", "slack_cid")
    return columns.sort(columns.columns).unique("slack_uid", keep="first", maintain_order=True)


def posts_of(first: pl.DataFrame) -> dict[str, FirstPost]:
    """First posts by author, of the columns that `earliest` returns."""
    return {uid: FirstPost(timestamp(ts), cid) for uid, ts, cid in first.iter_rows()}


async def derived(messages: Messages, counted: pl.Expr) -> dict[str, FirstPost]:
    """First posts as the stored messages have them, by one way of counting."""

    def first(frame: pl.DataFrame) -> pl.DataFrame:
        return earliest(frame.filter(counted))

    found = [await asyncio.to_thread(first, frame) async for frame in messages.all(_NEEDED)]
    return await asyncio.to_thread(lambda: posts_of(earliest(pl.concat(found)))) if found else {}


class FirstPosts:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, FirstPost]:
        """First posts by author."""
        found = {}
        async for items in everything(self._table):
            for item in items:
                uid, post = text(item, "slack_uid"), text(item, "message_id")
                if is_user_id(uid) and number(item, "ts") and is_timestamp(post):
                    found[uid] = FirstPost(post, text(item, "slack_cid"))
        return found

    async def put(self, posts: Iterable[tuple[str, FirstPost]]) -> None:
        """Store first posts in place of what is stored."""
        for batch in batches(posts):
            puts = [{"slack_uid": uid, **post._asdict(), "ts": post.ts} for uid, post in batch]
            await self._table.batch_write(puts=puts)

    async def delete(self, users: Iterable[str]) -> None:
        for batch in batches(users):
            await self._table.batch_write(deletes=[(uid,) for uid in batch])
