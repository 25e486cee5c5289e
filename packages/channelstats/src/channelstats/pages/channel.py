"""One channel: who carries it, how fast it answers, who is new in it, and how much is written there
beside others.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
import polars as pl

from channelstats.metrics import registry
from channelstats.metrics.quantities import ranked, shown
from channelstats.metrics.query import Scope, aggregated, measured
from channelstats.metrics.table import Column, Kind, Table
from channelstats.pages.components import By, lines_of, ranking, table, table_of, tiles
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import ChoiceError, Page, Section, Series, SeriesChart, Tile
from channelstats.pages.threads import waiting_times
from channelstats.pages.todo import newcomer_section

MOST_COMPARED: Final = 4

_FIGURES: Final = (
    registry.POSTERS,
    registry.MESSAGES,
    registry.WORDS,
    registry.HALF,
    registry.FIRST_TIME,
    registry.FIRST_REPLY,
    registry.FIRST_REPLY_P90,
    registry.UNANSWERED,
    registry.UNANSWERED_SHARE,
    registry.REACTIONS,
)


def view(request: ViewRequest) -> Page:
    scope, choice = request.scope, request.choice
    if not choice.channels:
        raise ChoiceError("channel: expected a name or an ID")
    if choice.group and choice.compare:
        raise ChoiceError("compare: expected one channel to compare with, not a group")
    if choice.compare:
        scopes = {cid: _scope_of(request, cid) for cid in (choice.channel, *choice.compare)}
        lines, numbers = _beside_others(scopes)
        compared = [Section.of(_figures_of(scopes))]
    else:
        lines, compared = lines_of(scope, registry.MESSAGES), []
        numbers = table_of("messages", "Messages", {"messages": lines})
    return request.page(
        "Who carries this channel, how soon it answers, and who is new in it.",
        Section.of(lines, numbers),
        waiting_times(request),
        *compared,
        Section.of(_carriers(request)),
        newcomer_section(request, "channel"),
        *([Section.of(_members(request))] if request.members.people else ()),
        tiles=(*tiles(scope, *_FIGURES), *_number_of_members(request)),
    )


def _scope_of(request: ViewRequest, cid: str) -> Scope:
    return request.data.scope(msgspec.structs.replace(request.choice, channel=cid))


def _beside_others(scopes: dict[str, Scope]) -> tuple[SeriesChart, Table]:
    """Messages of each channel over time, as a chart and as a table of its numbers."""
    lines = {cid: lines_of(scope, registry.MESSAGES) for cid, scope in scopes.items()}
    series = tuple(Series(cid, cid, line.series[0].values) for cid, line in lines.items())
    first = next(iter(lines.values()))
    chart = msgspec.structs.replace(first, series=series, series_kind=Kind.CHANNEL)
    day = first.axis.split()[0].lower()
    rows = [
        (label, line.name, number)
        for line in series
        for label, number in zip(first.labels, line.values, strict=True)
    ]
    frame = pl.DataFrame(rows, [day, "channel", "messages"], orient="row")
    numbers = table("messages", "Messages", frame.drop(day))
    columns = (Column(day, first.axis, Kind.DATE), *numbers.columns)
    return chart, msgspec.structs.replace(numbers, columns=columns, rows=frame)


def _figures_of(scopes: dict[str, Scope]) -> Table:
    """The figures of each channel, a row each."""
    keys = [metric.key for metric in _FIGURES]
    columns: dict[str, list[float | None]] = {key: [] for key in keys}
    for scope in scopes.values():
        for key, value in zip(keys, measured(scope.now, *_FIGURES), strict=True):
            columns[key].append(None if value is None else shown(value))
    frame = pl.DataFrame({"channel": list(scopes), **columns}, strict=False)
    by_key = dict(zip(keys, _FIGURES, strict=True))
    return table("compared", "Beside other channels", frame, by_key)


def _number_of_members(request: ViewRequest) -> Iterator[Tile]:
    """At the end of the period against its beginning, where they were counted by then."""
    scope, ends = request.scope, request.members.at_ends(request.scope.now.period)
    if ends:
        begin, end = ends
        metric = registry.MEMBERS_AT_END
        compared, listed = scope.change(end, begin), metric.listed if request.members.people else ""
        about = metric.about
        yield Tile(metric.key, metric.title, metric.kind, compared, about=about, listed=listed)


def _members(request: ViewRequest) -> Table:
    """Who is in the channel, the most messages first; who wrote none is there too."""
    wrote = aggregated(request.scope.now, ("person",), ("messages", "words"))
    rows = (
        pl.DataFrame({"person": request.members.people})
        .join(wrote.with_columns(pl.col("person").cast(pl.String)), on="person", how="left")
        .with_columns(pl.col("messages", "words").fill_null(0))
    )
    about = "Members when the list of members was last read, bots included."
    return table("members", "Members", ranked(rows, ["messages", "words"], "person"), about=about)


def _carriers(request: ViewRequest) -> Table:
    """Everybody who posted there, and whom they answered."""
    metrics = ("messages", "words", "share", "cumulative", "answers_given")
    title, posted = "Who carries this channel", pl.col("messages") > 0
    return ranking(request, By.PERSON, *metrics, title=title, name="carriers", where=posted)
