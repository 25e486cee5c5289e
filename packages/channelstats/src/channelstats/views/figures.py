"""The figures that several views show: what each is called, and how it is measured.

Rule: a number is made alike for a period and for the one before, for one person and for everybody;
where there is nothing to measure it is None, never 0.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from channelstats.counting import JOINED, LEFT
from channelstats.stats.conversation import STARTS_THREAD, how_many
from channelstats.stats.measures import Measures, nearest_rank
from channelstats.stats.period import Period, by_point
from channelstats.stats.quantities import Quantity, percent, ratio
from channelstats.views.glossary import kind_of, title_of
from channelstats.views.model import Kind

Measure: TypeAlias = Callable[[Measures], Quantity | None]
Values: TypeAlias = Sequence[float | None]
Points: TypeAlias = Callable[[Measures, Sequence[Period]], Values]
"""A number for each point of a period."""


class Figure(NamedTuple):
    """``measure`` takes it of a period, ``points`` of each point of one. ``called`` is its title
    where that is not the usual one of its name, ``called_own`` of one person; so is ``written``.
    For ``less_is_better`` and ``listed`` see `Tile`; ``is_mean``: beside a person stands the mean
    of all posters, as of every count.
    """

    name: str
    measure: Measure
    points: Points = lambda *_: ()
    called: str = ""
    called_own: str = ""
    written: Kind | None = None
    less_is_better: bool = False
    is_mean: bool = False
    listed: str = ""

    def title(self, person: str = "") -> str:
        return (person and self.called_own) or self.called or title_of(self.name)

    @property
    def kind(self) -> Kind:
        return self.written or kind_of(self.name)

    def named(self, name: str) -> "Figure":
        """The same by another name."""
        return self._replace(name=name, called=self.title(), written=self.kind)


def counted(figure: pl.Expr) -> Points:
    """A figure over the messages of each point; 0 without any."""
    return lambda of, shown_points: by_point(of.messages, shown_points, figure)


def messages(of: Measures) -> int:
    return of.volume.messages


def words(of: Measures) -> int:
    return of.volume.words


def reactions(of: Measures) -> int:
    """Received, by the counts of messages."""
    return int(of.messages["reaction_count"].sum())


def _unanswered_share(of: Measures) -> Quantity | None:
    top_level = how_many(of.messages, ~pl.col("is_reply"))
    return percent(of.unanswered.height, top_level) if top_level else None


def _first_time_posters(of: Measures) -> int | None:
    """Unknown at the beginning of history, where everybody posts for the first time."""
    return of.volume.first_time_posters if of.history.knows_newcomers(of.period) else None


def _moves(subtypes: frozenset[str]) -> tuple[Measure, Points]:
    """How often people joined or left a channel, in all and at each point."""
    which = pl.col("subtype").is_in(subtypes)
    return (
        lambda of: of.period_messages.moves.filter(which).height,
        lambda of, shown_points: by_point(of.period_messages.moves, shown_points, which.sum()),
    )


MESSAGES: Final = Figure("messages", messages, counted(pl.len()))
WORDS: Final = Figure("words", words, counted(pl.col("word_count").sum()))
WORDS_PER_MESSAGE: Final = Figure("words_per_message", lambda of: ratio(words(of), messages(of)))
WORDS_PER_POSTER: Final = Figure("words_per_poster", lambda of: ratio(words(of), of.volume.posters))
POSTERS: Final = Figure(
    "posters",
    lambda of: of.volume.posters,
    counted(pl.col("slack_uid").n_unique()),
    listed="people/people",
    called="People who posted",
)
FIRST_TIME: Final = Figure("first_time", _first_time_posters, listed="todo/newcomers")
SHARE_OF_WORDS: Final = Figure(
    "share_of_words", lambda of: percent(words(of), words(of.whole)), is_mean=True
)
TOP_TEN: Final = Figure("top_ten", lambda of: of.statistics["topten words"])

FILES: Final = Figure("files", lambda of: int(of.messages["file_count"].sum()))
JOINS: Final = Figure("joins", *_moves(JOINED))
LEAVES: Final = Figure("leaves", *_moves(LEFT))

THREADS_STARTED: Final = Figure("threads_started", lambda of: how_many(of.messages, STARTS_THREAD))
REPLIES: Final = Figure(
    "replies",
    lambda of: percent(how_many(of.messages, pl.col("is_reply")), of.messages.height),
    called="% replies",
    written=Kind.PERCENT,
)
FIRST_REPLY: Final = Figure(
    "first_reply",
    lambda of: of.wait(50),
    lambda of, shown_points: by_point(of.waits, shown_points, nearest_rank(50), absent=None),
    less_is_better=True,
)
FIRST_REPLY_P90: Final = Figure("first_reply_p90", lambda of: of.wait(90), less_is_better=True)
UNANSWERED: Final = Figure(
    "unanswered", lambda of: of.unanswered.height, less_is_better=True, listed="todo/unanswered"
)
UNANSWERED_SHARE: Final = UNANSWERED._replace(name="unanswered_share", measure=_unanswered_share)

REACTIONS: Final = Figure(
    "reactions",
    reactions,
    counted(pl.col("reaction_count").sum()),
    called_own="Reactions received",
)
REACTIONS_GIVEN: Final = Figure("reactions_given", lambda of: of.given.height)
ANSWERS: Final = Figure(
    "answers",
    lambda of: of.answers.height,
    called="Replies to others",
    called_own="Replies to their threads",
)
