"""Who deals with whom: the people groups of everybody, what they received, where they post.

Rule: an entry is for every ID that posts, reacts, is mentioned or is answered, whether or not a
list of users knows it.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import polars as pl

from channelstats.stats import top_messages
from channelstats.stats.quantities import counts, percent, shown
from channelstats.stats.shapes import nested_numbers, per_thousand
from channelstats.stats.talk import Said
from channelstats.stats.values import Json
from channelstats.tables.directory import Channel

Pairing = Literal["reactions", "mentions", "threads"]


class Group(NamedTuple):
    """Whom one deals with in one way: by what, and from which side."""

    pairing: Pairing
    doing: bool
    """Others that this one reacts to, mentions, answers."""
    done_to: bool
    """Others that react to, mention, answer this one."""


GROUPS: Final[Mapping[str, Group]] = {
    "reactions_from": Group("reactions", doing=False, done_to=True),
    "reacted_to": Group("reactions", doing=True, done_to=False),
    "reactions_combined": Group("reactions", doing=True, done_to=True),
    "author_thread_responded": Group("threads", doing=True, done_to=False),
    "thread_responders": Group("threads", doing=False, done_to=True),
    "threads_combined": Group("threads", doing=True, done_to=True),
    "you_mentioned": Group("mentions", doing=True, done_to=False),
    "mentioned_you": Group("mentions", doing=False, done_to=True),
    "mentions_combined": Group("mentions", doing=True, done_to=True),
}


class Dealings:
    """Who dealt with whom in one period, one row for each time: `one` did it to `other`."""

    def __init__(self, said: Said) -> None:
        self._pairs: dict[Pairing, pl.DataFrame] = {
            "reactions": said.reactions.select(one="reactor", other="slack_uid"),
            "mentions": said.mentions.select(one="slack_uid", other="mentioned"),
            "threads": said.responses.select(one="slack_uid", other="parent"),
        }

    def group(self, name: str) -> pl.DataFrame:
        """`uid`, `other`, `n` of a group; by `uid`, then the most first, then by `other`."""
        group = GROUPS[name]
        pairs = self._pairs[group.pairing]
        sides = []
        if group.doing:
            sides.append(pairs.select(uid="one", other="other"))
        if group.done_to:
            sides.append(pairs.select(uid="other", other="one"))
        return counts(pl.concat(sides), "uid", "other")

    def edges(self) -> pl.DataFrame:
        """`one`, `other`, `n` of every way together, without oneself."""
        every = pl.concat(self._pairs.values())
        return counts(every.filter(pl.col("one") != pl.col("other")), "one", "other")

    def everybody(self) -> set[str]:
        """Every ID that did something, or to whom something was done."""
        every = pl.concat(self._pairs.values())
        return {*every["one"], *every["other"]}


def emoji(said: Said, whose: str | None = None) -> Mapping[str, Mapping[str, int]]:
    """How often each emoji was given, the most first: for each value of a column, or under ""."""
    if whose is None:
        return nested_numbers(
            counts(said.reactions.with_columns(all=pl.lit("")), "all", "emoji"), "all", "emoji"
        )
    return nested_numbers(counts(said.reactions, whose, "emoji"), whose, "emoji")


def enriched_users(
    said: Said,
    dealings: Dealings,
    channel_authors: pl.DataFrame,
    words: Mapping[str, int],
    channels: Mapping[str, Channel],
) -> dict[str, Json]:
    """`enriched_user`: ``words`` are those of each poster."""
    groups = {name: nested_numbers(dealings.group(name), "uid", "other") for name in GROUPS}
    received = emoji(said, "slack_uid")
    reacted = top_messages.of_each(said, top_messages.REACTED, "slack_uid")
    replied = top_messages.of_each(said, top_messages.REPLIED, "slack_uid")
    homes = _channels_of(channel_authors, channels)
    found: dict[str, Json] = {}
    for uid in sorted(dealings.everybody() | set(words)):
        popularity = received.get(uid, {})
        found[uid] = {
            **{name: by_user.get(uid, {}) for name, by_user in groups.items()},
            "reaction_popularity": popularity,
            "reaction_count": sum(popularity.values()),
            "emoji_rate": per_thousand(popularity, words.get(uid, 0)),
            "reactions": reacted.get(uid, []),
            "replies": replied.get(uid, []),
            "enriched_channels": homes.get(uid, {}),
        }
    return found


def _channels_of(
    channel_authors: pl.DataFrame, channels: Mapping[str, Channel]
) -> Mapping[str, Mapping[str, Json]]:
    """The channels in which each author has words, the most words first."""
    whole = pl.col("w").sum().over("slack_cid").alias("all_w")
    rows = (
        channel_authors.with_columns(whole)
        .filter(pl.col("w") > 0)
        .sort("slack_uid", -pl.col("w"), -pl.col("m"), "slack_cid")
        .select("slack_uid", "slack_cid", "rank", "w", "m", "all_w")
    )
    found: dict[str, dict[str, Json]] = {}
    for uid, cid, rank, w, m, all_w in rows.iter_rows():
        channel = channels.get(cid)
        found.setdefault(uid, {})[cid] = {
            "slack_cid": cid,
            "name": channel.name if channel else cid,
            "rank": rank,
            "words": w,
            "messages": m,
            "percent": shown(percent(w, all_w)),
        }
    return found
