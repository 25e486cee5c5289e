"""Each author: how much, how ranked, how answered (`users`, `user_stats`).

Rule: an entry is for whoever posted, or was answered in own threads; the rank and the running sums
are of those who posted.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import polars as pl

from channelstats.stats.messages import PeriodMessages
from channelstats.stats.quantities import (
    MESSAGES_THEN_WORDS,
    WORDS_THEN_MESSAGES,
    Formula,
    percent_of,
    ranked,
)


class Author(msgspec.Struct, frozen=True, gc=False):
    """The whole numbers of one author. ``sum_m`` and ``sum_w`` are the messages and words of all
    up to this one, in the ranking by either; ``all_m`` and ``all_w`` those of everybody.
    """

    slack_uid: str
    m: int
    w: int
    rank: int | None
    sum_m: int
    sum_w: int
    all_m: int
    all_w: int
    reactions: int
    replies: int
    thread_messages: int
    reactions_given: int


FIGURES: Final[Mapping[str, Formula]] = {
    "percent_of_messages": percent_of("m", "all_m"),
    "percent_of_words": percent_of("w", "all_w"),
    "cum_percent_of_messages": percent_of("sum_m", "all_m"),
    "cum_percent_of_words": percent_of("sum_w", "all_w"),
    "reactions": Formula("reactions"),
    "replies": Formula("replies"),
    "thread_messages": Formula("thread_messages"),
    "rphw": percent_of("reactions", "w"),
    "reactions_given": Formula("reactions_given"),
    "replies_in_period": Formula("thread_messages"),
}
"""Names as `user_stats` has them; beside them `count`, `rank`, `posting_days`, `posting_hours`."""

COMPARED: Final[Mapping[str, Formula]] = {
    "messages": Formula("m"),
    "words": Formula("w"),
    **{
        name: FIGURES[name]
        for name in ("rphw", "thread_messages", "percent_of_words", "cum_percent_of_words")
    },
}
"""What is compared with the period before."""


def all_authors(period_messages: PeriodMessages) -> pl.DataFrame:
    """Everybody with an entry: posters by rank, then the others by ID; the columns of `Author`."""
    posted = period_messages.messages.group_by("slack_uid").agg(
        m=pl.len().cast(pl.Int64),
        w=pl.col("word_count").sum(),
        reactions=pl.col("reaction_count").sum(),
        replies=pl.col("reply_count").sum(),
    )
    by_messages = ranked(posted, MESSAGES_THEN_WORDS, "slack_uid").select(
        "slack_uid", sum_m=pl.col("m").cum_sum()
    )
    by_words = ranked(posted, WORDS_THEN_MESSAGES, "slack_uid").with_columns(
        rank=pl.int_range(1, pl.len() + 1), sum_w=pl.col("w").cum_sum()
    )
    threads = _sizes(period_messages.responses, "parent", "thread_messages")
    return (
        by_words.join(by_messages, on="slack_uid", how="left")
        .join(threads, on="slack_uid", how="full", coalesce=True)
        .join(
            _sizes(period_messages.reactions, "reactor", "reactions_given"),
            on="slack_uid",
            how="left",
        )
        .with_columns(all_m=pl.col("m").sum(), all_w=pl.col("w").sum())
        .with_columns(pl.exclude("slack_uid", "rank").fill_null(0))
        .sort("rank", "slack_uid", nulls_last=True)
        .select(Author.__struct_fields__)
    )


def _sizes(frame: pl.DataFrame, key: str, name: str) -> pl.DataFrame:
    return frame.group_by(slack_uid=key).agg(pl.len().cast(pl.Int64).alias(name))
