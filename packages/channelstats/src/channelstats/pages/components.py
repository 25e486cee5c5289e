"""Tiles, lines and tables that several views have, and rankings of channels and people.

Rule: a chart of time or steps and its table are made of the same values; a table is made from
charts, never the other way round. Of a ranking the most messages are first, then the most words,
then by ID; shares and changes are those of everything, whatever rows are shown.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl
from msgspec.structs import replace

from channelstats.days import Calendar
from channelstats.facts.periods import axis, labels, points
from channelstats.metrics.metric import Metric
from channelstats.metrics.quantities import Quantity, ratio, shown
from channelstats.metrics.query import Scope, column_of, compared, measured, over_time, parts_of
from channelstats.metrics.registry import BY, METRICS
from channelstats.metrics.table import Column, Kind, Table
from channelstats.metrics.volume import volume
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Series, SeriesChart, Tile
from channelstats.tables.columns import timestamps

MOST_MESSAGES: Final = 100
"""Messages in a list."""

NOTHING: Final[Mapping[str, Metric]] = {}
BEFORE: Final = "before"
EVERYONE: Final = "everyone"

Values = Sequence[float | None]


def tiles(scope: Scope, *metrics: Metric) -> tuple[Tile, ...]:
    """Metrics against those before, and against everybody's when a person is chosen: counts and
    means are then divided by the posters.
    """
    now, before = (measured(part, *metrics) for part in scope)
    everyone = measured(scope.now.whole, *metrics) if scope.person else [None] * len(metrics)
    return tuple(map(_tile, [scope] * len(metrics), metrics, now, before, everyone))


def _tile(
    scope: Scope,
    metric: Metric,
    now: Quantity | None,
    before: Quantity | None,
    everyone: Quantity | None,
) -> Tile:
    if everyone is not None and (metric.is_mean or metric.kind is Kind.COUNT):
        heads = volume(scope.now.whole).posters
        everyone = ratio(everyone.numerator, everyone.denominator * heads)
    said = metric.shown(scope.person)
    return Tile(
        metric.key,
        said.title,
        metric.kind,
        None if now is None else scope.change(now, before),
        everyone=None if everyone is None else shown(everyone),
        less_is_better=metric.less_is_better,
        about=said.about,
        listed=metric.listed,
    )


def lines_of(scope: Scope, metric: Metric, name: str = "") -> SeriesChart:
    """A metric over the period, with the period before behind it, point by point."""
    drawn, said = points(scope.now.period), metric.shown(scope.person)
    values = (
        over_time(scope.now, metric),
        over_time(scope.before, metric),
        over_time(scope.now.whole, metric) if scope.person else None,
    )
    return SeriesChart(
        "lines",
        name or metric.key,
        said.title,
        axis=axis(drawn),
        labels=labels(drawn),
        kind=metric.kind,
        series=compared_series(scope, metric.kind, *values),
        about=said.about,
    )


def compared_series(
    scope: Scope, kind: Kind, now: Values, before: Values, everyone: Values | None
) -> tuple[Series, ...]:
    """The period, the one before where that can be compared, and what everybody did: of a count the
    mean per poster.
    """
    series = [Series("now", "This period", tuple(now))]
    if scope.is_meaningful:
        series.append(Series(BEFORE, scope.before_title, tuple(before), faint=True))
    if everyone is not None:
        title = "Everyone"
        if kind is Kind.COUNT:
            title, heads = "Average per poster", max(volume(scope.now.whole).posters, 1)
            everyone = [None if value is None else value / heads for value in everyone]
        series.append(Series(EVERYONE, title, tuple(everyone), faint=True))
    return tuple(series)


def together(metric: Metric, charts: Mapping[str, SeriesChart]) -> SeriesChart:
    """One chart of the same days: of each only the period, by the names of their lines."""
    first = next(iter(charts.values()))
    series = tuple(
        Series(key, chart.title, chart.series[0].values) for key, chart in charts.items()
    )
    return replace(first, name=metric.name, title=metric.title, about=metric.about, series=series)


def table(
    name: str,
    title: str,
    rows: pl.DataFrame,
    metrics: Mapping[str, Metric] = NOTHING,
    *,
    bar: str = "",
    whole: str = "",
    about: str = "",
) -> Table:
    """A frame as a table: its columns are those of the frame, each the metric of its name or one of
    ``metrics``. ``bar`` is the one that is drawn. For the others see `Table`.
    """
    columns = tuple(
        (metrics.get(key) or METRICS[key]).column(key, bar=key == bar) for key in rows.columns
    )
    return Table(name, title, columns, rows, whole, about)


def table_of(name: str, title: str, charts: Mapping[str, SeriesChart]) -> Table:
    """The numbers of charts of the same labels, by the names of their columns."""
    columns = {
        _column(METRICS[key], series): series
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
    columns = {column.name: line.values for column, line in series.items()}
    values = {label.name: chart.labels, **columns}
    return Table(name, title, (label, *series), pl.DataFrame(values, strict=False))


def _column(metric: Metric, series: Series) -> Column:
    if not series.faint:
        return metric.column()
    kind = metric.kind
    if series.name == EVERYONE and kind is Kind.COUNT:
        kind = Kind.NUMBER
    title = f"{metric.title}, {series.title.lower()}"
    return Column(f"{metric.key}_{series.name}", title, kind)


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
    request: ViewRequest, name: str, title: str, count: str, counted_as: Metric
) -> Table:
    """The messages with the most of something, at most so many."""
    now = request.scope.now
    top = request.listable(now.top(count)).head(MOST_MESSAGES).collect()
    rows = top.select(
        "count",
        message=message_cells("slack_cid", "ts", "thread_ts"),
        channel="slack_cid",
        person="slack_uid",
        date=date_cells(top, now.period.zone),
    )
    return table(name, title, rows, {"count": counted_as, "person": BY}, bar="count")


# ── rankings ─────────────────────────────────────────────────────────────────────────────────────


class By(StrEnum):
    """What a row is about."""

    CHANNEL = "channel"
    PERSON = "person"


def _flag(name: str) -> pl.Expr:
    return pl.when(name).then(pl.lit(name)).otherwise(pl.lit(""))


_KNOWN: Final = {"new": _flag("new"), "private": _flag("private"), "members": pl.col("members")}
"""What is known of a channel beside its messages."""


def ranking(
    request: ViewRequest,
    by: By,
    *keys: str,
    title: str = "",
    name: str = "",
    where: pl.Expr | None = None,
    most: int | None = None,
    called: Mapping[str, Metric] = NOTHING,
    bar: str = "messages",
) -> Table:
    """A table of these metrics, a row for each channel or person, with the name ``name`` or that of
    its view, which has all rows where these are the first ``most``. ``where``: of the columns that
    metrics are made of. ``called`` are metrics in place of those of a key.
    """
    scope, view = request.scope, "channels" if by is By.CHANNEL else "people"
    metrics = {key: called.get(key) or METRICS[key] for key in keys}
    if by is By.PERSON:  # whoever is chosen, the place is that among all
        scope = scope._replace(now=scope.now.whole, before=scope.before.whole)
    rows = compared(scope, by, tuple(parts_of(tuple(metrics.values()))))
    if by is By.CHANNEL:
        known = request.data.known_channels.rename({"slack_cid": by})
        rows = request.listable(rows, by).join(known, on=by, how="left", maintain_order="left")
    rows = rows if where is None else rows.filter(where)
    whole = view if most and rows.height > most else ""
    columns = {
        key: _KNOWN[key] if key in _KNOWN else column_of(scope, metric)
        for key, metric in metrics.items()
    }
    first = {"rank": columns.pop("rank")} if "rank" in columns else {}
    cells = rows.head(most or rows.height).select(**first, **{str(by): pl.col(by)}, **columns)
    title = f"{view.capitalize()} with the most messages" if whole else title or view.capitalize()
    return table(name or view, title, cells, called, bar=bar, whole=whole)
