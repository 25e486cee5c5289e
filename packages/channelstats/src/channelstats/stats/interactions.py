"""Who interacts with whom: the people groups of everybody, what they received, where they post.

Rule: an entry is for every ID that posts, reacts, is mentioned or is answered, whether or not a
list of users knows it.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final, Literal, NamedTuple

import msgspec
import polars as pl

from channelstats.stats.json_text import (
    floats,
    mapping,
    mappings,
    object_of,
    objects,
    with_texts,
)
from channelstats.stats.messages import REACTED, REPLIED, PeriodMessages
from channelstats.stats.quantities import column_ratio, percent_of
from channelstats.stats.top_messages import TopMessages
from channelstats.tables.directory import Channel

Pairing = Literal["reactions", "mentions", "threads"]


class InteractionGroup(NamedTuple):
    """Whom one interacts with in one way: by what, and from which side."""

    pairing: Pairing
    doing: bool
    """Others that this one reacts to, mentions, answers."""
    done_to: bool
    """Others that react to, mention, answer this one."""


GROUPS: Final[Mapping[str, InteractionGroup]] = {
    "reactions_from": InteractionGroup("reactions", doing=False, done_to=True),
    "reacted_to": InteractionGroup("reactions", doing=True, done_to=False),
    "reactions_combined": InteractionGroup("reactions", doing=True, done_to=True),
    "author_thread_responded": InteractionGroup("threads", doing=True, done_to=False),
    "thread_responders": InteractionGroup("threads", doing=False, done_to=True),
    "threads_combined": InteractionGroup("threads", doing=True, done_to=True),
    "you_mentioned": InteractionGroup("mentions", doing=True, done_to=False),
    "mentioned_you": InteractionGroup("mentions", doing=False, done_to=True),
    "mentions_combined": InteractionGroup("mentions", doing=True, done_to=True),
}


class Interactions:
    """Who interacted with whom in one period: `one` did it to `other`, `n` times."""

    def __init__(self, period_messages: PeriodMessages) -> None:
        rows: dict[Pairing, pl.DataFrame] = {
            "reactions": period_messages.reactions.select(one="reactor", other="slack_uid"),
            "mentions": period_messages.mentions.select(one="slack_uid", other="mentioned"),
            "threads": period_messages.responses.select(one="slack_uid", other="parent"),
        }
        everybody = pl.concat([column for frame in rows.values() for column in frame])
        ids = self._ids = pl.Enum(everybody.unique().sort())
        self._pairs = {
            name: _summed(frame.select(pl.all().cast(ids), n=pl.lit(1, pl.Int64)), "one", "other")
            for name, frame in rows.items()
        }
        self._both: dict[Pairing, pl.DataFrame] = {}

    def group(self, name: str) -> pl.DataFrame:
        """`uid`, `other`, `n` of a group; by `uid`, then the most first, then by `other`."""
        ranked = self._ranked(name).sort("uid", maintain_order=True)
        return ranked.cast({"uid": pl.String, "other": pl.String})

    def texts(self, name: str) -> pl.DataFrame:
        """A group as {other: n} in JSON by `uid`, in a column of its name."""
        return mappings(self._ranked(name), "uid", "other", **{name: pl.col("n")})

    def sizes(self, name: str) -> pl.DataFrame:
        """Of a group, by `slack_uid`: how often in all (`<group>_total`), how many people
        (`<group>_people`).
        """
        total, people = pl.col("n").sum(), pl.len().cast(pl.Int64)
        found = self._group(name).group_by(slack_uid="uid")
        return found.agg(total.alias(f"{name}_total"), people.alias(f"{name}_people")).cast(
            {"slack_uid": pl.String}
        )

    def edges(self) -> pl.DataFrame:
        """`one`, `other`, `n` of every way together, without oneself."""
        found = self._edges.sort("one", "n", "other", descending=[False, True, False])
        return found.cast({"one": pl.String, "other": pl.String})

    def edge_texts(self) -> pl.DataFrame:
        """The same as {other: n} in JSON, `edges`, by `one`."""
        ranked = self._edges.sort("n", "other", descending=[True, False])
        return mappings(ranked, "one", "other", edges=pl.col("n")).sort("one")

    @cached_property
    def _edges(self) -> pl.DataFrame:
        every = pl.concat(self._pairs.values())
        return _summed(every.filter(pl.col("one") != pl.col("other")), "one", "other")

    def everybody(self) -> pl.Series:
        """Every ID that did something, or to whom something was done."""
        return self._ids.categories

    def _ranked(self, name: str) -> pl.DataFrame:
        return self._group(name).sort("n", "other", descending=[True, False])

    def _group(self, name: str) -> pl.DataFrame:
        """In no order."""
        group = GROUPS[name]
        pairs = self._pairs[group.pairing]
        doing = pairs.select(uid="one", other="other", n="n")
        done_to = pairs.select(uid="other", other="one", n="n")
        if not (group.doing and group.done_to):
            return doing if group.doing else done_to
        if group.pairing not in self._both:
            self._both[group.pairing] = _summed(pl.concat([doing, done_to]), "uid", "other")
        return self._both[group.pairing]


def _summed(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    return frame.group_by(keys).agg(pl.col("n").sum())


def emoji_of_each(period_messages: PeriodMessages, whose: str, words: pl.DataFrame) -> pl.DataFrame:
    """How often for each value of a column, `emoji`, and per 1000 words, `emoji_rate`, in JSON.
    ``words`` are those of each, `w`.
    """
    found = (
        period_messages.reactions.group_by(whose, "emoji")
        .agg(n=pl.len().cast(pl.Int64))
        .join(words.select(whose, "w"), on=whose, how="left")
        .sort("n", "emoji", descending=[True, False])
    )
    rate = floats(column_ratio(1000 * pl.col("n"), pl.col("w")).shown())
    return mappings(found, whose, "emoji", emoji=pl.col("n"), emoji_rate=rate)


def enriched_users(
    period_messages: PeriodMessages,
    interactions: Interactions,
    channel_authors: pl.DataFrame,
    posters: pl.DataFrame,
    channels: Mapping[str, Channel],
    top: TopMessages,
) -> msgspec.Raw:
    """`enriched_user`: ``posters`` has `slack_uid` and `w`."""
    everybody = pl.concat([interactions.everybody(), posters["slack_uid"]]).unique().sort()
    found = everybody.to_frame("slack_uid")
    for name in GROUPS:
        found = with_texts(found, "slack_uid", interactions.texts(name))
    found = with_texts(
        found,
        "slack_uid",
        emoji_of_each(period_messages, "slack_uid", posters),
        _channels_of(channel_authors, channels),
    )
    for count in (REACTED, REPLIED):
        found = with_texts(found, "slack_uid", top.of_each(count, "slack_uid"), empty="[]")
    listed_count = period_messages.reactions.group_by("slack_uid").agg(reaction_count=pl.len())
    found = found.join(listed_count, on="slack_uid", how="left", maintain_order="left")
    text = object_of(
        **{name: pl.col(name) for name in GROUPS},
        reaction_popularity=pl.col("emoji"),
        reaction_count=pl.col("reaction_count").fill_null(0),
        emoji_rate=pl.col("emoji_rate"),
        reactions=pl.col("most_reacted"),
        replies=pl.col("most_replied"),
        enriched_channels=pl.col("enriched_channels"),
    )
    return mapping(found, "slack_uid", *text)


def _channels_of(channel_authors: pl.DataFrame, channels: Mapping[str, Channel]) -> pl.DataFrame:
    """The channels in which each author has words, the most words first, in JSON:
    `enriched_channels`.
    """
    names = pl.DataFrame(
        [(cid, channel.name) for cid, channel in channels.items()],
        {"slack_cid": pl.String, "name": pl.String},
        orient="row",
    )
    rows = (
        channel_authors.with_columns(all_w=pl.col("w").sum().over("slack_cid"))
        .filter(pl.col("w") > 0)
        .join(names, on="slack_cid", how="left")
        .sort(-pl.col("w"), -pl.col("m"), "slack_cid")
    )
    channel = objects(
        slack_cid=pl.col("slack_cid"),
        name=pl.coalesce("name", "slack_cid"),
        rank=pl.col("rank"),
        words=pl.col("w"),
        messages=pl.col("m"),
        percent=percent_of("w", "all_w").column().shown(),
    )
    return mappings(rows, "slack_uid", "slack_cid", enriched_channels=channel)
