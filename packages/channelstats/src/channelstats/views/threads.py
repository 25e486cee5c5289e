"""Threads, and how long it takes to get an answer.

Rule: a reply counts when somebody else wrote it, whenever it came; waiting times are whole seconds.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Final

import polars as pl

from channelstats.stats.conversation import STARTS_THREAD, nearest_rank
from channelstats.stats.messages import REPLIED
from channelstats.stats.period import Period
from channelstats.stats.quantities import percent, ranked, shown
from channelstats.tables.columns import IS_HEAD
from channelstats.views import figures
from channelstats.views.comparison import Selection
from channelstats.views.components import (
    Values,
    compared_series,
    message_table,
    over_time,
    table_of,
    tile,
)
from channelstats.views.model import Bars, Cell, Column, Kind, Table
from channelstats.views.request import ViewContent, ViewRequest
from channelstats.views.time_buckets import with_point

_STEPS: Final = {
    60: "under 1 min",
    5 * 60: "under 5 min",
    15 * 60: "under 15 min",
    3_600: "under 1 h",
    4 * 3_600: "under 4 h",
    86_400: "under 1 day",
}
"""Waiting times in seconds that the steps end before."""

_LABELS: Final = (*_STEPS.values(), "later", "never")


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    waiting = _histogram(request)
    responses = over_time(
        scope, "response_time", "Median time to first reply", Kind.SECONDS, _medians
    )
    return ViewContent(
        lead="How many threads there are, how soon somebody replies, and what nobody answers.",
        tiles=(
            tile(scope, "threads_started", "Threads started", Kind.COUNT, figures.threads_started),
            tile(scope, "replies", "% replies", Kind.PERCENT, figures.thread_share),
            tile(
                scope,
                "first_reply",
                "Median time to first reply",
                Kind.SECONDS,
                figures.first_reply(50),
                less_is_better=True,
            ),
            tile(
                scope,
                "first_reply_p90",
                "90% answered within",
                Kind.SECONDS,
                figures.first_reply(90),
                less_is_better=True,
            ),
            tile(
                scope,
                "unanswered",
                "Unanswered",
                Kind.COUNT,
                figures.unanswered,
                less_is_better=True,
            ),
            tile(
                scope,
                "unanswered_share",
                "% unanswered",
                Kind.PERCENT,
                figures.unanswered_share,
                less_is_better=True,
            ),
        ),
        charts=(waiting, responses),
        tables=(
            table_of("first_replies", "Time to first reply", {"threads": waiting}),
            table_of("response_time", "Response time", {"seconds": responses}, folded=True),
            _by_channel(request),
            message_table(
                request,
                "most_replied",
                "Messages with the most replies",
                REPLIED,
                "Number of replies",
            ),
        ),
    )


def _histogram(request: ViewRequest) -> Bars:
    scope = request.scope
    everyone = _steps(scope.all_now) if scope.person else None
    series = compared_series(scope, Kind.COUNT, _steps(scope.now), _steps(scope.before), everyone)
    title = "Time to first reply"
    return Bars("first_replies", title, "First reply", _LABELS, Kind.COUNT, series)


def _steps(of: Selection) -> Values:
    """How many heads waited how long; the last number is of those without a reply by others."""
    limits = list(_STEPS)
    found = Counter(bisect_right(limits, seconds) for seconds in of.waits["seconds"])
    heads = of.messages.filter(IS_HEAD).height
    counts = [found[step] for step in range(len(limits) + 1)]
    return [*counts, heads - of.waits.height]


def _medians(of: Selection, shown_points: Sequence[Period]) -> Values:
    waits = with_point(of.waits, shown_points).group_by("point").agg(pl.col("seconds").sort())
    found = dict(waits.iter_rows())
    return [nearest_rank(found.get(point, ()), 50) for point in range(len(shown_points))]


def _by_channel(request: ViewRequest) -> Table:
    now = request.scope.now
    cid = "slack_cid"
    sizes = now.messages.group_by(cid).agg(
        started=STARTS_THREAD.sum().cast(pl.Int64),
        replies=pl.col("is_reply").sum().cast(pl.Int64),
        messages=pl.len().cast(pl.Int64),
    )
    waits = now.waits.group_by(cid).agg(pl.col("seconds").sort())
    unanswered = now.unanswered.group_by(cid).agg(unanswered=pl.len().cast(pl.Int64))
    found = ranked(request.listable(sizes), ["started", "replies"], cid)
    found = found.join(waits, on=cid, how="left", maintain_order="left").join(
        unanswered, on=cid, how="left", maintain_order="left"
    )
    columns = (
        Column("channel", "Channel", Kind.CHANNEL),
        Column("threads_started", "Threads started", Kind.COUNT, bar=True),
        Column("replies", "% replies", Kind.PERCENT),
        Column("first_reply", "Median time to first reply", Kind.SECONDS),
        Column("first_reply_p90", "90% answered within", Kind.SECONDS),
        Column("unanswered", "Unanswered", Kind.COUNT),
        Column("unanswered_share", "% unanswered", Kind.PERCENT),
    )
    rows: list[tuple[Cell, ...]] = []
    for of in found.iter_rows(named=True):
        seconds, unanswered_here = of["seconds"] or (), of["unanswered"] or 0
        top_level = of["messages"] - of["replies"]
        rows.append(
            (
                of[cid],
                of["started"],
                shown(percent(of["replies"], of["messages"])),
                nearest_rank(seconds, 50),
                nearest_rank(seconds, 90),
                unanswered_here,
                shown(percent(unanswered_here, top_level)) if top_level else None,
            )
        )
    return Table("channels", "By channel", columns, tuple(rows))
