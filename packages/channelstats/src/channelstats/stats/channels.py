"""Each channel: how much, by whom, what was reacted to and replied to.

Rule: what is known of a channel beyond its messages (name, members, when it was made) comes from
the table Channel; of a channel unknown there it is not made up.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import polars as pl

from channelstats.stats.messages import PeriodMessages
from channelstats.stats.period import Period
from channelstats.stats.quantities import (
    WORDS_THEN_MESSAGES,
    Formula,
    percent_of,
    ranked,
    volume_by,
)
from channelstats.tables.directory import Channel


class ChannelVolume(msgspec.Struct, frozen=True, gc=False):
    """The whole numbers of one channel. ``sum_w`` are the words of all up to this one in the
    ranking; ``all_w`` those of all.
    """

    slack_cid: str
    m: int
    w: int
    posters: int
    reaction_count: int
    sum_w: int
    all_w: int


FIGURES: Final[Mapping[str, Formula]] = {
    "percent": percent_of("w", "all_w"),
    "cpercent": percent_of("sum_w", "all_w"),
    "posters": Formula("posters"),
    "words_per_poster": Formula("w", "posters"),
}
"""Names as `channel_stats` has them; beside them `new` and `members`."""

COMPARED: Final[Mapping[str, Formula]] = {
    "messages": Formula("m"),
    "words": Formula("w"),
    **FIGURES,
    "share_rounded": Formula("w", "all_w", 100, tenths=True),
}
"""What is compared with the period before."""


def all_channels(period_messages: PeriodMessages) -> pl.DataFrame:
    """The channels with messages, ranked by words; the columns of `ChannelVolume`."""
    sizes = period_messages.messages.group_by("slack_cid").agg(
        m=pl.len().cast(pl.Int64),
        w=pl.col("word_count").sum(),
        posters=pl.col("slack_uid").n_unique().cast(pl.Int64),
        reaction_count=pl.col("reaction_count").sum(),
    )
    return (
        ranked(sizes, WORDS_THEN_MESSAGES, "slack_cid")
        .with_columns(sum_w=pl.col("w").cum_sum(), all_w=pl.col("w").sum())
        .select(ChannelVolume.__struct_fields__)
    )


def channel_authors(period_messages: PeriodMessages) -> pl.DataFrame:
    """`m`, `w` and `rank` of each author in each channel; channels by ID, authors by rank."""
    sizes = volume_by(period_messages.messages, "slack_cid", "slack_uid")
    return (
        ranked(sizes, WORDS_THEN_MESSAGES, "slack_uid")
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("slack_cid"))
        .sort("slack_cid", maintain_order=True)
    )


def is_new(channel: Channel | None, period: Period) -> bool:
    """Whether a channel is known to have been made after the period began."""
    return channel is not None and channel.created > period.begin


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
