"""The most reacted and most replied messages: of everybody, of a channel, of an author.

Rule: ten, the most first, then the earliest, then by channel ID; none without any.
"""

from collections.abc import Callable, Sequence
from typing import Final

import polars as pl

from channelstats.identifiers import timestamp
from channelstats.stats.json_text import Json, lists, quoted
from channelstats.stats.messages import (
    REACTED,
    REPLIED,
    TOP_MESSAGES,
    PeriodMessages,
    top_messages,
    with_shown_times,
)

_NAMES: Final = {REACTED: "most_reacted", REPLIED: "most_replied"}


class TopMessages:
    """Both lists of a period, of the messages that may be listed."""

    def __init__(
        self, period_messages: PeriodMessages, listable: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> None:
        self._period_messages = period_messages
        self._listed = {count: listable(top_messages(period_messages, count)) for count in _NAMES}

    def of_all(self, count: str) -> Sequence[Json]:
        """The list over all messages; each `[count, ts, cid, uid, thread_ts or null]`."""
        most = with_shown_times(self._listed[count].head(TOP_MESSAGES), self._period_messages)
        return [_entry(*row) for row in most.iter_rows()]

    def of_each(self, count: str, whose: str) -> pl.DataFrame:
        """The lists for each value of `slack_cid` or `slack_uid` that has one, in JSON: that column
        and `most_reacted` or `most_replied`.
        """
        each = self._listed[count].group_by(whose, maintain_order=True).head(TOP_MESSAGES)
        return _texts(with_shown_times(each, self._period_messages), count, whose)


def _texts(most: pl.DataFrame, count: str, whose: str) -> pl.DataFrame:
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


def _entry(
    count: int, ts: int, slack_cid: str, slack_uid: str, thread_ts: int | None
) -> Sequence[Json]:
    thread = None if thread_ts is None else timestamp(thread_ts)
    return [count, timestamp(ts), slack_cid, slack_uid, thread]
