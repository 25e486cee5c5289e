"""The numbers of one period, before they are shown or compared.

Rule: made alike for a period and for the one before, each when it is first asked for.
"""

from functools import cached_property

import polars as pl

from channelstats.stats import volume
from channelstats.stats.activity import Activity
from channelstats.stats.authors import Author, all_authors
from channelstats.stats.channels import ChannelTalk, all_channels, channel_authors
from channelstats.stats.messages import PeriodMessages
from channelstats.stats.people import GROUPS, Interactions
from channelstats.stats.quantities import MESSAGES_THEN_WORDS, Quantity, ranked
from channelstats.tables.configuration import Counts


class Measures:
    """See the module. ``first_posts`` has the columns `slack_uid` and `ts` (microseconds)."""

    def __init__(self, said: PeriodMessages, counts: Counts, first_posts: pl.DataFrame) -> None:
        self.said = said
        self._counts = counts
        self.first_posts = first_posts

    @cached_property
    def author_frame(self) -> pl.DataFrame:
        """Everybody with an entry, with the columns of `Author`."""
        return all_authors(self.said)

    @cached_property
    def authors(self) -> list[Author]:
        return [Author(*row) for row in self.author_frame.iter_rows()]

    @cached_property
    def poster_frame(self) -> pl.DataFrame:
        """Those who posted, ranked by words."""
        return self.author_frame.filter(pl.col("m") > 0)

    @cached_property
    def channel_frame(self) -> pl.DataFrame:
        """The channels in which something was said, with the columns of `ChannelTalk`."""
        return all_channels(self.said)

    @cached_property
    def channels(self) -> list[ChannelTalk]:
        return [ChannelTalk(*row) for row in self.channel_frame.iter_rows()]

    @cached_property
    def channel_authors(self) -> pl.DataFrame:
        return channel_authors(self.said)

    @cached_property
    def activity(self) -> Activity:
        return Activity(self.said)

    @cached_property
    def dealings(self) -> Interactions:
        return Interactions(self.said)

    @cached_property
    def volume(self) -> volume.Volume:
        by_words = self.poster_frame
        by_messages = ranked(by_words, MESSAGES_THEN_WORDS, "slack_uid")
        return volume.Volume(
            counts=self._counts,
            first_time_posters=volume.first_time_posters(self.first_posts, self.said.period),
            by_messages=by_messages["slack_uid"].to_list(),
            by_words=by_words["slack_uid"].to_list(),
            messages_each=by_messages["m"].to_list(),
            words_each=by_words["w"].to_list(),
        )

    @cached_property
    def statistics(self) -> dict[str, Quantity]:
        return {name: figure(self.volume) for name, figure in volume.STATISTICS.items()}

    @cached_property
    def with_people(self) -> pl.DataFrame:
        """Everybody with an entry, and of each people group how often in all (`<group>_total`) and
        how many people (`<group>_people`).
        """
        found = self.author_frame
        for name in GROUPS:
            sizes = self.dealings.sizes(name)
            found = found.join(sizes, on="slack_uid", how="left", maintain_order="left")
        return found.fill_null(0)
