"""The most reacted and most replied messages: of everybody, of a channel, of an author.

Rule: ten, the most first, then the earliest, then by channel ID; none without any.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from channelstats.identifiers import timestamp
from channelstats.stats.talk import Said
from channelstats.stats.values import Json

_MOST: Final = 10

REACTED: Final = "reaction_count"
REPLIED: Final = "reply_count"


def of_all(said: Said, count: str) -> Sequence[Json]:
    """The list over all messages; each `[count, ts, cid, uid, thread_ts or null]`."""
    return [_entry(*row) for row in _listed(said, count).head(_MOST).iter_rows()]


def of_each(said: Said, count: str, whose: str) -> Mapping[str, Sequence[Json]]:
    """The lists for each value of `slack_cid` or `slack_uid` that has one."""
    found: dict[str, list[Json]] = {}
    for row in (
        _listed(said, count).group_by(whose, maintain_order=True).head(_MOST).iter_rows(named=True)
    ):
        found.setdefault(row[whose], []).append(_entry(**row))
    return found


def _listed(said: Said, count: str) -> pl.DataFrame:
    messages = said.messages.filter(pl.col(count) > 0)
    order = pl.col("ts"), pl.col("slack_cid")
    return messages.sort(-pl.col(count), *order).select(
        pl.col(count).alias("count"), "ts", "slack_cid", "slack_uid", "thread_ts"
    )


def _entry(
    count: int, ts: int, slack_cid: str, slack_uid: str, thread_ts: int | None
) -> Sequence[Json]:
    thread = None if thread_ts is None else timestamp(thread_ts)
    return [count, timestamp(ts), slack_cid, slack_uid, thread]
