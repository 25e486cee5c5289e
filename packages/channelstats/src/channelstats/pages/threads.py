"""Threads, and how long it takes to get an answer.

Rule: a reply counts when somebody else wrote it, whenever it came; waiting times are whole seconds.
"""

from bisect import bisect_right
from collections import Counter
from typing import Final

import polars as pl

from channelstats.stats.conversation import STARTS_THREAD, how_many
from channelstats.stats.measures import Measures, nearest_rank
from channelstats.stats.messages import REPLIED
from channelstats.metrics.quantities import percent_of, ranked
from channelstats.tables.columns import IS_HEAD
from channelstats.pages import figures
from channelstats.pages.components import (
    compared_series,
    message_table,
    over_time,
    table,
    table_of,
    tiles,
)
from channelstats.metrics.registry import Values
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Kind, Page, Section, SeriesChart, Table
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
    figures.THREADS_STARTED,
    figures.REPLY_SHARE,
    figures.FIRST_REPLY,
    figures.FIRST_REPLY_P90,
    figures.UNANSWERED,
    figures.UNANSWERED_SHARE,
)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    responses = over_time(scope, figures.FIRST_REPLY, "response_time")
    most_replied, counted_as = "Messages with the most replies", figures.REPLIES_IN_THREAD
    return request.page(
        "How many threads there are, how soon somebody replies, and what nobody answers.",
        waiting_times(request),
        Section.of(responses, table_of("response_time", "Response time", {"seconds": responses})),
        *team_section(request),
        Section.of(_by_channel(request)),
        Section.of(message_table(request, "most_replied", most_replied, REPLIED, counted_as)),
        tiles=tiles(scope, *_FIGURES),
    )


def waiting_times(request: ViewRequest) -> Section:
    """Threads by how long their first reply took."""
    scope = request.scope
    everyone = _steps(scope.now.whole) if scope.person else None
    series = compared_series(scope, Kind.COUNT, _steps(scope.now), _steps(scope.before), everyone)
    name, title, about = "first_replies", figures.WAITS.title, figures.WAITS.about
    axis, kind = "First reply", Kind.COUNT
    chart = SeriesChart("bars", name, title, axis, WAIT_LABELS, kind, series, about)
    return Section.of(chart, table_of(name, title, {"threads": chart}))


def _steps(of: Measures) -> Values:
    """How many heads waited how long; the last number is of those without a reply by others."""
    limits = list(WAIT_STEPS)
    found = Counter(bisect_right(limits, seconds) for seconds in of.waits["seconds"])
    heads = how_many(of.messages, IS_HEAD)
    counts = [found[step] for step in range(len(limits) + 1)]
    return [*counts, heads - of.waits.height]


def _by_channel(request: ViewRequest) -> Table:
    now, cid = request.scope.now, "slack_cid"
    sizes = now.messages.group_by(cid).agg(
        threads_started=STARTS_THREAD.sum().cast(pl.Int64),
        replies=pl.col("is_reply").sum().cast(pl.Int64),
        messages=pl.len().cast(pl.Int64),
        top_level=(~pl.col("is_reply")).sum().cast(pl.Int64),
    )
    waits = now.waits.group_by(cid).agg(
        first_reply=nearest_rank(50), first_reply_p90=nearest_rank(90)
    )
    unanswered = now.unanswered.group_by(cid).agg(unanswered=pl.len().cast(pl.Int64))
    of_unanswered = percent_of("unanswered", "top_level").column().shown()
    rows = (
        ranked(request.listable(sizes), ["threads_started", "replies"], cid)
        .join(waits, on=cid, how="left", maintain_order="left")
        .join(unanswered, on=cid, how="left", maintain_order="left")
        .with_columns(pl.col("unanswered").fill_null(0))
        .select(
            "threads_started",
            "first_reply",
            "first_reply_p90",
            "unanswered",
            channel=cid,
            replies=percent_of("replies", "messages").column().shown(),
            unanswered_share=pl.when(pl.col("top_level") > 0).then(of_unanswered),
        )
    )
    of = {figure.key: figure for figure in _FIGURES}
    return table("channels", "By channel", rows["channel", *of], of, bar="threads_started")
