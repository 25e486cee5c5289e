"""The entries of the document for each user and each channel, as JSON text.

Rule: of these there may be hundreds of thousands, so a frame becomes text in columns and never
Python objects. What had no entry in the period before is new; what had one and nothing in it counts
as 0.
"""

from collections.abc import Iterator, Mapping

import msgspec
import polars as pl

from channelstats.stats.activity import Key, Step
from channelstats.stats.interactions import GROUPS
from channelstats.stats.json_text import (
    floats,
    joined,
    lists,
    mapping,
    mappings,
    object_of,
    objects,
    pairs,
    quoted,
    together,
    with_texts,
)
from channelstats.stats.measures import Measures, SmallGroups
from channelstats.stats.messages import (
    REACTED,
    REPLIED,
    TOP_MESSAGES,
    top_messages,
)
from channelstats.stats.quantities import (
    ColumnQuantity,
    Formula,
    before,
    beside,
    changes,
    counts,
    percent_of,
)
from channelstats.stats.rankings import (
    AUTHOR_FIGURES,
    AUTHORS_COMPARED,
    CHANNEL_FIGURES,
    CHANNELS_COMPARED,
    EMOJI_RATE,
    VOLUME_COMPARED,
    known_channels,
)
from channelstats.tables.columns import timestamps
from channelstats.tables.directory import Channel

_TOP_LISTS = {REACTED: "most_reacted", REPLIED: "most_replied"}


class Entries:
    """Of one period: of the channels that may be listed, with what is ``known`` of them."""

    def __init__(self, now: Measures, groups: SmallGroups, known: Mapping[str, Channel]) -> None:
        self._now = now
        self._messages = now.period_messages
        self._channel_frame = groups.listable(now.channel_frame)
        self._channel_authors = groups.listable(now.channel_authors)
        self._top = {
            count: groups.listable(top_messages(self._messages, count)) for count in _TOP_LISTS
        }
        self._known = known_channels(known, self._messages.period)

    # ── users ────────────────────────────────────────────────────────────────────────────────────

    def users(self) -> msgspec.Raw:
        return mapping(self._now.poster_frame, "slack_uid", pairs())

    def user_stats(self) -> msgspec.Raw:
        figures = {name: of.column().shown() for name, of in AUTHOR_FIGURES.items()}
        found = with_texts(
            self._now.author_frame,
            "slack_uid",
            *self._posting("slack_uid"),
        )
        fixed = objects(count=pl.concat_list("m", "w"), rank=pl.col("rank"), **figures)
        return mapping(found, "slack_uid", *joined(fixed, **_columns(*_POSTING)))

    def enriched_users(self) -> msgspec.Raw:
        interactions, posters = self._now.interactions, self._now.poster_frame
        everybody = pl.concat([interactions.everybody(), posters["slack_uid"]]).unique().sort()
        found = everybody.to_frame("slack_uid")
        for name in GROUPS:
            group = mappings(interactions.ranked(name), "uid", "other", **{name: pl.col("n")})
            found = with_texts(found, "slack_uid", group)
        found = with_texts(
            found,
            "slack_uid",
            self._emoji_of_each("slack_uid", posters),
            self._channels_of_authors(),
        )
        found = self._with_top_lists(found, "slack_uid")
        received = self._messages.reactions.group_by("slack_uid").agg(reaction_count=pl.len())
        found = found.join(received, on="slack_uid", how="left", maintain_order="left")
        text = object_of(
            **_columns(*GROUPS),
            reaction_popularity=pl.col("emoji"),
            reaction_count=pl.col("reaction_count").fill_null(0),
            emoji_rate=pl.col("emoji_rate"),
            reactions=pl.col("most_reacted"),
            replies=pl.col("most_replied"),
            enriched_channels=pl.col("enriched_channels"),
        )
        return mapping(found, "slack_uid", *text)

    def edges(self) -> msgspec.Raw:
        """Of `new_statistics`: who interacts with whom."""
        found = mappings(self._now.interactions.edge_frame, "one", "other", edges=pl.col("n"))
        return mapping(found, "one", pl.col("edges"))

    def _channels_of_authors(self) -> pl.DataFrame:
        """The channels in which each author has words, the most words first."""
        rows = (
            self._channel_authors.with_columns(all_w=pl.col("w").sum().over("slack_cid"))
            .filter(pl.col("w") > 0)
            .join(self._known, on="slack_cid", how="left")
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

    # ── channels ─────────────────────────────────────────────────────────────────────────────────

    def channels(self) -> msgspec.Raw:
        return mapping(self._channel_frame, "slack_cid", pairs())

    def channel_stats(self) -> msgspec.Raw:
        found = self._channel_frame.join(
            self._known, on="slack_cid", how="left", maintain_order="left"
        )
        text = objects(
            **{name: of.column().shown() for name, of in CHANNEL_FIGURES.items()},
            new=pl.col("new").fill_null(value=False),
            members=pl.col("members"),
        )
        return mapping(found, "slack_cid", text)

    def channel_users(self) -> msgspec.Raw:
        people = mappings(self._now.channel_authors, "slack_cid", "slack_uid", people=pairs())
        found = with_texts(self._channel_frame, "slack_cid", people)
        return mapping(found, "slack_cid", pl.col("people"))

    def enriched_channels(self) -> msgspec.Raw:
        found = with_texts(
            self._channel_frame,
            "slack_cid",
            self._emoji_of_each("slack_cid", self._channel_frame),
            *self._posting("slack_cid"),
        )
        text = joined(
            objects(reaction_count=pl.col("reaction_count")),
            reactions=pl.col("emoji"),
            **_columns("emoji_rate", *_TOP_LISTS.values(), *_POSTING),
        )
        return mapping(self._with_top_lists(found, "slack_cid"), "slack_cid", *text)

    # ── of people as of channels ─────────────────────────────────────────────────────────────────

    def top(self, count: str) -> msgspec.Raw:
        """The most reacted or replied messages: `[count, ts, channel, author, thread or null]`."""
        most = self._top[count].head(TOP_MESSAGES)
        return msgspec.Raw(f"[{','.join(most.select(_top_entry()).to_series())}]")

    def _with_top_lists(self, found: pl.DataFrame, whose: str) -> pl.DataFrame:
        for count, name in _TOP_LISTS.items():
            most = self._top[count].group_by(whose, maintain_order=True).head(TOP_MESSAGES)
            entries = most.select(whose, text=_top_entry())
            each = entries.group_by(whose, maintain_order=True).agg("text")
            texts = each.select(whose, lists(pl.col("text").list.join(",")).alias(name))
            found = with_texts(found, whose, texts, empty="[]")
        return found

    def _posting(self, whose: Key) -> Iterator[pl.DataFrame]:
        """When each posts: `posting_days` and `posting_hours`."""
        steps: dict[str, Step] = {"posting_days": "local_weekday", "posting_hours": "local_hour"}
        for name, step in steps.items():
            volumes = self._now.activity.of_each(whose, step)
            yield mappings(volumes, whose, step, **{name: pairs()})

    def _emoji_of_each(self, whose: str, words: pl.DataFrame) -> pl.DataFrame:
        """How often, `emoji`, and per 1000 words, `emoji_rate`; ``words`` has the `w` of each."""
        found = counts(self._messages.reactions, whose, "emoji").join(
            words.select(whose, "w"), on=whose, how="left", maintain_order="left"
        )
        rate = floats(EMOJI_RATE.column().shown())
        return mappings(found, whose, "emoji", emoji=pl.col("n"), emoji_rate=rate)


_POSTING = "posting_days", "posting_hours"


def _columns(*names: str) -> dict[str, pl.Expr]:
    return {name: pl.col(name) for name in names}


def _top_entry() -> pl.Expr:
    ts, thread = quoted(timestamps("ts")), quoted(timestamps("thread_ts"))
    written = quoted(pl.col("slack_cid")), quoted(pl.col("slack_uid"))
    return lists(pl.col("count"), ts, *written, pl.coalesce(thread, pl.lit("null")))


# ── against the period before ────────────────────────────────────────────────────────────────────


def compared_channels(now: Measures, then: Measures, groups: SmallGroups) -> msgspec.Raw:
    """`channels` of `compared`, each with its authors."""
    key = ["slack_cid", "slack_uid"]
    people = beside(now.channel_authors, then.channel_authors, *key)
    users = mappings(people, *key, users=objects(**_changes(VOLUME_COMPARED)))
    found = beside(groups.listable(now.channel_frame), then.channel_frame, "slack_cid")
    text = joined(objects(**_changes(CHANNELS_COMPARED)), users=pl.col("users"))
    return mapping(with_texts(found, "slack_cid", users), "slack_cid", *text)


def compared_users(now: Measures, then: Measures) -> msgspec.Raw:
    """`users` of `compared`, each with the people groups."""
    found = beside(now.with_people, then.with_people, "slack_uid")
    people = {
        name: together(total=_from_zero(f"{name}_total"), people=_from_zero(f"{name}_people"))
        for name in GROUPS
    }
    text = objects(**_changes(AUTHORS_COMPARED), people=together(**people))
    return mapping(found, "slack_uid", text)


def _changes(formulas: Mapping[str, Formula]) -> dict[str, pl.Expr]:
    return {
        name: changes(of.column(), of.column(before), pl.col("was"))
        for name, of in formulas.items()
    }


def _from_zero(column: str) -> pl.Expr:
    """The change of a column, from zero for one without an entry before."""
    return changes(ColumnQuantity(pl.col(column)), ColumnQuantity(before(column).fill_null(0)))
