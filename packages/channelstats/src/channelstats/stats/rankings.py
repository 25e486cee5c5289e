"""Each author and each channel: how much, how ranked, how reacted to and answered.

Rule: an entry is for whatever author or channel has messages, and for whoever was answered in own
threads; ranks and running sums are of those with messages. What is known of a channel beyond its
messages comes from the table Channel; of a channel unknown there it is not made up.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from channelstats.counting import JOINED, LEFT
from channelstats.stats.messages import PeriodMessages
from channelstats.stats.period import Period
from channelstats.stats.quantities import (
    MESSAGES_THEN_WORDS,
    WORDS_THEN_MESSAGES,
    Formula,
    grouped,
    percent_of,
    ranked,
    volume_by,
)
from channelstats.tables.columns import ID
from channelstats.tables.directory import Channel

AUTHOR_FIGURES: Final[Mapping[str, Formula]] = {
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

CHANNEL_FIGURES: Final[Mapping[str, Formula]] = {
    "percent": percent_of("w", "all_w"),
    "cpercent": percent_of("sum_w", "all_w"),
    "posters": Formula("posters"),
    "words_per_poster": Formula("w", "posters"),
}
"""Names as `channel_stats` has them; beside them `new` and `members`."""

EMOJI_RATE: Final = Formula("n", "w", 1000)
"""Of `n` times an emoji was used, per 1000 of `w` words."""

VOLUME_COMPARED: Final = {"messages": Formula("m"), "words": Formula("w")}
_COMPARED: Final = ("rphw", "thread_messages", "percent_of_words", "cum_percent_of_words")

AUTHORS_COMPARED: Final[Mapping[str, Formula]] = {
    **VOLUME_COMPARED,
    **{name: AUTHOR_FIGURES[name] for name in _COMPARED},
}
CHANNELS_COMPARED: Final[Mapping[str, Formula]] = {
    **VOLUME_COMPARED,
    **CHANNEL_FIGURES,
    "share_rounded": Formula("w", "all_w", 100, tenths=True),
}
"""What is compared with the period before."""


def all_authors(period_messages: PeriodMessages) -> pl.DataFrame:
    """Everybody with an entry: posters by `rank`, then the others by ID. Messages `m` and words
    `w`; `sum_m` and `sum_w` are those of all up to this one, in the ranking by either, `all_m` and
    `all_w` of everybody; `reactions`, `replies`, `thread_messages`, `reactions_given`.
    """
    sums = {"reactions": pl.sum("reaction_count"), "replies": pl.sum("reply_count")}
    posted = _ranked_by_words(period_messages.messages, "slack_uid", **sums)
    by_messages = ranked(posted, MESSAGES_THEN_WORDS, "slack_uid")
    sums_of_messages = by_messages.select("slack_uid", sum_m=pl.col("m").cum_sum())
    threads = _sizes(period_messages.responses, "parent", "thread_messages")
    given = _sizes(period_messages.reactions, "reactor", "reactions_given")
    return (
        posted.join(sums_of_messages, on="slack_uid", how="left")
        .join(threads, on="slack_uid", how="full", coalesce=True)
        .join(given, on="slack_uid", how="left")
        .with_columns(all_m=pl.col("m").sum(), all_w=pl.col("w").sum())
        .with_columns(pl.exclude("slack_uid", "rank").fill_null(0))
        .sort("rank", "slack_uid", nulls_last=True)
    )


def all_channels(period_messages: PeriodMessages) -> pl.DataFrame:
    """The channels with messages, ranked by words: messages `m`, words `w`, `posters`,
    `reaction_count`, `files`, how many people's `joins` and `leaves` there were, the words of all
    up to this one `sum_w`, and those of all `all_w`.
    """
    posters = pl.col("slack_uid").n_unique().cast(pl.Int64)
    sums = {"reaction_count": pl.sum("reaction_count"), "files": pl.sum("file_count")}
    sizes = _ranked_by_words(period_messages.messages, "slack_cid", posters=posters, **sums)
    moves = period_messages.moves.group_by("slack_cid").agg(
        joins=pl.col("subtype").is_in(JOINED).sum().cast(pl.Int64),
        leaves=pl.col("subtype").is_in(LEFT).sum().cast(pl.Int64),
    )
    found = sizes.join(moves, on="slack_cid", how="left", maintain_order="left")
    return found.with_columns(pl.col("joins", "leaves").fill_null(0))


def channel_authors(period_messages: PeriodMessages) -> pl.DataFrame:
    """`m`, `w` and `rank` of each author in each channel; channels by ID, authors by rank."""
    sizes = volume_by(period_messages.messages, "slack_cid", "slack_uid")
    return (
        ranked(sizes, WORDS_THEN_MESSAGES, "slack_uid")
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("slack_cid"))
        .sort("slack_cid", maintain_order=True)
    )


def _ranked_by_words(messages: pl.DataFrame, key: str, **more: pl.Expr) -> pl.DataFrame:
    sizes = grouped(messages, key, m=pl.len().cast(pl.Int64), w=pl.sum("word_count"), **more)
    rank, all_w = pl.int_range(1, pl.len() + 1), pl.col("w").sum()
    return ranked(sizes, WORDS_THEN_MESSAGES, key).with_columns(
        rank=rank, sum_w=pl.col("w").cum_sum(), all_w=all_w
    )


def _sizes(frame: pl.DataFrame, key: str, name: str) -> pl.DataFrame:
    return frame.group_by(slack_uid=key).agg(pl.len().cast(pl.Int64).alias(name))


def known_channels(channels: Mapping[str, Channel], period: Period) -> pl.DataFrame:
    """What is known of channels beside their messages: `slack_cid`, `name`, `members`, and whether
    each is `new`, made after the period began, `private` or `archived`.
    """
    rows = [
        (cid, of.name, of.members, of.created > period.begin, of.is_private, of.is_archived)
        for cid, of in channels.items()
    ]
    flags = dict.fromkeys(("new", "private", "archived"), pl.Boolean())
    schema = {"slack_cid": ID, "name": pl.String(), "members": pl.Int64(), **flags}
    return pl.DataFrame(rows, schema, orient="row")


def members_at_ends(samples: Sequence[tuple[int, int]], period: Period) -> tuple[int, int] | None:
    """The members at the beginning and at the end; None when no sample was taken before the end.

    ``samples`` are (seconds, members) in the order of time. The beginning is the latest sample up
    to the first midnight, else the earliest after it; the end is the latest sample before the
    midnight after the last date.
    """
    until_end = [members for at, members in samples if at < period.end]
    if not until_end:
        return None
    until_begin = [members for at, members in samples if at <= period.begin]
    return (until_begin or until_end[:1])[-1], until_end[-1]
