"""When things are said, by the authors' own clocks.

Rule: every day counts, weekends too; an author without a time zone is in no figure, and a note says
how many there are.
"""

from typing import Final, NamedTuple

import polars as pl

from channelstats.days import WEEKDAYS
from channelstats.facts.facts import Slice
from channelstats.facts.periods import WEEK
from channelstats.metrics import registry
from channelstats.metrics.metric import Metric
from channelstats.metrics.query import BY_MESSAGES, aggregated, by_steps
from channelstats.metrics.table import Kind
from channelstats.pages.components import compared_series, table, table_of
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Heat, Page, Section, SeriesChart

HOURS: Final = range(24)

_NO_ZONES: Final = "Nobody who posted has a known time zone, so there are no local times."

HOUR_NAMES: Final = tuple(f"{hour:02d}:00" for hour in HOURS)


class _Steps(NamedTuple):
    """Hours or weekdays in their order: what a query calls them, numbers, names."""

    by: str
    axis: str
    numbers: tuple[int, ...]
    names: tuple[str, ...]


_BY_HOUR: Final = _Steps("hour", "Hour", tuple(HOURS), HOUR_NAMES)


def _weekdays(first: int) -> _Steps:
    numbers = tuple((first + step) % WEEK for step in range(WEEK))
    return _Steps("weekday", "Weekday", numbers, tuple(WEEKDAYS[day] for day in numbers))


def view(request: ViewRequest) -> Page:
    days = _weekdays(request.data.first_weekday)
    by_hour = _bars(request, _BY_HOUR, registry.MESSAGES, "hours", "Messages by hour")
    by_weekday = _bars(request, days, registry.MESSAGES, "weekdays", "Messages by weekday")
    words = [_bars(request, steps, registry.WORDS, "words", "Words") for steps in (_BY_HOUR, days)]
    return request.page(
        "When people write, by weekday and hour of their own local time.",
        heat_map(request),
        Section.of(by_hour, empty=_without_zones(request)),
        Section.of(by_weekday, empty=_without_zones(request)),
        Section.of(table_of("hours", "By hour", {"messages": by_hour, "words": words[0]})),
        Section.of(table_of("weekdays", "By weekday", {"messages": by_weekday, "words": words[1]})),
        notes=zone_notes(request),
    )


def _bars(
    request: ViewRequest, steps: _Steps, metric: Metric, name: str, title: str
) -> SeriesChart:
    def values(part: Slice) -> list[float | None]:
        return by_steps(part, metric, steps.by, steps.numbers)

    scope = request.scope
    everyone = values(scope.now.whole) if scope.person else None
    series = compared_series(scope, Kind.COUNT, values(scope.now), values(scope.before), everyone)
    return SeriesChart("bars", name, title, steps.axis, steps.names, Kind.COUNT, series)


def heat_map(request: ViewRequest) -> Section:
    """Messages by weekday and hour, as a picture and as a table that has the words too."""
    days = _weekdays(request.data.first_weekday)
    sizes = aggregated(request.scope.now, ("weekday", "hour"), ("messages", "words"))
    volumes = {(day, hour): (m, w) for day, hour, m, w in sizes.iter_rows()}
    cells = [[volumes.get((day, hour), (0, 0)) for hour in HOURS] for day in days.numbers]
    name, title = "week", registry.WEEK_HOURS.title
    heat = Heat(
        name,
        title,
        about=registry.WEEK_HOURS.about,
        rows=days.names,
        columns=HOUR_NAMES,
        values=tuple(tuple(m for m, _ in row) for row in cells),
        kind=Kind.COUNT,
    )
    rows = [
        (day, hour, m, w)
        for day, row in zip(days.names, cells, strict=True)
        for hour, (m, w) in zip(HOUR_NAMES, row, strict=True)
    ]
    frame = pl.DataFrame(rows, ["weekday", "hour", "messages", "words"], orient="row")
    return Section.of(heat, table(name, title, frame), empty=_without_zones(request))


def zone_notes(request: ViewRequest) -> tuple[str, ...]:
    """How many authors are left out of local times."""
    posters, without = _authors(request)
    if not without:
        return ()
    if without == posters:
        return (_NO_ZONES,)
    have = "has" if without == 1 else "have"
    who = f"{without:,} of {posters:,} people who posted {have} no known time zone"
    return (f"{who}: their messages are not counted here.",)


def _without_zones(request: ViewRequest) -> str:
    """What is said in place of a chart that is empty as no author has a time zone; "" otherwise."""
    posters, without = _authors(request)
    return _NO_ZONES if without and without == posters else ""


def _authors(request: ViewRequest) -> tuple[int, int]:
    """How many there are, and how many of them without a time zone."""
    now = request.scope.now
    authors = aggregated(now, ("person",), BY_MESSAGES)["person"]
    have_zone = authors.is_in(now.facts.zones["slack_uid"].implode())
    return authors.len(), int((~have_zone).sum())
