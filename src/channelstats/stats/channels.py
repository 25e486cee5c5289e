"""Each channel: how much, by whom, what was reacted to and replied to.

Rule: what is said of a channel beyond its messages (name, members, when it was made) comes from the
table Channel; of a channel unknown there it is not made up.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import polars as pl

from channelstats.stats import activity, top_messages
from channelstats.stats.people import emoji
from channelstats.stats.period import Period
from channelstats.stats.quantities import (
    WORDS_THEN_MESSAGES,
    Quantity,
    Ratio,
    parts,
    percent,
    ranked,
    ratio,
    shown,
    volume,
)
from channelstats.stats.shapes import Pair, nested_pairs, per_thousand
from channelstats.stats.talk import Said
from channelstats.stats.values import Json
from channelstats.tables.directory import Channel


class ChannelTalk(msgspec.Struct, frozen=True, gc=False):
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


FIGURES: Final[Mapping[str, Callable[[ChannelTalk], Quantity]]] = {
    "percent": lambda of: percent(of.w, of.all_w),
    "cpercent": lambda of: percent(of.sum_w, of.all_w),
    "posters": lambda of: of.posters,
    "words_per_poster": lambda of: ratio(of.w, of.posters),
}
"""Names as `channel_stats` has them; beside them `new` and `members`."""

COMPARED: Final[Mapping[str, Callable[[ChannelTalk], Quantity]]] = {
    "messages": lambda of: of.m,
    "words": lambda of: of.w,
    **FIGURES,
    "share_rounded": lambda of: to_one_decimal(percent(of.w, of.all_w)),
}
"""What is compared with the period before."""


def to_one_decimal(quantity: Quantity) -> Ratio:
    """Rounded to tenths, half to even."""
    num, den = parts(quantity)
    tenths, rest = divmod(10 * num, den)
    up = 2 * rest > den or (2 * rest == den and tenths % 2 == 1)
    return Ratio(tenths + up, 10)


def all_channels(said: Said) -> list[ChannelTalk]:
    """The channels in which something was said, ranked by words."""
    sizes = said.messages.group_by("slack_cid").agg(
        m=pl.len().cast(pl.Int64),
        w=pl.col("word_count").sum(),
        posters=pl.col("slack_uid").n_unique().cast(pl.Int64),
        reaction_count=pl.col("reaction_count").sum(),
    )
    found = (
        ranked(sizes, WORDS_THEN_MESSAGES, "slack_cid")
        .with_columns(sum_w=pl.col("w").cum_sum(), all_w=pl.col("w").sum())
        .select(ChannelTalk.__struct_fields__)
    )
    return [ChannelTalk(*row) for row in found.iter_rows()]


def channel_authors(said: Said) -> pl.DataFrame:
    """`m`, `w` and `rank` of each author in each channel; channels by ID, authors by rank."""
    sizes = volume(said.messages, "slack_cid", "slack_uid")
    return (
        ranked(sizes, WORDS_THEN_MESSAGES, "slack_uid")
        .with_columns(rank=pl.int_range(1, pl.len() + 1).over("slack_cid"))
        .sort("slack_cid", maintain_order=True)
    )


def channel_users(found: list[ChannelTalk], authors: pl.DataFrame) -> dict[str, Mapping[str, Pair]]:
    """`channel_user`, both in the order of their ranks."""
    by_channel = nested_pairs(authors, "slack_cid", "slack_uid")
    return {channel.slack_cid: by_channel[channel.slack_cid] for channel in found}


def channel_stats(
    found: list[ChannelTalk], known: Mapping[str, Channel], period: Period
) -> dict[str, Json]:
    """`channel_stats`. A channel is new when it was made after the period began."""
    return {of.slack_cid: _stats(of, known.get(of.slack_cid), period) for of in found}


def _stats(of: ChannelTalk, channel: Channel | None, period: Period) -> dict[str, Json]:
    return {
        **{name: shown(figure(of)) for name, figure in FIGURES.items()},
        "new": channel is not None and channel.created > period.begin,
        "members": channel.members if channel else None,
    }


def enriched_channels(said: Said, found: list[ChannelTalk]) -> dict[str, Json]:
    """`enriched_channel`."""
    days, hours = activity.posting(said, "slack_cid")
    given = emoji(said, "slack_cid")
    reacted = top_messages.of_each(said, top_messages.REACTED, "slack_cid")
    replied = top_messages.of_each(said, top_messages.REPLIED, "slack_cid")
    return {
        of.slack_cid: {
            "reaction_count": of.reaction_count,
            "reactions": given.get(of.slack_cid, {}),
            "emoji_rate": per_thousand(given.get(of.slack_cid, {}), of.w),
            "most_reacted": reacted.get(of.slack_cid, []),
            "most_replied": replied.get(of.slack_cid, []),
            "posting_days": days.get(of.slack_cid, {}),
            "posting_hours": hours.get(of.slack_cid, {}),
        }
        for of in found
    }
