"""What a metric is, and what is counted of facts.

Rule: a number is made alike for a period and for the one before, for one person and for everybody;
where there is nothing to measure it is None, never 0.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from channelstats.counting import JOINED, LEFT
from channelstats.facts.facts import AUTHOR, CHANNEL, Slice
from channelstats.metrics.quantities import Formula, Quantity
from channelstats.metrics.table import Column, Kind


class Aggregate(NamedTuple):
    """What is counted over the rows of a table of facts; each is of the person in a column.
    ``absent`` is what it is where there is no row.
    """

    table: str
    value: pl.Expr
    person: str = AUTHOR
    absent: int | None = 0


STARTS_THREAD: Final = pl.col("reply_count") > 0
COUNT: Final = pl.len().cast(pl.Int64)


def nearest_rank(percentile: int) -> pl.Expr:
    """The smallest of the column `seconds` that at least this many per cent do not exceed."""
    known = pl.col("seconds").drop_nulls()
    return known.sort().get((percentile * known.len() + 99) // 100 - 1, null_on_oob=True)


def _sum(column: str | pl.Expr) -> pl.Expr:
    return (pl.col(column) if isinstance(column, str) else column).sum().cast(pl.Int64)


def _distinct(*columns: str) -> pl.Expr:
    what = pl.col(columns[0]) if len(columns) == 1 else pl.struct(columns)
    return what.n_unique().cast(pl.Int64)


AGGREGATES: Final[Mapping[str, Aggregate]] = {
    "messages": Aggregate("messages", COUNT),
    "words": Aggregate("messages", _sum("word_count")),
    "posters": Aggregate("messages", _distinct(AUTHOR)),
    "channels": Aggregate("messages", _distinct(CHANNEL)),
    "places": Aggregate("messages", _distinct(CHANNEL, AUTHOR)),
    "files": Aggregate("messages", _sum("file_count")),
    "threads_started": Aggregate("messages", _sum(STARTS_THREAD)),
    "replies": Aggregate("messages", _sum("is_reply")),
    "top_level": Aggregate("messages", _sum(~pl.col("is_reply"))),
    "replies_received": Aggregate("messages", _sum("reply_count")),
    "reactions": Aggregate("messages", _sum("reaction_count")),
    "reacted_to": Aggregate("messages", _sum(pl.col("reaction_count") > 0)),
    "reactions_given": Aggregate("reactions", COUNT, "reactor"),
    "times_used": Aggregate("reactions", COUNT),
    "emoji": Aggregate("reactions", _distinct("emoji")),
    "emoji_each": Aggregate("reactions", _distinct(AUTHOR, "emoji")),
    "answers": Aggregate("replies", COUNT, "parent"),
    "answers_given": Aggregate("replies", COUNT),
    "unanswered": Aggregate("conversations", _sum("unanswered")),
    "answered": Aggregate("conversations", _sum(pl.col("seconds").is_not_null())),
    "first_reply": Aggregate("conversations", nearest_rank(50), absent=None),
    "first_reply_p90": Aggregate("conversations", nearest_rank(90), absent=None),
    "joins": Aggregate("moves", _sum(pl.col("subtype").is_in(JOINED))),
    "leaves": Aggregate("moves", _sum(pl.col("subtype").is_in(LEFT))),
}
"""By name what formulas are made of. Of a query by something `all_` with a name is that of all its
rows together, `sum_` of all rows up to this one, in the order of that.
"""

Measure: TypeAlias = Callable[[Slice], Quantity | None]


class Metric(NamedTuple):
    """``about`` says what the title means, "" where that says so itself. It is a ``formula`` over
    aggregates, and so asked for by anything that these have, or it is a ``measure`` of a whole
    choice, with its values ``by_point`` of the period where it has any; what only tells something
    of a row is neither.

    ``key`` is what it is called in JSON and in goals; ``own`` takes its place where one person is
    chosen. For ``less_is_better`` and ``listed`` see `Tile`; ``is_mean``: beside a person stands
    the mean of all posters, as of every count.
    """

    name: str
    title: str
    about: str = ""
    kind: Kind = Kind.COUNT
    formula: Formula | None = None
    measure: Measure | None = None
    by_point: Callable[[Slice], list[float | None]] | None = None
    key: str = ""
    own: "Metric | None" = None
    less_is_better: bool = False
    is_mean: bool = False
    listed: str = ""

    def shown(self, person: str) -> "Metric":
        """What is said of it, with a person or without one."""
        return self.own if person and self.own else self

    def column(self, key: str = "", *, bar: bool = False) -> Column:
        """It as a column, under its name or under a key."""
        return Column(
            key or self.key,
            self.title,
            self.kind,
            bar=bar,
            about=self.about,
            listed=self.listed,
        )
