"""The numbers of one period, before they are shown or compared.

Rule: made alike for a period and for the one before, each when it is first asked for.
"""

from functools import cached_property

import polars as pl

from channelstats.stats import volume
from channelstats.stats.authors import Author, all_authors
from channelstats.stats.channels import ChannelTalk, all_channels, channel_authors
from channelstats.stats.people import GROUPS, Dealings
from channelstats.stats.quantities import Quantity
from channelstats.stats.talk import Said
from channelstats.tables.configuration import Counts


class Measures:
    """See the module. ``first_posts`` has the columns `slack_uid` and `ts` (microseconds)."""

    def __init__(self, said: Said, counts: Counts, first_posts: pl.DataFrame) -> None:
        self.said = said
        self._counts = counts
        self._first_posts = first_posts

    @cached_property
    def authors(self) -> list[Author]:
        """Everybody with an entry."""
        return all_authors(self.said)

    @cached_property
    def posters(self) -> list[Author]:
        """Those who posted, ranked by words."""
        return [author for author in self.authors if author.m]

    @cached_property
    def channels(self) -> list[ChannelTalk]:
        return all_channels(self.said)

    @cached_property
    def channel_authors(self) -> pl.DataFrame:
        return channel_authors(self.said)

    @cached_property
    def dealings(self) -> Dealings:
        return Dealings(self.said)

    @cached_property
    def volume(self) -> volume.Volume:
        by_words = self.posters
        by_messages = sorted(by_words, key=lambda author: (-author.m, -author.w, author.slack_uid))
        return volume.Volume(
            counts=self._counts,
            first_time_posters=volume.first_time_posters(self._first_posts, self.said.period),
            by_messages=[author.slack_uid for author in by_messages],
            by_words=[author.slack_uid for author in by_words],
            messages_each=[author.m for author in by_messages],
            words_each=[author.w for author in by_words],
        )

    @cached_property
    def statistics(self) -> dict[str, Quantity]:
        return {name: figure(self.volume) for name, figure in volume.STATISTICS.items()}

    @cached_property
    def groups(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Of each people group, by user: how often in all, and how many people."""
        return {name: _sizes(self.dealings.group(name)) for name in GROUPS}


def _sizes(group: pl.DataFrame) -> dict[str, tuple[int, int]]:
    sizes = group.group_by("uid").agg(total=pl.col("n").sum(), people=pl.len())
    return {uid: (total, people) for uid, total, people in sizes.iter_rows()}
