"""Threads, and how long it takes to get an answer.

Rule: a reply counts when somebody else wrote it, whenever it came; waiting times are whole seconds.
"""

from bisect import bisect_right
from collections import Counter
from typing import Final

from channelstats.facts.facts import REPLIED, Slice
from channelstats.metrics import registry
from channelstats.metrics.quantities import ranked
from channelstats.metrics.query import aggregated, column_of, parts_of
from channelstats.metrics.table import Kind, Table
from channelstats.pages.components import (
    compared_series,
    lines_of,
    message_table,
    table,
    table_of,
    tiles,
)
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section, SeriesChart
from channelstats.pages.team import team_section

WAIT_STEPS: Final = {
    60: "under 1 min",
    5 * 60: "under 5 min",
    15 * 60: "under 15 min",
    3_600: "under 1 h",
    4 * 3_600: "under 4 h",
    86_400: "under 1 day",
}
"""Waiting times in seconds that the steps end before."""

WAIT_LABELS: Final = (*WAIT_STEPS.values(), "over 1 day", "never")

_FIGURES: Final = (
    registry.THREADS_STARTED,
    registry.REPLY_SHARE,
    registry.FIRST_REPLY,
    registry.FIRST_REPLY_P90,
    registry.UNANSWERED,
    registry.UNANSWERED_SHARE,
)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    responses = lines_of(scope, registry.FIRST_REPLY, "response_time")
    return request.page(
        "How many threads there are, how soon somebody replies, and what nobody answers.",
        waiting_times(request),
        Section.of(responses, table_of("response_time", "Response time", {"seconds": responses})),
        *team_section(request),
        Section.of(_by_channel(request)),
        Section.of(most_replied(request)),
        tiles=tiles(scope, *_FIGURES),
    )


def waiting_times(request: ViewRequest) -> Section:
    """Threads by how long their first reply took."""
    scope = request.scope
    everyone = _steps(scope.now.whole) if scope.person else None
    series = compared_series(scope, Kind.COUNT, _steps(scope.now), _steps(scope.before), everyone)
    name, title, about = "first_replies", registry.WAITS.title, registry.WAITS.about
    axis, kind = "First reply", Kind.COUNT
    chart = SeriesChart("bars", name, title, axis, WAIT_LABELS, kind, series, about)
    return Section.of(chart, table_of(name, title, {"threads": chart}))


def _steps(part: Slice) -> list[float | None]:
    """How many heads waited how long; the last number is of those without a reply by others."""
    limits = list(WAIT_STEPS)
    heads = part.table("conversations").filter("is_head")["seconds"]
    waited = Counter(bisect_right(limits, seconds) for seconds in heads.drop_nulls())
    return [*(waited[step] for step in range(len(limits) + 1)), heads.null_count()]


def most_replied(request: ViewRequest) -> Table:
    title = "Messages with the most replies"
    return message_table(request, "most_replied", title, REPLIED, registry.REPLIES_IN_THREAD)


def _by_channel(request: ViewRequest) -> Table:
    names = ("threads_started", "replies", *parts_of(_FIGURES))
    rows = aggregated(request.scope.now, ("channel",), names)
    rows = ranked(request.listable(rows, "channel"), ["threads_started", "replies"], "channel")
    columns = {metric.key: column_of(request.scope, metric) for metric in _FIGURES}
    metrics = {metric.key: metric for metric in _FIGURES}
    cells = rows.select("channel", **columns)
    return table("channels", "By channel", cells, metrics, bar="threads_started")
