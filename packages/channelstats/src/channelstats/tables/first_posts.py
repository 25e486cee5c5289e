"""The table FirstPost, as the stored messages have it, and updated while messages come in.

Rule: the table is what the stored messages say under one way of counting. Where it was made under
another one, or may miss something, it is rebuilt from them; what is known of messages that were
removed because they are old stays.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import polars as pl

from channelstats.counting import Counting
from channelstats.identifiers import timestamp
from channelstats.tables.directory import FirstPost, User, bots_of
from channelstats.tables.message_row import MessageRow
from channelstats.tables.messages import Messages
from channelstats.tables.store import Tables

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

    posts = [await asyncio.to_thread(first, frame) async for frame in messages.all(_NEEDED)]
    return await asyncio.to_thread(lambda: posts_of(earliest(pl.concat(posts)))) if posts else {}


async def rebuild(tables: Tables, counting: Counting) -> None:
    """Rebuild FirstPost from every stored message. What is known of messages that are not stored
    any more stays where it is earlier.
    """
    known = await tables.first_posts.all()
    bots = bots_of(await tables.users.all())
    posts = await derived(tables.messages, counting.counted(bots))
    keys = {uid: f"{post.slack_cid}_{post.message_id}" for uid, post in known.items()}
    stored = await tables.messages.known(keys.values())
    for uid, post in known.items():
        if keys[uid] not in stored:
            posts[uid] = min(post, posts.get(uid, post))
    await tables.first_posts.put(
        (uid, post) for uid, post in posts.items() if known.get(uid) != post
    )
    await tables.first_posts.delete(uid for uid in known if uid not in posts)
    await tables.configuration.put_first_posts_counting(counting.name)


class FirstPostUpdater:
    """Follows the changes of messages."""

    def __init__(self, tables: Tables, counting: Counting) -> None:
        self._tables, self._counting = tables, counting
        self._bots: frozenset[str] = frozenset()
        self._known: dict[str, FirstPost] = {}
        self._earlier: dict[str, FirstPost] = {}
        self._uncertain: set[str] = set()
        self._rebuild = False

    async def start(self, users: Mapping[str, User]) -> None:
        """Read the table, and find out whether it can be continued.

        Until the end it counts as made by no way of counting: should this be interrupted, messages
        are stored that it knows nothing of.
        """
        configuration, self._bots = self._tables.configuration, bots_of(users)
        self._known = await self._tables.first_posts.all()
        made_by = await configuration.first_posts_counting()
        self._rebuild = (
            made_by != self._counting.name and not await self._tables.messages.is_empty()
        )
        await configuration.put_first_posts_counting("")

    def on_change(self, row: MessageRow, replaced: MessageRow | None) -> None:
        """Take a change of a message into account."""
        if self._rebuild:
            return
        known = self._known.get(row.slack_uid)
        if replaced is None and known is not None and known.message_id < row.ts:
            return  # as nearly always: asked before what takes longer
        if self._counts(row):
            post = FirstPost(row.ts, row.slack_cid)
            if known is None or post < known:
                self._known[row.slack_uid] = self._earlier[row.slack_uid] = post
        elif replaced is not None and self._counts(replaced):
            author = replaced.slack_uid
            if self._known.get(author) == (replaced.ts, replaced.slack_cid):
                self._uncertain.add(author)

    async def finish(self) -> None:
        """Write what has changed, or rebuild the table if it could not be continued."""
        if self._rebuild:
            await rebuild(self._tables, self._counting)
            return
        for uid in self._uncertain:
            await self._look_up(uid)
        await self._tables.first_posts.put(sorted(self._earlier.items()))
        await self._tables.configuration.put_first_posts_counting(self._counting.name)

    async def _look_up(self, uid: str) -> None:
        self._earlier.pop(uid, None)
        async for row in self._tables.messages.of_author(uid):
            if self._counts(row):
                self._earlier[uid] = FirstPost(row.ts, row.slack_cid)
                return
        await self._tables.first_posts.delete((uid,))

    def _counts(self, row: MessageRow) -> bool:
        return not row.deleted and self._counting.counts(row.slack_uid, row.subtype, self._bots)
