"""Who is new, who posts again, and who stopped.

Rule: somebody is new in the week of their first message anywhere. Weeks are whole ones, counted
back from the last day; fewer than seven days are seen as the week that ends with them.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import polars as pl

from channelstats.stats.conversation import comings, posters
from channelstats.stats.period import MONTH, WEEK, Period
from channelstats.stats.quantities import Quantity, percent, shown
from channelstats.views import figures
from channelstats.views.comparison import Selection
from channelstats.views.components import EVERYONE, tile
from channelstats.views.model import Cell, Column, Heat, Kind, Lines, Series, Table, Tile
from channelstats.views.request import ViewContent, ViewRequest
from channelstats.views.time_buckets import labels, weeks, with_point

_FOUR: Final = MONTH // WEEK
_TITLES: Final = {
    "both": "Retained",
    "new": "First-time",
    "returning": "Returning",
    "lapsed": "Lapsed",
}


class Week(msgspec.Struct, frozen=True):
    """One week: its posters, those of the four that end with it, and who came and went."""

    posters: int
    monthly: int
    both: int
    new: int | None
    returning: int
    lapsed: int
    rate: float | None


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    now = scope.now
    shown_weeks = weeks(now.period.ending_with(max(now.period.days // WEEK, 1) * WEEK))
    first = dict(request.data.measured.first_posts.select("slack_uid", "ts").iter_rows())
    found = _weeks(now, shown_weeks, first)

    def lines(name: str, title: str, kind: Kind, *series: Series) -> Lines:
        return Lines(name, title, "Week from", labels(shown_weeks), kind, series)

    def values(field: str) -> tuple[float | None, ...]:
        return tuple(getattr(week, field) for week in found)

    people = [Series(name, title, values(name)) for name, title in _TITLES.items()]
    rates = [Series("rate", "Weekly retention", values("rate"))]
    if scope.person:
        of_all = tuple(week.rate for week in _weeks(scope.all_now, shown_weeks, first))
        rates.append(Series(EVERYONE, "Everyone", of_all, faint=True))
    active = [
        Series("weekly", "In the week", values("posters")),
        Series("monthly", "In four weeks", values("monthly")),
    ]
    charts = [
        lines("comings", "Retained, first-time, returning and lapsed posters", Kind.COUNT, *people),
        lines("retention", "Weekly retention", Kind.PERCENT, *rates),
        lines("active", "Weekly and monthly posters", Kind.COUNT, *active),
    ]
    members = () if scope.person or request.choice.channel else _members(request, shown_weeks)
    if members:
        title = "Members of the workspace"
        charts.append(lines("members", title, Kind.COUNT, Series("members", title, members)))
    heat, cohorts = _cohorts(request)
    return ViewContent(
        lead="How many people post for the first time, how many keep posting, and how many stop.",
        tiles=_tiles(request),
        charts=(*charts, heat),
        tables=(_table(charts), cohorts),
        notes=_notes(now.period),
    )


def _members(request: ViewRequest, shown_weeks: list[Period]) -> tuple[float | None, ...]:
    """How many there were at the end of each week, by the last count up to then; empty where they
    were counted in fewer than two of the weeks, as one count is no development.
    """
    counts = request.data.inputs.counts
    taken = sorted(day for day, found in counts.items() if found.active_humans)
    if sum(any(week.start <= day <= week.last for day in taken) for week in shown_weeks) < 2:
        return ()
    ends = (bisect_right(taken, week.last) for week in shown_weeks)
    return tuple(counts[taken[end - 1]].active_humans if end else None for end in ends)


def _weeks(of: Selection, shown_weeks: list[Period], first: Mapping[str, int]) -> list[Week]:
    """Of each week shown; ``first`` are everybody's first posts in microseconds."""
    reach = shown_weeks[-1].ending_with((len(shown_weeks) + _FOUR - 1) * WEEK)
    who: list[set[str]] = [set() for _ in weeks(reach)]
    posted = (
        with_point(of.period_messages.source.counted, weeks(reach))
        .select("point", "slack_uid")
        .unique()
    )
    for point, uids in posted.group_by("point").agg("slack_uid").iter_rows():
        who[point] = set(uids)
    found = []
    for number, week in enumerate(shown_weeks, _FOUR - 1):
        now, then = who[number], who[number - 1]
        found.append(
            Week(
                posters=len(now),
                monthly=len(set().union(*who[number - _FOUR + 1 : number + 1])),
                rate=shown(percent(len(now & then), len(then))) if then else None,
                **comings(now, then, first, week),
            )
        )
        if not of.history.knows_newcomers(week):
            found[-1] = msgspec.structs.replace(found[-1], new=None)
    return found


def _table(charts: Sequence[Lines]) -> Table:
    """Every series of the charts, a row per week."""
    every = [(chart.kind, series) for chart in charts for series in chart.series]
    columns = [Column("week", "Week from", Kind.DATE)]
    columns += [Column(series.name, series.title, kind) for kind, series in every]
    values = zip(*(series.values for _, series in every), strict=True)
    rows = tuple((week, *row) for week, row in zip(charts[0].labels, values, strict=True))
    return Table("weeks", "By week", tuple(columns), rows)


def _cohorts(request: ViewRequest) -> tuple[Heat, Table]:
    """Of those who began in each of the last weeks, how many posted in each week since."""
    now = request.scope.now
    number = request.data.cohorts
    shown_weeks = weeks(now.period.ending_with(number * WEEK))
    began = with_point(now.chosen.first_posts, shown_weeks).select("slack_uid", began="point")
    posted = (
        with_point(now.period_messages.source.counted, shown_weeks)
        .select("slack_uid", "point")
        .unique()
    )
    since = (pl.col("point") - pl.col("began")).alias("since")
    staying = began.join(posted, on="slack_uid").group_by("began", since).agg(n=pl.len())
    sizes = dict(began.group_by("began").agg(n=pl.len()).iter_rows())
    found = {(week, step): n for week, step, n in staying.iter_rows()}

    def cell(week: int, step: int) -> float | None:
        size = sizes.get(week, 0)
        if not size or week + step >= number:
            return None
        return shown(percent(found.get((week, step), 0), size))

    steps = range(number)
    values = [tuple(cell(week, step) for step in steps) for week in steps]
    name, title = "cohorts", "Newcomers still posting"
    heat = Heat(
        name,
        title,
        rows=labels(shown_weeks),
        columns=tuple(f"Week {step + 1}" for step in steps),
        values=tuple(values),
        kind=Kind.PERCENT,
    )
    columns = (
        Column("week", "First message in the week from", Kind.DATE),
        Column("newcomers", "Newcomers", Kind.COUNT),
        *(Column(f"week_{step + 1}", f"Week {step + 1}", Kind.PERCENT) for step in steps),
    )
    rows: list[tuple[Cell, ...]] = [
        (label, sizes.get(week, 0), *values[week]) for week, label in enumerate(heat.rows)
    ]
    return heat, Table(name, title, columns, tuple(rows), chart=name)


# ── tiles ────────────────────────────────────────────────────────────────────────────────────────


def _tiles(request: ViewRequest) -> tuple[Tile, ...]:
    scope = request.scope
    stayed = tile(scope, "stayed", "Retention", Kind.PERCENT, _stayed)
    if scope.person:
        active = tile(scope, "weeks_active", "Active weeks", Kind.COUNT, _active_weeks)
        return (active, stayed)
    return (
        tile(scope, "first_time", "First-time posters", Kind.COUNT, figures.first_time_posters),
        stayed,
        tile(scope, "weekly", "Weekly posters", Kind.COUNT, _weekly),
        tile(scope, "monthly", "Monthly posters", Kind.COUNT, _monthly),
        tile(
            scope,
            "weekly_of_monthly",
            "Stickiness (weekly / monthly posters)",
            Kind.PERCENT,
            lambda of: percent(_weekly(of), _monthly(of)) if _monthly(of) else None,
        ),
    )


def _active_weeks(of: Selection) -> int:
    """Weeks in which the person posted; without one, of everybody summed up."""
    return with_point(of.messages, weeks(of.period)).select("slack_uid", "point").n_unique()


def _stayed(of: Selection) -> Quantity | None:
    """Of the last week against the one before it, as in the table of weeks."""
    week = of.period.ending_with(WEEK)
    counted = of.period_messages.source.counted
    now, then = (set(counted.filter(days.covers())["slack_uid"]) for days in (week, week.previous))
    return percent(len(now & then), len(then)) if then else None


def _weekly(of: Selection) -> int:
    return posters(of.period_messages.source, of.period.ending_with(WEEK))


def _monthly(of: Selection) -> int:
    return posters(of.period_messages.source, of.period.ending_with(MONTH))


def _notes(period: Period) -> tuple[str, ...]:
    first = "A first message is the first one that was read; earlier ones may not be known."
    over = period.days % WEEK
    if period.days < WEEK or not over:
        return (first,)
    days = "day is" if over == 1 else f"{over} days are"
    return (
        first,
        f"The first {days} not part of a week here: weeks are counted back from the last day.",
    )
