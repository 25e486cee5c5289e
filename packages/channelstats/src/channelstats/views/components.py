"""Tiles, lines and tables that several views have.

Rule: a chart of time or steps and its table are made of the same values; a table is made from
charts, never the other way round.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import polars as pl

from channelstats.days import date_at
from channelstats.identifiers import timestamp
from channelstats.stats.messages import top_messages
from channelstats.stats.period import Period
from channelstats.stats.quantities import Quantity, ratio, shown
from channelstats.views.comparison import Comparison, Figure, Selection
from channelstats.views.model import Bars, Cell, Column, Kind, Lines, Series, Table, Tile
from channelstats.views.request import ViewRequest
from channelstats.views.time_buckets import axis, by_point, labels, points

Values: TypeAlias = Sequence[float | None]
PointFigure: TypeAlias = Callable[[Selection, Sequence[Period]], Values]
"""A number for each point of a period."""

MOST_MESSAGES: Final = 100
"""Messages in a list."""

BEFORE: Final = "before"
EVERYONE: Final = "everyone"


def tile(
    scope: Comparison,
    name: str,
    title: str,
    kind: Kind,
    figure: Figure,
    *,
    mean: bool = False,
    less_is_better: bool = False,
) -> Tile:
    """A figure against the one before, and against everybody's when a person is chosen: counts, or
    what is said to be a ``mean``, are then divided by the posters.
    """
    now = figure(scope.now)
    compared = None if now is None else scope.change(now, figure(scope.before))
    everyone = figure(scope.all_now) if scope.person else None
    if everyone is not None and (mean or kind is Kind.COUNT):
        everyone = per_poster(everyone, scope.all_now)
    mean_shown = None if everyone is None else shown(everyone)
    return Tile(name, title, kind, compared, mean_shown, less_is_better)


def per_poster(total: Quantity, of: Selection) -> Quantity:
    """The mean over those who posted."""
    return ratio(total.numerator, total.denominator * of.posters)


def counted(figure: pl.Expr) -> PointFigure:
    """A figure over the messages of each point; 0 without any."""
    return lambda of, shown_points: by_point(of.messages, shown_points, figure)


MESSAGES: Final = counted(pl.len())
WORDS: Final = counted(pl.col("word_count").sum())
POSTERS: Final = counted(pl.col("slack_uid").n_unique())
REACTIONS: Final = counted(pl.col("reaction_count").sum())


def over_time(scope: Comparison, name: str, title: str, kind: Kind, figure: PointFigure) -> Lines:
    """A figure over the period, with the period before behind it, point by point."""
    shown_points = points(scope.now.period)
    values = (
        figure(scope.now, shown_points),
        figure(scope.before, points(scope.before.period)),
        figure(scope.all_now, shown_points) if scope.person else None,
    )
    return Lines(
        name,
        title,
        axis=axis(shown_points),
        labels=labels(shown_points),
        kind=kind,
        series=compared_series(scope, kind, *values),
    )


def compared_series(
    scope: Comparison, kind: Kind, now: Values, before: Values, everyone: Values | None
) -> tuple[Series, ...]:
    """The period, the one before where that can be compared, and what everybody did: of a count the
    mean per poster.
    """
    found = [Series("now", "This period", tuple(now))]
    if scope.is_meaningful:
        found.append(Series(BEFORE, "Period before", tuple(before), faint=True))
    if everyone is not None:
        title = "Everyone"
        if kind is Kind.COUNT:
            title, heads = "Average per poster", max(scope.all_now.posters, 1)
            everyone = [None if value is None else value / heads for value in everyone]
        found.append(Series(EVERYONE, title, tuple(everyone), faint=True))
    return tuple(found)


def table_of(
    name: str, title: str, charts: Mapping[str, Lines | Bars], *, folded: bool = False
) -> Table:
    """The numbers of charts of the same labels, by the names of their columns; ``folded`` below the
    first of them.
    """
    first = next(iter(charts.values()))
    label = Kind.DATE if isinstance(first, Lines) else Kind.TEXT
    columns = [Column(first.axis.split()[0].lower(), first.axis, label)]
    values = []
    for key, chart in charts.items():
        for series in chart.series:
            columns.append(_column(key, chart.kind, series))
            values.append(series.values)
    rows = tuple(zip(first.labels, *values, strict=True))
    return Table(name, title, tuple(columns), rows, first.name if folded else "")


def _column(key: str, kind: Kind, series: Series) -> Column:
    title = key.replace("_", " ").capitalize()
    if not series.faint:
        return Column(key, title, kind)
    if series.name == EVERYONE and kind is Kind.COUNT:
        kind = Kind.NUMBER
    return Column(f"{key}_{series.name}", f"{title}, {series.title.lower()}", kind)


def message_cell(cid: str, ts: int, thread_ts: int | None) -> str:
    """A cell of kind MESSAGE; times are in microseconds."""
    thread = "" if thread_ts is None else timestamp(thread_ts)
    return f"{cid}/{timestamp(ts)}/{thread}"


def message_text(cid: str, ts: str) -> pl.Expr:
    """`message_cell` of a message outside threads, of columns."""
    seconds = (pl.col(ts) // 1_000_000).cast(pl.String).str.zfill(10)
    micros = (pl.col(ts) % 1_000_000).cast(pl.String).str.zfill(6)
    return pl.format("{}/{}.{}/", pl.col(cid), seconds, micros).alias("message")


def message_table(
    request: ViewRequest, name: str, title: str, count: str, counted_as: str
) -> Table:
    """The messages with the most of something, at most so many."""
    period = request.scope.now.period
    columns = (
        Column("count", counted_as, Kind.COUNT, bar=True),
        Column("message", "Message", Kind.MESSAGE),
        Column("channel", "Channel", Kind.CHANNEL),
        Column("person", "By", Kind.PERSON),
        Column("date", "Date", Kind.DATE),
    )
    found = request.listable(top_messages(request.scope.now.period_messages, count)).head(
        MOST_MESSAGES
    )
    rows: list[tuple[Cell, ...]] = []
    for number, ts, cid, uid, thread_ts in found.iter_rows():
        day = date_at(ts // 1_000_000, period.zone).isoformat()
        rows.append((number, message_cell(cid, ts, thread_ts), cid, uid, day))
    return Table(name, title, columns, tuple(rows) if request.names_people else ())
