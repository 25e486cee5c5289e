"""The most reacted and most replied messages: of everybody, of a channel, of an author.

Rule: ten, the most first, then the earliest, then by channel ID; none without any.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from channelstats.identifiers import timestamp
from channelstats.stats.json_text import lists, quoted
from channelstats.stats.messages import PeriodMessages
from channelstats.stats.values import Json

_MOST: Final = 10

REACTED: Final = "reaction_count"
REPLIED: Final = "reply_count"

_NAMES: Final = {REACTED: "most_reacted", REPLIED: "most_replied"}


def of_all(said: PeriodMessages, count: str) -> Sequence[Json]:
    """The list over all messages; each `[count, ts, cid, uid, thread_ts or null]`."""
    return [_entry(*row) for row in listed(said, count).head(_MOST).iter_rows()]


def of_each(said: PeriodMessages, count: str, whose: str) -> pl.DataFrame:
    """The lists for each value of `slack_cid` or `slack_uid` that has one, in JSON: that column and
    `most_reacted` or `most_replied`.
    """
    most = listed(said, count).group_by(whose, maintain_order=True).head(_MOST)
    thread = pl.coalesce(quoted(_timestamps("thread_ts")), pl.lit("null"))
    said_by = quoted(pl.col("slack_cid")), quoted(pl.col("slack_uid"))
    entry = lists(pl.col("count"), quoted(_timestamps("ts")), *said_by, thread)
    found = most.select(whose, text=entry).group_by(whose, maintain_order=True).agg("text")
    return found.select(whose, lists(pl.col("text").list.join(",")).alias(_NAMES[count]))


def _timestamps(column: str) -> pl.Expr:
    """`timestamp` of a column of microseconds."""
    whole, part = pl.col(column) // 1_000_000, pl.col(column) % 1_000_000
    texts = whole.cast(pl.String).str.zfill(10), part.cast(pl.String).str.zfill(6)
    return pl.concat_str(*texts, separator=".")


def listed(said: PeriodMessages, count: str) -> pl.DataFrame:
    """All with any, ranked: `count`, `ts`, `slack_cid`, `slack_uid`, `thread_ts`."""
    messages = said.messages.select(
        pl.col(count).alias("count"), "ts", "slack_cid", "slack_uid", "thread_ts"
    )
    return messages.filter(pl.col("count") > 0).sort(-pl.col("count"), "ts", "slack_cid")


def _entry(
    count: int, ts: int, slack_cid: str, slack_uid: str, thread_ts: int | None
) -> Sequence[Json]:
    thread = None if thread_ts is None else timestamp(thread_ts)
    return [count, timestamp(ts), slack_cid, slack_uid, thread]
