"""The numbers of one period, before they are shown or compared: frames, and the `statistics` of how
much was written, by how many, and how unevenly.

Rule: made alike for a period and for the one before, each when it is first asked for; "half"
is decided on whole numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

import msgspec
import polars as pl

from channelstats.identifiers import microseconds
from channelstats.stats.activity import Activity
from channelstats.stats.authors import Author, all_authors
from channelstats.stats.channels import ChannelVolume, all_channels, channel_authors
from channelstats.stats.inputs import Inputs
from channelstats.stats.interactions import GROUPS, Interactions
from channelstats.stats.messages import CountedMessages, PeriodMessages
from channelstats.stats.period import Period
from channelstats.stats.quantities import MESSAGES_THEN_WORDS, Quantity, percent, ranked, ratio
from channelstats.tables.configuration import Counts
from channelstats.tables.first_posts import earliest

_WORDS_ON_A_PAGE: Final = 500
_TOP: Final = 10


class Volume(msgspec.Struct, frozen=True):
    """What the figures are taken from. Authors are in the order of their ranking, and so are their
    messages and words.
    """

    counts: Counts
    first_time_posters: int
    by_messages: Sequence[str]
    by_words: Sequence[str]
    messages_each: Sequence[int]
    words_each: Sequence[int]

    @property
    def posters(self) -> int:
        return len(self.by_words)

    @property
    def messages(self) -> int:
        return sum(self.messages_each)

    @property
    def words(self) -> int:
        return sum(self.words_each)


STATISTICS: Final[Mapping[str, Callable[[Volume], Quantity]]] = {
    "posters": lambda of: of.posters,
    "active_users": lambda of: of.counts.active_users,
    "all_users": lambda of: of.counts.all_users,
    "% posting": lambda of: percent(of.posters, of.counts.active_users),
    "messages": lambda of: of.messages,
    "words": lambda of: of.words,
    "average messages": lambda of: ratio(of.messages, of.posters),
    "average words": lambda of: ratio(of.words, of.posters),
    "median messages": lambda of: median(of.messages_each),
    "median words": lambda of: median(of.words_each),
    "topten messages": lambda of: percent(sum(of.messages_each[:_TOP]), of.messages),
    "topten words": lambda of: percent(sum(of.words_each[:_TOP]), of.words),
    "50percent of messages": lambda of: half(of.messages_each),
    "50percent of words": lambda of: half(of.words_each),
    "pages": lambda of: of.words // _WORDS_ON_A_PAGE,
    "words per message": lambda of: ratio(of.words, of.messages),
    "words per poster": lambda of: ratio(of.words, of.posters),
    "messages per poster": lambda of: ratio(of.messages, of.posters),
    "first-time posters": lambda of: of.first_time_posters,
}
"""Names as the report has them, to what they mean."""

AUTHORS_OF_HALF: Final[Mapping[str, Callable[[Volume], list[str]]]] = {
    "50percent users for messages": lambda of: authors_of_half(of.by_messages, of.messages_each),
    "50percent users for words": lambda of: authors_of_half(of.by_words, of.words_each),
}


class Measures:
    """See the module. ``first_posts`` has the columns `slack_uid` and `ts` (microseconds)."""

    def __init__(
        self, period_messages: PeriodMessages, counts: Counts, first_posts: pl.DataFrame
    ) -> None:
        self.period_messages = period_messages
        self._counts = counts
        self.first_posts = first_posts

    @cached_property
    def author_frame(self) -> pl.DataFrame:
        """Everybody with an entry, with the columns of `Author`."""
        return all_authors(self.period_messages)

    @cached_property
    def authors(self) -> list[Author]:
        return [Author(*row) for row in self.author_frame.iter_rows()]

    @cached_property
    def poster_frame(self) -> pl.DataFrame:
        """Those who posted, ranked by words."""
        return self.author_frame.filter(pl.col("m") > 0)

    @cached_property
    def channel_frame(self) -> pl.DataFrame:
        """The channels in which something was said, with the columns of `ChannelVolume`."""
        return all_channels(self.period_messages)

    @cached_property
    def channels(self) -> list[ChannelVolume]:
        return [ChannelVolume(*row) for row in self.channel_frame.iter_rows()]

    @cached_property
    def channel_authors(self) -> pl.DataFrame:
        return channel_authors(self.period_messages)

    @cached_property
    def activity(self) -> Activity:
        return Activity(self.period_messages)

    @cached_property
    def interactions(self) -> Interactions:
        return Interactions(self.period_messages)

    @cached_property
    def volume(self) -> Volume:
        by_words = self.poster_frame
        by_messages = ranked(by_words, MESSAGES_THEN_WORDS, "slack_uid")
        return Volume(
            counts=self._counts,
            first_time_posters=first_time_posters(self.first_posts, self.period_messages.period),
            by_messages=by_messages["slack_uid"].to_list(),
            by_words=by_words["slack_uid"].to_list(),
            messages_each=by_messages["m"].to_list(),
            words_each=by_words["w"].to_list(),
        )

    @cached_property
    def statistics(self) -> dict[str, Quantity]:
        return {name: figure(self.volume) for name, figure in STATISTICS.items()}

    @cached_property
    def with_people(self) -> pl.DataFrame:
        """Everybody with an entry, and of each people group how often in all (`<group>_total`) and
        how many people (`<group>_people`).
        """
        found = self.author_frame
        for name in GROUPS:
            sizes = self.interactions.sizes(name)
            found = found.join(sizes, on="slack_uid", how="left", maintain_order="left")
        return found.fill_null(0)


def median(falling: Sequence[int]) -> int:
    """The middle of numbers in falling order, the lower one of two; 0 without any."""
    return falling[len(falling) // 2] if falling else 0


def half(falling: Sequence[int]) -> int:
    """How few of the largest make at least half of all; 0 where all is nothing."""
    total = sum(falling)
    if not total:
        return 0
    return next(
        number for number, reached in enumerate(accumulate(falling), 1) if 2 * reached >= total
    )


def authors_of_half(authors: Sequence[str], falling: Sequence[int]) -> list[str]:
    """Authors while they make at most half of all together, and the one who passes it."""
    total = sum(falling)
    if not total:
        return []
    up_to_half = sum(2 * reached <= total for reached in accumulate(falling))
    return list(authors[: up_to_half + 1])


def first_time_posters(first_posts: pl.DataFrame, period: Period) -> int:
    """How many first posts, in whole seconds, lie in a period."""
    return first_posts.filter(period.covers()).height


def first_posts_of(inputs: Inputs, counted_messages: CountedMessages) -> pl.DataFrame:
    """First posts of those whom the profile counts: `slack_uid`, `ts` in microseconds and
    `slack_cid`.
    """
    if inputs.first_posts is None:
        return earliest(counted_messages.counted)
    dropped = counted_messages.bots if counted_messages.counting.drops_bots else frozenset()
    known = {uid: post for uid, post in inputs.first_posts.items() if uid not in dropped}
    times = [microseconds(post.message_id) for post in known.values()]
    return pl.DataFrame(
        {
            "slack_uid": list(known),
            "ts": times,
            "slack_cid": [post.slack_cid for post in known.values()],
        },
        {"slack_uid": pl.String, "ts": pl.Int64, "slack_cid": pl.String},
    )
