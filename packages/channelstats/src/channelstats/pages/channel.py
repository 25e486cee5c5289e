"""One channel: who carries it, how fast it answers, who is new in it, and how much is written there
beside others.
"""

from typing import Final

import msgspec
import polars as pl

from channelstats.metrics.quantities import ranked, shown
from channelstats.pages import figures
from channelstats.pages.components import over_time, table, table_of, tiles
from channelstats.pages.loading import Comparison, ViewRequest
from channelstats.pages.model import (
    ChoiceError,
    Column,
    Kind,
    Page,
    Section,
    Series,
    SeriesChart,
    Table,
)
from channelstats.pages.ranking import By, ranking
from channelstats.pages.threads import waiting_times
from channelstats.pages.todo import newcomer_section

MOST_COMPARED: Final = 4

_FIGURES: Final = (
    figures.POSTERS,
    figures.MESSAGES,
    figures.WORDS,
    figures.HALF,
    figures.FIRST_TIME,
    figures.FIRST_REPLY,
    figures.FIRST_REPLY_P90,
    figures.UNANSWERED,
    figures.UNANSWERED_SHARE,
    figures.REACTIONS,
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
        lines, compared = over_time(scope, figures.MESSAGES), []
        numbers = table_of("messages", "Messages", {"messages": lines})
    return request.page(
        "Who carries this channel, how soon it answers, and who is new in it.",
        Section.of(lines, numbers),
        waiting_times(request),
        *compared,
        Section.of(_carriers(request)),
        newcomer_section(request, "channel"),
        *([Section.of(_members(request))] if request.members else ()),
        tiles=tiles(scope, *_FIGURES),
    )


def _scope_of(request: ViewRequest, cid: str) -> Comparison:
    return request.data.scope(msgspec.structs.replace(request.choice, channel=cid))


def _beside_others(scopes: dict[str, Comparison]) -> tuple[SeriesChart, Table]:
    """Messages of each channel over time, as a chart and as a table of its numbers."""
    lines = {cid: over_time(scope, figures.MESSAGES) for cid, scope in scopes.items()}
    series = tuple(Series(cid, cid, of.series[0].values) for cid, of in lines.items())
    first = next(iter(lines.values()))
    chart = msgspec.structs.replace(first, series=series, series_kind=Kind.CHANNEL)
    day = first.axis.split()[0].lower()
    rows = [
        (label, of.name, number)
        for of in series
        for label, number in zip(first.labels, of.values, strict=True)
    ]
    frame = pl.DataFrame(rows, [day, "channel", "messages"], orient="row")
    numbers = table("messages", "Messages", frame.drop(day))
    columns = (Column(day, first.axis, Kind.DATE), *numbers.columns)
    return chart, msgspec.structs.replace(numbers, columns=columns, rows=frame)


def _figures_of(scopes: dict[str, Comparison]) -> Table:
    """The figures of each channel, a row each."""
    columns: dict[str, list[float | None]] = {}
    for figure in _FIGURES:
        found = (figure.measure(scope.now) for scope in scopes.values())
        columns[figure.key] = [None if of is None else shown(of) for of in found]
    frame = pl.DataFrame({"channel": list(scopes), **columns}, strict=False)
    by_key = {figure.key: figure for figure in _FIGURES}
    return table("compared", "Beside other channels", frame, by_key)


def _members(request: ViewRequest) -> Table:
    """Who is in the channel, the most messages first; who wrote none is there too."""
    wrote = request.scope.now.poster_frame.select(person="slack_uid", messages="m", words="w")
    rows = (
        pl.DataFrame({"person": request.members})
        .join(wrote.with_columns(pl.col("person").cast(pl.String)), on="person", how="left")
        .with_columns(pl.col("messages", "words").fill_null(0))
    )
    about = "Members when the list of members was last read, bots included."
    return table("members", "Members", ranked(rows, ["messages", "words"], "person"), about=about)


def _carriers(request: ViewRequest) -> Table:
    """Everybody who posted there, and whom they answered."""
    metrics = ("messages", "words", "share", "cumulative", "answers_given")
    title, posted = "Who carries this channel", pl.col("m") > 0
    return ranking(request, By.PERSON, *metrics, title=title, name="carriers", where=posted)
