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

Pairing = Literal["reactions", "mentions", "threads"]

_DOING: Final = ("one", "other")
"""Others that this one reacts to, mentions, answers."""
_DONE_TO: Final = ("other", "one")
"""Others that react to, mention, answer this one."""

GROUPS: Final[Mapping[str, tuple[Pairing, tuple[tuple[str, str], ...]]]] = {
    "reactions_from": ("reactions", (_DONE_TO,)),
    "reacted_to": ("reactions", (_DOING,)),
    "reactions_combined": ("reactions", (_DOING, _DONE_TO)),
    "author_thread_responded": ("threads", (_DOING,)),
    "thread_responders": ("threads", (_DONE_TO,)),
    "threads_combined": ("threads", (_DOING, _DONE_TO)),
    "you_mentioned": ("mentions", (_DOING,)),
    "mentioned_you": ("mentions", (_DONE_TO,)),
    "mentions_combined": ("mentions", (_DOING, _DONE_TO)),
}
"""Whom one interacts with in one way: by what, and from which sides."""


def interactions(part: Slice) -> "Interactions":
    """Those of a slice, whoever its person is."""
    return part.whole.once("interactions", lambda: Interactions(part))


class Interactions:
    """Who of everybody interacted with whom: `one` did it to `other`, `n` times."""

    def __init__(self, part: Slice) -> None:
        whole = part.whole
        rows: dict[Pairing, pl.DataFrame] = {
            "reactions": whole.table("reactions").select(one="reactor", other="slack_uid"),
            "mentions": whole.table("mentions").select(one="slack_uid", other="mentioned"),
            "threads": whole.table("replies").select(one="slack_uid", other="parent"),
        }
        everybody = pl.concat([column for frame in rows.values() for column in frame])
        ids = self._ids = pl.Enum(everybody.unique().cast(pl.String).sort())
        self._pairs = {
            name: _summed(frame.select(pl.all().cast(ids), n=pl.lit(1, pl.Int64)), "one", "other")
            for name, frame in rows.items()
        }
        self._groups: dict[str, pl.DataFrame] = {}

    def ranked(self, name: str) -> pl.DataFrame:
        """`uid`, `other`, `n` of a group, the most first, then by `other`; IDs are an Enum."""
        return self._group(name).sort("n", "other", descending=[True, False])

    def group(self, name: str) -> pl.DataFrame:
        """The same by `uid`; IDs are not an Enum."""
        pairs = self.ranked(name).sort("uid", maintain_order=True)
        return pairs.cast({"uid": ID, "other": ID})

    def pairs(self, name: str) -> pl.DataFrame:
        """The same in no order."""
        return self._group(name).cast({"uid": ID, "other": ID})

    def sizes(self, name: str) -> pl.DataFrame:
        """Of a group, by `person`: how often (`<group>_total`), how many (`<group>_people`)."""
        total, people = pl.col("n").sum(), pl.len().cast(pl.Int64)
        pairs = self._group(name).group_by(person="uid")
        return pairs.agg(total.alias(f"{name}_total"), people.alias(f"{name}_people")).cast(
            {"person": ID}
        )

    @cached_property
    def edge_frame(self) -> pl.DataFrame:
        """`one`, `other`, `n` of every way together, without oneself: by `one`, then the most
        first, then by `other`; IDs are an Enum, which is faster.
        """
        return self._edges.sort("one", "n", "other", descending=[False, True, False])

    @cached_property
    def _edges(self) -> pl.DataFrame:
        """In no order."""
        every = pl.concat(self._pairs.values())
        return _summed(every.filter(pl.col("one") != pl.col("other")), "one", "other")

    @cached_property
    def edges(self) -> pl.DataFrame:
        """The same in no order; IDs are not an Enum."""
        return self._edges.cast({"one": ID, "other": ID})

    @cached_property
    def directions(self) -> pl.Series:
        """Of every two people who interact, whether in one direction or in both: 1 or 2."""
        one, other = (pl.col(end).to_physical() for end in ("one", "other"))
        ends = pl.min_horizontal(one, other), pl.max_horizontal(one, other)
        pairs = self._edges.select(first=ends[0], second=ends[1])
        return pairs.group_by("first", "second").len()["len"]

    def everybody(self) -> pl.Series:
        """Every ID that did something, or to whom something was done."""
        return self._ids.categories.cast(ID)

    def _group(self, name: str) -> pl.DataFrame:
        """In no order."""
        if name not in self._groups:
            pairing, sides = GROUPS[name]
            pairs = self._pairs[pairing]
            group = pl.concat([pairs.select(uid=one, other=other, n="n") for one, other in sides])
            self._groups[name] = _summed(group, "uid", "other") if len(sides) > 1 else group
        return self._groups[name]


def _summed(frame: pl.DataFrame, *pair: str) -> pl.DataFrame:
    """The sums of every two people, by both as one number: that takes half as long."""
    first, second = (pl.col(name).to_physical().cast(pl.UInt64) for name in pair)
    pairs = frame.group_by(pair=first * 2**32 + second)
    return pairs.agg(pl.col(pair).first(), pl.col("n").sum()).drop("pair")
