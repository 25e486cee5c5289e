"""Who is new, who posts again, and who stopped; how far those come who join."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl
from msgspec.structs import replace

from channelstats.facts.facts import Slice
from channelstats.facts.periods import MONTH, WEEK, Period, blocks, labels, weeks, with_point
from channelstats.metrics import registry
from channelstats.metrics.metric import Metric
from channelstats.metrics.people import (
    FOUR,
    STEPS,
    joined,
    joined_by_month,
    posted,
    staying,
    turnover,
    turnover_by_week,
)
from channelstats.metrics.quantities import percent, percent_of, shown
from channelstats.metrics.table import Column, Table
from channelstats.pages import queue
from channelstats.pages.components import (
    BEFORE,
    EVERYONE,
    message_cells,
    series_table,
    table,
    table_of,
    tiles,
)
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import ChoiceError, Heat, Page, Section, Series, SeriesChart
from channelstats.pages.todo import newcomer_rows
from channelstats.tables.columns import ID

_MOST_COHORTS: Final = 26

_COMINGS: Final = (registry.RETAINED, registry.NEW_IN_WEEK, registry.RETURNING, registry.LAPSED)
_ACTIVE: Final = (registry.IN_WEEK, registry.IN_FOUR_WEEKS)
_OF_WEEK: Final = {
    metric.key: metric
    for metric in (*_COMINGS, *_ACTIVE, registry.RETENTION, registry.MEMBERS_OF_ALL)
}
_OF_ALL: Final = (
    registry.FIRST_TIME,
    registry.STAYED,
    registry.WEEKLY,
    registry.MONTHLY,
    registry.STICKINESS,
)
_OF_PERSON: Final = (registry.WEEKS_ACTIVE, registry.STAYED)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    charts = list(_charts(request))
    columns = {_column(series, chart): series for chart in charts for series in chart.series}
    ways_in, by_month = [], []
    if not scope.person and request.data.cohorts >= 2 * FOUR:
        steps, numbers, months = _ways_in(request)
        ways_in, by_month = [Section.of(steps, numbers)], [Section.of(months)]
    return request.page(
        "How many people post for the first time, how many keep posting, and how many stop.",
        *map(Section.of, charts),
        *ways_in,
        *([] if scope.person else [Section.of(_first_time(request))]),
        Section.of(*_cohorts(request)),
        Section.of(series_table("weeks", "By week", charts[0], columns)),
        *by_month,
        tiles=tiles(scope, *(_OF_PERSON if scope.person else _OF_ALL)),
        notes=_notes(scope.now.period),
    )


# ── week by week ─────────────────────────────────────────────────────────────────────────────────


def _charts(request: ViewRequest) -> Iterator[SeriesChart]:
    scope, shown_weeks = request.scope, _shown_weeks(request)
    by_week = turnover_by_week(scope.now, shown_weeks)

    def lines(name: str, title: str, *drawn: Metric, about: str = "") -> SeriesChart:
        series = tuple(
            Series(metric.key, metric.title, tuple(by_week[metric.key])) for metric in drawn
        )
        days, kind = labels(shown_weeks), drawn[0].kind
        return SeriesChart("lines", name, title, "Week from", days, kind, series, about)

    yield lines("comings", "Retained, first-time, returning and lapsed posters", *_COMINGS)
    retention = registry.RETENTION
    rates = lines("retention", retention.title, retention, about=retention.about)
    if scope.person:
        of_all = tuple(turnover_by_week(scope.now.whole, shown_weeks)[retention.key])
        everyone = Series(EVERYONE, "Everyone", of_all, faint=True)
        rates = replace(rates, series=(*rates.series, everyone))
    yield rates
    yield lines("active", "Weekly and monthly posters", *_ACTIVE)
    members = () if scope.person or request.choice.channels else _members(request, shown_weeks)
    if members:
        metric = registry.MEMBERS_OF_ALL
        drawn = (Series(metric.key, metric.title, members),)
        said = {"title": metric.title, "about": metric.about, "kind": metric.kind}
        yield replace(rates, name=metric.key, series=drawn, **said)


def _shown_weeks(request: ViewRequest) -> list[Period]:
    period = request.scope.now.period
    return weeks(period.ending_with(max(period.days // WEEK, 1) * WEEK))


def _column(series: Series, chart: SeriesChart) -> Column:
    metric = _OF_WEEK.get(series.name)
    return metric.column() if metric else Column(series.name, series.title, chart.kind)


def _members(request: ViewRequest, shown_weeks: list[Period]) -> tuple[float | None, ...]:
    """How many there were at the end of each week, by the last count up to then; empty where they
    were counted in fewer than two of the weeks, as one count is no development.
    """
    counts = request.data.inputs.counts
    counted_on = sorted(day for day, number in counts.items() if number.active_humans)
    if sum(any(week.start <= day <= week.last for day in counted_on) for week in shown_weeks) < 2:
        return ()
    ends = (bisect_right(counted_on, week.last) for week in shown_weeks)
    return tuple(counts[counted_on[end - 1]].active_humans if end else None for end in ends)


def _first_time(request: ViewRequest) -> Table:
    rows = newcomer_rows(queue.first_time_posters(request))
    about = registry.FIRST_TIME.about
    first = {"message": registry.FIRST_MESSAGE}
    return table("first_time", registry.FIRST_TIME.title, rows, first, about=about)


# ── cohorts ──────────────────────────────────────────────────────────────────────────────────────


def _shown_cohorts(request: ViewRequest) -> tuple[int, list[Period]]:
    """How many weeks each step of the cohorts is, and the weeks that they begin in: of many weeks
    four are taken together.
    """
    each = 1 if request.data.cohorts <= _MOST_COHORTS else FOUR
    number = request.data.cohorts // each
    reach = request.scope.now.period.ending_with(number * each * WEEK)
    return each, blocks(reach, each * WEEK)


def _cohorts(request: ViewRequest) -> tuple[Heat, Table]:
    """Of those who began in each of the last weeks, how many posted in each week since."""
    now, (each, shown_weeks) = request.scope.now, _shown_cohorts(request)
    steps = range(len(shown_weeks))
    began = with_point(now.own_first_posts, shown_weeks).group_by("point").agg(people=pl.len())
    sizes = dict(began.iter_rows())
    stayed = staying(now, shown_weeks).group_by("began", "since").agg(people=pl.len())
    numbers = {(week, step): people for week, step, people in stayed.iter_rows()}

    def cell(week: int, step: int) -> float | None:
        size = sizes.get(week, 0)
        if not size or week + step >= len(shown_weeks):
            return None
        return shown(percent(numbers.get((week, step), 0), size))

    values = tuple(tuple(cell(week, step) for step in steps) for week in steps)
    metric, name = registry.COHORTS, registry.COHORTS.name
    titles = _titles_of_cohorts(each, len(shown_weeks))
    in_each = tuple(sizes.get(week, 0) for week in steps)
    days, about = labels(shown_weeks), metric.about
    heat = Heat(name, metric.title, days, titles, values, metric.kind, about=about, sizes=in_each)
    # week_1; weeks_1_to_4
    columns = [
        Metric(title.lower().replace(" ", "_"), title, kind=metric.kind, listed="group/")
        for title in titles
    ]
    cells = {column.name: [row[step] for row in values] for step, column in enumerate(columns)}
    since_when = "the week" if each == 1 else f"the {each} weeks"
    began_in = registry.BEGAN._replace(title=f"First message in {since_when} from")
    frame = pl.DataFrame({"week": days, "newcomers": in_each, **cells}, strict=False)
    said = {"week": began_in, **{column.name: column for column in columns}}
    return heat, table(name, metric.title, frame, said)


def _titles_of_cohorts(each: int, number: int) -> tuple[str, ...]:
    if each == 1:
        return tuple(f"Week {step + 1}" for step in range(number))
    return tuple(f"Weeks {step * each + 1} to {(step + 1) * each}" for step in range(number))


# ── joined → posted → answered → regular ─────────────────────────────────────────────────────────


def _ways_in(request: ViewRequest) -> tuple[SeriesChart, Table, Table]:
    """How far those came who joined in the last four weeks and in those before, drawn with its
    numbers; and in every four weeks.
    """
    there, months = _reach(request)
    numbers = joined_by_month(there, months)
    shares = {
        f"{step}_share": percent_of(step, "joined", optional=True).shown() for step in STEPS[1:]
    }
    rows = numbers.select(pl.Series("month", labels(months)), *STEPS, **shares)
    metric, name = registry.WAYS_IN, registry.WAYS_IN.name
    drawn = (
        Series("now", "Joined in the last four weeks", numbers.row(-1)),
        Series(BEFORE, "In the four weeks before", numbers.row(-2), faint=True),
    )
    steps = tuple(map(str.capitalize, STEPS))
    chart = SeriesChart("bars", name, metric.title, "Step", steps, metric.kind, drawn, metric.about)
    answered = {"answered": registry.OF_THEM_ANSWERED}
    by_month = table(f"{name}_by_month", "By four weeks", rows, answered)
    return chart, table_of(name, metric.title, {"people": chart}), by_month


def _reach(request: ViewRequest) -> tuple[Slice, list[Period]]:
    """Whole four weeks up to the last day, as many as are read, in the chosen channels."""
    number = request.data.cohorts // FOUR
    days = request.scope.now.period.ending_with(number * MONTH)
    return request.data.facts.slice(days, request.choice.channels), blocks(days, MONTH)


# ── the people that a number counts ──────────────────────────────────────────────────────────────

_GROUP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)-(joined|posted|answered|regular|both|returning|weeks?-\d[\w-]*)"
)
_OF_TWO_WEEKS: Final = {
    metric.key: metric.about for metric in (registry.RETAINED, registry.RETURNING)
}


def group_of(day: str, column: str) -> str:
    """The name of the group of people that a column counts in the row of a day."""
    return f"{day}-{re.sub(r'[ _]', '-', column.lower())}"


def is_group(name: str) -> bool:
    return _GROUP.fullmatch(name) is not None


def group(request: ViewRequest) -> Page:
    """The people that a number of the weeks, of the cohorts or of the way in counts."""
    named = _GROUP.fullmatch(request.choice.only)
    if named is None:
        raise ChoiceError("only: expected a group of people, like 2024-03-10-posted")
    day, what = named.groups()
    if what in _OF_TWO_WEEKS:
        said, who = _of_turnover(request, day, what)
    elif what in STEPS:
        said, who = _of_step(request, day, what)
    else:
        said, who = _of_cohort(request, day, what)
    first = request.listable(request.data.facts.first_posts).select(
        "slack_uid", channel="slack_cid", first_message=message_cells("slack_cid", "ts")
    )
    rows = (
        who.unique()
        .sort("slack_uid")
        .join(first, on="slack_uid", how="left", maintain_order="left")
        .select(
            person="slack_uid",
            first_message=pl.col("first_message").fill_null(""),
            channel=pl.col("channel").cast(pl.String).fill_null(""),
        )
    )
    people = table("people", "People", rows, about=said)
    return request.page("The people that a number counts.", Section.of(people), compares=False)


def _of_turnover(request: ViewRequest, day: str, kind: str) -> tuple[str, pl.DataFrame]:
    shown_weeks, people = _shown_weeks(request), list[str]()
    if (at := _place(day, shown_weeks)) >= 0:
        week, first = shown_weeks[at], request.data.facts.first_posts
        who = posted(request.scope.now, [week.previous, week])
        before, now = (set(who.filter(point=point)["slack_uid"]) for point in (0, 1))
        known = dict(first.select("slack_uid", "ts").iter_rows())
        people = sorted(turnover(now, before, known, week)[kind])
    said = f"In the week from {day}: {_OF_TWO_WEEKS[kind][0].lower()}{_OF_TWO_WEEKS[kind][1:]}"
    return said, pl.DataFrame({"slack_uid": people}, {"slack_uid": ID})


def _of_step(request: ViewRequest, day: str, step: str) -> tuple[str, pl.DataFrame]:
    there, months = _reach(request)
    people = joined(there, months).filter(pl.col("point") == _place(day, months))
    people = people if step == "joined" else people.filter(step)
    reached = "" if step == "joined" else f", and reached: {step}"
    return f"Who joined in the four weeks from {day}{reached}.", people.select("slack_uid")


def _of_cohort(request: ViewRequest, day: str, column: str) -> tuple[str, pl.DataFrame]:
    each, shown_weeks = _shown_cohorts(request)
    names = [group_of(day, title) for title in _titles_of_cohorts(each, len(shown_weeks))]
    since = names.index(name) if (name := f"{day}-{column}") in names else -1
    people = staying(request.scope.now, shown_weeks).filter(
        (pl.col("began") == _place(day, shown_weeks)) & (pl.col("since") == since)
    )
    when = column.replace("-", " ")
    begin = "week" if each == 1 else f"{each} weeks"
    said = f"Whose first message was in the {begin} from {day}, and who posted in their {when}."
    return said, people.select("slack_uid")


def _place(day: str, periods: Sequence[Period]) -> int:
    """Which of the periods begins with that day; -1 for none."""
    days = labels(periods)
    return days.index(day) if day in days else -1


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
