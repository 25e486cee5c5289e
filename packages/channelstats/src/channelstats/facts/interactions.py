"""Who interacts with whom: the people groups of everybody, what they received, where they post.

Rule: an entry is for every ID that posts, reacts, is mentioned or is answered, whether or not a
list of users knows it.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Final, Literal

import polars as pl

from channelstats.facts.facts import Slice
from channelstats.tables.columns import ID

Way = Literal["reactions", "mentions", "replies"]

_DOING: Final = ("one", "other")
"""Others that this one reacts to, mentions, answers."""
_DONE_TO: Final = ("other", "one")
"""Others that react to, mention, answer this one."""

GROUPS: Final[Mapping[str, tuple[Way, tuple[tuple[str, str], ...]]]] = {
    "reactions_from": ("reactions", (_DONE_TO,)),
    "reacted_to": ("reactions", (_DOING,)),
    "reactions_combined": ("reactions", (_DOING, _DONE_TO)),
    "author_thread_responded": ("replies", (_DOING,)),
    "thread_responders": ("replies", (_DONE_TO,)),
    "threads_combined": ("replies", (_DOING, _DONE_TO)),
    "you_mentioned": ("mentions", (_DOING,)),
    "mentioned_you": ("mentions", (_DONE_TO,)),
    "mentions_combined": ("mentions", (_DOING, _DONE_TO)),
}
"""Whom one interacts with in one way: by what, and from which sides."""


def interactions(part: Slice) -> "Interactions":
    """Those of a slice, whoever its person is."""
    return part.whole.once("interactions", lambda: Interactions(part.whole))


class Interactions:
    """Who of everybody interacted with whom: `one` did it to `other`, `n` times."""

    def __init__(self, whole: Slice) -> None:
        rows: dict[Way, pl.DataFrame] = {
            "reactions": whole.table("reactions").select(one="reactor", other="slack_uid"),
            "mentions": whole.table("mentions").select(one="slack_uid", other="mentioned"),
            "replies": whole.table("replies").select(one="slack_uid", other="parent"),
        }
        counted = (
            frame.lazy().with_columns(pl.lit(1, pl.Int64).alias(way)) for way, frame in rows.items()
        )
        self._pairs = _summed(pl.concat(counted, how="diagonal"), "one", "other")
        """Every two people, oneself too, with how often in each way; in no order."""

    def group(self, name: str) -> pl.DataFrame:
        """`uid`, `other`, `n` of a group, in no order."""
        way, sides = GROUPS[name]
        pairs = self._pairs.lazy().filter(pl.col(way) > 0)
        group = pl.concat(pairs.select(uid=one, other=other, n=way) for one, other in sides)
        return _summed(group, "uid", "other") if len(sides) > 1 else group.collect()

    def ranked(self, name: str) -> pl.DataFrame:
        """The same, the most first, then by `other`."""
        return self._by_id(self.group(name)).sort("n", "other", descending=[True, False])

    def sizes(self, name: str) -> pl.DataFrame:
        """Of a group, by `person`: how often (`<group>_total`), how many (`<group>_people`)."""
        total, people = pl.col("n").sum(), pl.len().cast(pl.Int64)
        pairs = self.group(name).group_by(person="uid")
        return pairs.agg(total.alias(f"{name}_total"), people.alias(f"{name}_people"))

    @cached_property
    def edges(self) -> pl.DataFrame:
        """Every way together, `n`, and each, without oneself; in no order."""
        edges = self._pairs.filter(pl.col("one") != pl.col("other"))
        return edges.with_columns(n=pl.sum_horizontal("reactions", "mentions", "replies"))

    def ranked_edges(self) -> pl.DataFrame:
        """The same by `one`, then the most first, then by `other`."""
        edges = self._by_id(self.edges.select("one", "other", "n"))
        return edges.sort("one", "n", "other", descending=[False, True, False])

    @cached_property
    def pairs(self) -> int:
        """How many two people interact, whether in one direction or in both."""
        one, other = (pl.col(end).to_physical() for end in ("one", "other"))
        ends = pl.min_horizontal(one, other), pl.max_horizontal(one, other)
        return int(self.edges.select(_number(*ends).n_unique()).item())

    def everybody(self) -> pl.Series:
        """Every ID that did something, or to whom something was done."""
        return pl.concat([self._pairs["one"], self._pairs["other"]]).unique()

    def _by_id(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """With IDs as an Enum, which is sorted in less time."""
        ids = pl.Enum(self.everybody().cast(pl.String).sort())
        return pairs.cast(dict.fromkeys(set(pairs.columns) & {"uid", "one", "other"}, ids))


def _number(first: pl.Expr, second: pl.Expr) -> pl.Expr:
    """Two numbers of 32 bits as one."""
    return first.cast(pl.UInt64) * 2**32 + second.cast(pl.UInt64)


def _summed(frame: pl.LazyFrame, one: str, other: str) -> pl.DataFrame:
    """The sums of every two people, by both as one number: that takes a fraction of the time."""
    codes = (pl.col(name).to_physical() for name in (one, other))
    pair = pl.col("pair")
    each = frame.select(pl.exclude(one, other), pair=_number(*codes))
    ids = {one: pair // 2**32, other: pair % 2**32}
    names = {name: code.cast(pl.UInt32).cat.to(ID) for name, code in ids.items()}
    sums = each.group_by("pair").agg(pl.all().sum())
    return sums.select(pl.exclude("pair"), **names).collect(engine="streaming")
