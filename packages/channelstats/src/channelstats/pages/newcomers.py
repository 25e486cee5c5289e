"""Who is new, who posts again, and who stopped; how far those come who join.

Rule: somebody is new in the week of their first message anywhere. Weeks are whole ones, counted
back from the last day; fewer than seven days are seen as the week that ends with them.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

import polars as pl
from msgspec.structs import replace

from channelstats.counting import JOINED
from channelstats.facts.facts import Slice
from channelstats.facts.periods import MONTH, POINT, WEEK, Period, blocks, labels, weeks, with_point
from channelstats.metrics import registry
from channelstats.metrics.metric import Metric
from channelstats.metrics.people import comers, comings
from channelstats.metrics.quantities import percent, percent_of, shown
from channelstats.metrics.table import (
    Column,
    Table,
)
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
from channelstats.pages.model import (
    ChoiceError,
    Heat,
    Page,
    Section,
    Series,
    SeriesChart,
)
from channelstats.pages.todo import newcomer_rows

_FOUR: Final = MONTH // WEEK
_MOST_COHORTS: Final = 26

Week: TypeAlias = Mapping[str, float | None]
"""The numbers of one week by the keys of their figures."""

_COMINGS: Final = (registry.RETAINED, registry.NEW_IN_WEEK, registry.RETURNING, registry.LAPSED)
_FROM_WEEK_BEFORE: Final = ("both", "returning", "lapsed", "rate")
"""What nobody can tell of a week without all messages of the one before it."""
_ACTIVE: Final = (registry.IN_WEEK, registry.IN_FOUR_WEEKS)
_OF_WEEK: Final = {
    of.key: of for of in (*_COMINGS, *_ACTIVE, registry.RETENTION, registry.MEMBERS_OF_ALL)
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
    now = scope.now
    shown_weeks, first = _shown_weeks(request), _first_posts(request)
    found = _weeks(now, shown_weeks, first)

    def lines(name: str, title: str, *drawn: Metric, about: str = "") -> SeriesChart:
        series = tuple(
            Series(of.key, of.title, tuple(week[of.key] for week in found)) for of in drawn
        )
        kind = drawn[0].kind
        return SeriesChart(
            "lines", name, title, "Week from", labels(shown_weeks), kind, series, about
        )

    rates = lines(
        "retention", registry.RETENTION.title, registry.RETENTION, about=registry.RETENTION.about
    )
    if scope.person:
        of_all = tuple(week["rate"] for week in _weeks(scope.now.whole, shown_weeks, first))
        everyone = Series(EVERYONE, "Everyone", of_all, faint=True)
        rates = replace(rates, series=(*rates.series, everyone))
    charts = [
        lines("comings", "Retained, first-time, returning and lapsed posters", *_COMINGS),
        rates,
        lines("active", "Weekly and monthly posters", *_ACTIVE),
    ]
    members = () if scope.person or request.choice.channels else _members(request, shown_weeks)
    if members:
        of = registry.MEMBERS_OF_ALL
        drawn = (Series(of.key, of.title, members),)
        charts.append(
            replace(rates, name=of.key, title=of.title, about=of.about, kind=of.kind, series=drawn)
        )
    columns = {_column(series, chart): series for chart in charts for series in chart.series}
    ways, by_month = [], []
    if not scope.person and request.data.cohorts >= 2 * _FOUR:
        steps, numbers, months = _ways_in(request)
        ways, by_month = [Section.of(steps, numbers)], [Section.of(months)]
    return request.page(
        "How many people post for the first time, how many keep posting, and how many stop.",
        *map(Section.of, charts),
        *ways,
        *([] if scope.person else [Section.of(_first_time(request))]),
        Section.of(*_cohorts(request)),
        Section.of(series_table("weeks", "By week", charts[0], columns)),
        *by_month,
        tiles=tiles(scope, *(_OF_PERSON if scope.person else _OF_ALL)),
        notes=_notes(now.period),
    )


def _first_time(request: ViewRequest) -> Table:
    rows = newcomer_rows(queue.first_time_posters(request))
    about = registry.FIRST_TIME.about
    first = {"message": registry.FIRST_MESSAGE}
    return table("first_time", registry.FIRST_TIME.title, rows, first, about=about)


def _shown_weeks(request: ViewRequest) -> list[Period]:
    period = request.scope.now.period
    return weeks(period.ending_with(max(period.days // WEEK, 1) * WEEK))


def _first_posts(request: ViewRequest) -> dict[str, int]:
    """When everybody first posted, in microseconds."""
    return dict(request.data.facts.first_posts.select("slack_uid", "ts").iter_rows())


def _column(series: Series, chart: SeriesChart) -> Column:
    of = _OF_WEEK.get(series.name)
    return of.column() if of else Column(series.name, series.title, chart.kind)


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


def _weeks(part: Slice, shown_weeks: list[Period], first: Mapping[str, int]) -> list[Week]:
    """The posters of each week shown, those of the four that end with it, and who came and went;
    ``first`` are everybody's first posts in microseconds.
    """
    who = _posters(part, weeks(shown_weeks[-1].ending_with((len(shown_weeks) + _FOUR - 1) * WEEK)))
    found: list[Week] = []
    for number, week in enumerate(shown_weeks, _FOUR - 1):
        four = [who.get(point, set()) for point in range(number - _FOUR + 1, number + 1)]
        *_, then, now = four
        came = comings(now, then, first, week)
        if not part.history.covers(week.previous):
            came |= dict.fromkeys(_FROM_WEEK_BEFORE)
        came["new"] = _new_in(part, week, now)
        found.append({"weekly": len(now), "monthly": len(set().union(*four)), **came})
    return found


def _new_in(part: Slice, week: Period, posters: AbstractSet[str]) -> int | None:
    """How many of the posters of a week are certainly new in it; None where nothing tells."""
    first = part.own_first_posts.filter(week.covers())["slack_uid"]
    new = posters & set(first)
    if part.history.knows_newcomers(week):
        return len(new)
    return len(new & part.facts.people.joined) or None


def _posters(part: Slice, shown_weeks: list[Period]) -> dict[int, set[str]]:
    """Who posted in each of these weeks, by its place; a week without posters is missing."""
    posted = _posted(part, shown_weeks).group_by("point").agg("slack_uid")
    return {point: set(uids) for point, uids in posted.iter_rows()}


def _posted(part: Slice, shown_weeks: list[Period]) -> pl.DataFrame:
    """Who posted in which of these weeks: `point`, `slack_uid`."""
    counted = part.everything("messages").select("ts", "slack_uid")
    return with_point(counted, shown_weeks).select("point", "slack_uid").unique()


def _shown_cohorts(request: ViewRequest) -> tuple[int, list[Period]]:
    """How many weeks each step of the cohorts is, and the weeks that they begin in: of many weeks
    four are taken together.
    """
    each = 1 if request.data.cohorts <= _MOST_COHORTS else _FOUR
    number = request.data.cohorts // each
    reach = request.scope.now.period.ending_with(number * each * WEEK)
    return each, blocks(reach, each * WEEK)


def _staying(request: ViewRequest, shown_weeks: list[Period]) -> pl.DataFrame:
    """Who `began` in which of the weeks, and how many weeks `since` then they posted."""
    now, since = request.scope.now, pl.col("point") - pl.col("began")
    began = with_point(now.own_first_posts, shown_weeks).select("slack_uid", began="point")
    return began.join(_posted(now, shown_weeks), on="slack_uid").with_columns(since=since)


def _cohorts(request: ViewRequest) -> tuple[Heat, Table]:
    """Of those who began in each of the last weeks, how many posted in each week since."""
    each, shown_weeks = _shown_cohorts(request)
    number, staying = len(shown_weeks), _staying(request, shown_weeks)
    began = with_point(request.scope.now.own_first_posts, shown_weeks)
    sizes = dict(began.group_by("point").agg(n=pl.len()).iter_rows())
    found = {
        (week, step): n
        for week, step, n in staying.group_by("began", "since").agg(n=pl.len()).iter_rows()
    }

    def cell(week: int, step: int) -> float | None:
        size = sizes.get(week, 0)
        if not size or week + step >= number:
            return None
        return shown(percent(found.get((week, step), 0), size))

    steps = range(number)
    values = tuple(tuple(cell(week, step) for step in steps) for week in steps)
    of, name = registry.COHORTS, registry.COHORTS.name
    titles = tuple(_weeks_since(step * each + 1, (step + 1) * each) for step in steps)
    in_each = tuple(sizes.get(week, 0) for week in steps)
    heat = Heat(
        name,
        of.title,
        labels(shown_weeks),
        titles,
        values,
        of.kind,
        about=of.about,
        sizes=in_each,
    )
    # week_1; weeks_1_to_4
    columns = [
        Metric(title.lower().replace(" ", "_"), title, kind=of.kind, listed="group/")
        for title in titles
    ]
    cells = {of.name: [row[step] for row in values] for step, of in enumerate(columns)}
    since_when = "the week" if each == 1 else f"the {each} weeks"
    began_in = registry.BEGAN._replace(title=f"First message in {since_when} from")
    frame = pl.DataFrame({"week": heat.rows, "newcomers": in_each, **cells}, strict=False)
    said = {"week": began_in, **{of.name: of for of in columns}}
    return heat, table(name, of.title, frame, said)


# ── joined → posted → answered → regular ─────────────────────────────────────────────────────────

REGULAR: Final = 3
"""Different weeks that a regular wrote in, so far."""

_STEPS: Final = {
    "joined": "Joined",
    "posted": "Posted",
    "answered": "Answered",
    "regular": "Regular",
}


def _ways_in(request: ViewRequest) -> tuple[SeriesChart, Table, Table]:
    """How far those came who joined in the last four weeks and in those before, drawn with its
    numbers; and in every four weeks.
    """
    months, later = blocks(_reach(request), MONTH), list(_STEPS)[1:]
    found = _steps(request, months)
    shares = {
        f"{step}_share": pl.when(pl.col("joined") > 0).then(
            percent_of(step, "joined").column().shown()
        )
        for step in later
    }
    rows = found.select(pl.Series("month", labels(months)), *_STEPS, **shares)
    counts = found.rows()
    of, name = registry.WAYS_IN, registry.WAYS_IN.name
    drawn = (
        Series("now", "Joined in the last four weeks", counts[-1]),
        Series(BEFORE, "In the four weeks before", counts[-2], faint=True),
    )
    steps = tuple(_STEPS.values())
    chart = SeriesChart("bars", name, of.title, "Step", steps, of.kind, drawn, of.about)
    answered = {"answered": registry.OF_THEM_ANSWERED}
    by_month = table(f"{name}_by_month", "By four weeks", rows, answered)
    return chart, table_of(name, of.title, {"people": chart}), by_month


def _reach(request: ViewRequest) -> Period:
    """Whole four weeks up to the last day, as many as are read."""
    number = request.data.cohorts // _FOUR
    return request.scope.now.period.ending_with(number * MONTH)


def _steps(request: ViewRequest, months: Sequence[Period]) -> pl.DataFrame:
    """The numbers of each month. Who joins is new if they had not joined a channel nor posted
    before; what they did since counts whenever it was.
    """
    found = _joined(request, months)
    counts = found.group_by("point").agg(
        *(pl.col(name).sum().cast(pl.Int64) for name in _STEPS if name != "joined"),
        joined=pl.len().cast(pl.Int64),
    )
    every = pl.DataFrame({"point": range(len(months))}, {"point": POINT})
    return every.join(counts, on="point", how="left").fill_null(0).sort("point").select(*_STEPS)


def _joined(request: ViewRequest, months: Sequence[Period]) -> pl.DataFrame:
    """Who joined in which month, the `point`, and whether they came as far as each step."""
    days, facts = _reach(request), request.data.facts
    there, first = facts.slice(days, request.choice.channels), facts.first_posts
    joined = (
        there.table("moves")
        .filter(pl.col("subtype").is_in(JOINED))
        .join(there.joins_before(), on="slack_uid", how="anti")
        .group_by("slack_uid")
        .agg(pl.col("ts").min())
        .join(first.select("slack_uid", first="ts"), on="slack_uid", how="left")
        .filter(pl.col("first").is_null() | (pl.col("first") >= pl.col("ts")))
    )
    messages = request.written(joined, days)
    active = with_point(messages, weeks(days)).group_by("slack_uid")
    regular = active.agg(pl.col("point").n_unique()).filter(pl.col("point") >= REGULAR)
    steps = {"posted": messages, "answered": facts.noticed(messages), "regular": regular}
    return with_point(joined, months).with_columns(
        pl.col("slack_uid").is_in(frame["slack_uid"].unique().implode()).alias(name)
        for name, frame in steps.items()
    )


# ── the people that a number counts ──────────────────────────────────────────────────────────────

_GROUP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)-(joined|posted|answered|regular|both|returning|weeks?-\d[\w-]*)"
)
_OF_TWO_WEEKS: Final = {of.key: of.about for of in (registry.RETAINED, registry.RETURNING)}


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
        said, who = _of_comers(request, day, what)
    elif what in _STEPS:
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


def _of_comers(request: ViewRequest, day: str, kind: str) -> tuple[str, pl.DataFrame]:
    shown_weeks = _shown_weeks(request)
    found: AbstractSet[str] = frozenset()
    if (at := _place(day, shown_weeks)) >= 0:
        week, now = shown_weeks[at], request.scope.now
        who = _posters(now, [week.previous, week])
        found = comers(who.get(1, set()), who.get(0, set()), _first_posts(request), week)[kind]
    said = f"In the week from {day}: {_OF_TWO_WEEKS[kind][0].lower()}{_OF_TWO_WEEKS[kind][1:]}"
    kind_of_id = request.data.facts.first_posts.schema["slack_uid"]
    return said, pl.DataFrame({"slack_uid": sorted(found)}, {"slack_uid": kind_of_id})


def _of_step(request: ViewRequest, day: str, step: str) -> tuple[str, pl.DataFrame]:
    months = blocks(_reach(request), MONTH)
    found = _joined(request, months).filter(pl.col("point") == _place(day, months))
    found = found if step == "joined" else found.filter(step)
    as_far_as = "" if step == "joined" else f", and came as far as: {_STEPS[step].lower()}"
    return f"Who joined in the four weeks from {day}{as_far_as}.", found.select("slack_uid")


def _of_cohort(request: ViewRequest, day: str, column: str) -> tuple[str, pl.DataFrame]:
    each, shown_weeks = _shown_cohorts(request)
    titles = [_weeks_since(at * each + 1, (at + 1) * each) for at in range(len(shown_weeks))]
    columns = {group_of(day, title): at for at, title in enumerate(titles)}
    since = columns.get(f"{day}-{column}", -1)
    found = _staying(request, shown_weeks).filter(
        (pl.col("began") == _place(day, shown_weeks)) & (pl.col("since") == since)
    )
    when = column.replace("-", " ")
    begin = "week" if each == 1 else f"{each} weeks"
    said = f"Whose first message was in the {begin} from {day}, and who posted in their {when}."
    return said, found.select("slack_uid")


def _place(day: str, periods: Sequence[Period]) -> int:
    """Which of the periods begins with that day; -1 for none."""
    days = [of.start.isoformat() for of in periods]
    return days.index(day) if day in days else -1


def _weeks_since(first: int, last: int) -> str:
    return f"Week {first}" if first == last else f"Weeks {first} to {last}"


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
