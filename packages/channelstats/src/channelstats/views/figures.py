"""The numbers of a period, one function each.

Rule: a number is made alike for a period and for the one before, for one person and for everybody;
where there is nothing to measure it is None, never 0.
"""

import polars as pl

from channelstats.stats import conversation
from channelstats.stats.quantities import Quantity, percent, ratio
from channelstats.views.comparison import Figure, Selection


def posters(of: Selection) -> int:
    return of.posters


def messages(of: Selection) -> int:
    return of.chosen.volume.messages


def words(of: Selection) -> int:
    return of.chosen.volume.words


def share_of_words(of: Selection) -> Quantity:
    """Of everybody's."""
    return percent(words(of), words(of.whole))


def threads_started(of: Selection) -> int:
    return of.messages.filter(conversation.STARTS_THREAD).height


def thread_share(of: Selection) -> Quantity:
    """How much of what is said is said in reply."""
    return percent(of.messages.filter("is_reply").height, of.messages.height)


def top_level(of: Selection) -> int:
    return of.messages.filter(~pl.col("is_reply")).height


def first_reply(percentile: int) -> Figure:
    return lambda of: conversation.nearest_rank(of.waits["seconds"].sort().to_list(), percentile)


def answered(of: Selection) -> int:
    """Heads that somebody else replied to."""
    return of.waits.height


def unanswered(of: Selection) -> int:
    return of.unanswered.height


def unanswered_share(of: Selection) -> Quantity | None:
    whole = top_level(of)
    return percent(unanswered(of), whole) if whole else None


def reactions(of: Selection) -> int:
    """Received, by the counts of messages."""
    return int(of.messages["reaction_count"].sum())


def reactions_given(of: Selection) -> int:
    return of.given.height


def reactions_per_thousand(of: Selection) -> Quantity:
    return ratio(1000 * reactions(of), words(of))


def answers_received(of: Selection) -> int:
    return of.answers.height


def top_ten(of: Selection) -> Quantity:
    """Of all words, those of the ten who wrote the most."""
    return of.chosen.statistics["topten words"]


def first_time_posters(of: Selection) -> int | None:
    """Unknown at the beginning of history, where everybody posts for the first time."""
    if not of.history.knows_newcomers(of.period):
        return None
    return of.chosen.volume.first_time_posters
