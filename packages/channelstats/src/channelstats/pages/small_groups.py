"""Which groups of a period are too small to hide in.

Rule: a channel or a time zone with fewer posters is in no list and no table, nor is a message of
such a channel; figures of the whole stay as they are. Where fewer posted in all, nobody is named
who is not reported to.
"""

from functools import cached_property
from typing import TypeVar

import polars as pl

from channelstats.facts.facts import Slice
from channelstats.metrics.query import aggregated
from channelstats.metrics.volume import volume

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


class SmallGroups:
    """``smallest`` is the fewest posters that a group must have; with 1 all are shown."""

    def __init__(self, now: Slice, smallest: int = 1) -> None:
        self._now = now
        self.smallest = smallest

    @property
    def hides(self) -> bool:
        """Whether anything could be hidden at all."""
        return self.smallest > 1

    @cached_property
    def posters(self) -> dict[str, int]:
        """How many people posted in each channel."""
        channels = aggregated(self._now, ("channel",), ("messages", "words", "posters"))
        return dict(channels.select("channel", "posters").iter_rows())

    @cached_property
    def _shown(self) -> frozenset[str]:
        return frozenset(cid for cid, number in self.posters.items() if number >= self.smallest)

    @property
    def names_people(self) -> bool:
        """Whether enough posted in all for any of them to be named."""
        return not self.hides or volume(self._now).posters >= self.smallest

    def shows(self, cid: str) -> bool:
        """Whether a channel may be listed."""
        return not self.hides or cid in self._shown

    def listable(self, rows: Frame, channel: str = "slack_cid") -> Frame:
        """The rows whose channel may be listed."""
        return rows.filter(pl.col(channel).is_in(sorted(self._shown))) if self.hides else rows
