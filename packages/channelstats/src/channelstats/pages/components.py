"""Tiles, lines and tables that several views have.

Rule: a chart of time or steps and its table are made of the same values; a table is made from
charts, never the other way round.
"""

from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl
from msgspec.structs import replace

from channelstats.days import Calendar
from channelstats.stats.messages import top_messages
from channelstats.facts.periods import axis, labels, points
from channelstats.metrics.quantities import ratio, shown
from channelstats.tables.columns import timestamps
from channelstats.metrics.registry import BY, FIGURES, Figure, Values
from channelstats.pages.loading import Comparison, ViewRequest
from channelstats.pages.model import (
    Column,
    Kind,
    Series,
    SeriesChart,
    Table,
    Tile,
)

MOST_MESSAGES: Final = 100
"""Messages in a list."""

NOTHING: Final[Mapping[str, Figure]] = {}
BEFORE: Final = "before"
EVERYONE: Final = "everyone"


def tiles(scope: Comparison, *figures: Figure) -> tuple[Tile, ...]:
    """Figures against those before, and against everybody's when a person is chosen: counts and
    means are then divided by the posters.
    """
    return tuple(_tile(scope, figure) for figure in figures)


def _tile(scope: Comparison, figure: Figure) -> Tile:
    now = figure.measure(scope.now)
    compared = None if now is None else scope.change(now, figure.measure(scope.before))
    everyone = figure.measure(scope.now.whole) if scope.person else None
    if everyone is not None and (figure.is_mean or figure.kind is Kind.COUNT):
        heads = scope.now.whole.volume.posters
        everyone = ratio(everyone.numerator, everyone.denominator * heads)
    said = figure.shown(scope.person)
    return Tile(
        figure.key,
        said.title,
        figure.kind,
        compared,
        everyone=None if everyone is None else shown(everyone),
        less_is_better=figure.less_is_better,
        about=said.about,
        listed=figure.listed,
    )


def over_time(scope: Comparison, figure: Figure, name: str = "") -> SeriesChart:
    """A figure over the period, with the period before behind it, point by point."""
    shown_points = points(scope.now.period)
    values = (
        figure.points(scope.now, shown_points),
        figure.points(scope.before, points(scope.before.period)),
        figure.points(scope.now.whole, shown_points) if scope.person else None,
    )
    said = figure.shown(scope.person)
    return SeriesChart(
        "lines",
        name or figure.key,
        said.title,
        axis=axis(shown_points),
        labels=labels(shown_points),
        kind=figure.kind,
        series=compared_series(scope, figure.kind, *values),
        about=said.about,
    )


def compared_series(
    scope: Comparison, kind: Kind, now: Values, before: Values, everyone: Values | None
) -> tuple[Series, ...]:
    """The period, the one before where that can be compared, and what everybody did: of a count the
    mean per poster.
    """
    found = [Series("now", "This period", tuple(now))]
    if scope.is_meaningful:
        found.append(Series(BEFORE, scope.before_title, tuple(before), faint=True))
    if everyone is not None:
        title = "Everyone"
        if kind is Kind.COUNT:
            title, heads = "Average per poster", max(scope.now.whole.volume.posters, 1)
            everyone = [None if value is None else value / heads for value in everyone]
        found.append(Series(EVERYONE, title, tuple(everyone), faint=True))
    return tuple(found)


def together(figure: Figure, charts: Mapping[str, SeriesChart]) -> SeriesChart:
    """One chart of the same days: of each only the period, by the names of their lines."""
    first = next(iter(charts.values()))
    series = tuple(Series(key, of.title, of.series[0].values) for key, of in charts.items())
    return replace(first, name=figure.name, title=figure.title, about=figure.about, series=series)


def table(
    name: str,
    title: str,
    rows: pl.DataFrame,
    figures: Mapping[str, Figure] = NOTHING,
    *,
    bar: str = "",
    whole: str = "",
    about: str = "",
) -> Table:
    """A frame as a table: its columns are those of the frame, each the figure of its name or one of
    ``figures``. ``bar`` is the one that is drawn. For the others see `Table`.
    """
    columns = tuple(
        (figures.get(of) or FIGURES[of]).column(of, bar=of == bar) for of in rows.columns
    )
    return Table(name, title, columns, rows, whole, about)


def table_of(name: str, title: str, charts: Mapping[str, SeriesChart]) -> Table:
    """The numbers of charts of the same labels, by the names of their columns."""
    columns = {
        _column(FIGURES[key], series): series
        for key, chart in charts.items()
        for series in chart.series
    }
    return series_table(name, title, next(iter(charts.values())), columns)


def series_table(
    name: str, title: str, chart: SeriesChart, series: Mapping[Column, Series]
) -> Table:
    """The numbers of series with the labels of a chart, each in its column."""
    kind = Kind.DATE if chart.is_over_time else Kind.TEXT
    label = Column(chart.axis.split()[0].lower(), chart.axis, kind)
    values = {label.name: chart.labels, **{key.name: of.values for key, of in series.items()}}
    return Table(name, title, (label, *series), pl.DataFrame(values, strict=False))


def _column(figure: Figure, series: Series) -> Column:
    if not series.faint:
        return figure.column()
    kind = figure.kind
    if series.name == EVERYONE and kind is Kind.COUNT:
        kind = Kind.NUMBER
    title = f"{figure.title}, {series.title.lower()}"
    return Column(f"{figure.name}_{series.name}", title, kind)


def message_cells(cid: str, ts: str, thread_ts: str = "") -> pl.Expr:
    """Cells of kind MESSAGE, of columns with times in microseconds."""
    thread = pl.lit("")
    if thread_ts:
        thread = pl.when(pl.col(thread_ts).is_null()).then(thread).otherwise(timestamps(thread_ts))
    return pl.format("{}/{}/{}", pl.col(cid), timestamps(ts), thread)


def date_cells(messages: pl.DataFrame, zone: ZoneInfo) -> pl.Series:
    """The dates of messages; it is fast where they are in the order of time."""
    calendar = Calendar(zone)
    return pl.Series([calendar.date(ts // 1_000_000) for ts in messages["ts"]], dtype=pl.String)


def message_table(
    request: ViewRequest, name: str, title: str, count: str, counted_as: Figure
) -> Table:
    """The messages with the most of something, at most so many."""
    now = request.scope.now
    found = request.listable(top_messages(now.period_messages, count)).head(MOST_MESSAGES)
    rows = found.select(
        "count",
        message=message_cells("slack_cid", "ts", "thread_ts"),
        channel="slack_cid",
        person="slack_uid",
        date=date_cells(found, now.period.zone),
    )
    return table(name, title, rows, {"count": counted_as, "person": BY}, bar="count")
