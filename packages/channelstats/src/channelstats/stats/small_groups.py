"""Groups that are too small to hide in.

Rule: a channel or a time zone with fewer posters in the period than asked for is in no list and no
table, nor is a message of such a channel; figures of the whole stay as they are. Where fewer posted
in all, nobody is named who is not reported to.
"""

from functools import cached_property

import polars as pl

from channelstats.stats.measures import Measures


class SmallGroups:
    """Of one period. ``smallest`` is the fewest posters that a group must have; with 1 all are
    shown.
    """

    def __init__(self, now: Measures, smallest: int = 1) -> None:
        self._now = now
        self.smallest = smallest

    @property
    def hides(self) -> bool:
        """Whether anything could be hidden at all."""
        return self.smallest > 1

    @cached_property
    def posters(self) -> dict[str, int]:
        """How many people posted in each channel."""
        return dict(self._now.channel_frame.select("slack_cid", "posters").iter_rows())

    @cached_property
    def _shown(self) -> frozenset[str]:
        return frozenset(cid for cid, number in self.posters.items() if number >= self.smallest)

    @property
    def names_people(self) -> bool:
        """Whether enough posted in all for any of them to be named."""
        return not self.hides or self._now.volume.posters >= self.smallest

    def shows(self, cid: str) -> bool:
        """Whether a channel may be listed."""
        return not self.hides or cid in self._shown

    def shows_zone(self, posters: int) -> bool:
        """Whether a time zone of so many posters may be listed."""
        return posters >= self.smallest

    def listable(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows whose `slack_cid` may be listed."""
        if not self.hides:
            return frame
        return frame.filter(pl.col("slack_cid").is_in(sorted(self._shown)))
