"""One person: from first to last seen, where they write, what they give and get, and with whom.

Rule: what happened for the first time is only told where everything since the first message was
read; what was not is left out, and a note says so.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from channelstats.counting import JOINED
from channelstats.facts.periods import WEEK
from channelstats.metrics import registry
from channelstats.metrics.people import REGULAR
from channelstats.metrics.table import Table
from channelstats.pages.channels import channel_table
from channelstats.pages.components import (
    date_cells,
    lines_of,
    message_cells,
    table,
    table_of,
    tiles,
)
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import ChoiceError, Page, Section
from channelstats.pages.people import partner_table

_FIGURES: Final = (
    registry.MESSAGES,
    registry.WORDS,
    registry.SHARE_OF_MESSAGES,
    registry.ANSWERS_GIVEN,
    registry.ANSWERS,
    registry.FIRST_REPLY,
    registry.UNANSWERED,
    registry.REACTIONS,
    registry.REACTIONS_GIVEN,
    registry.PARTNERS,
)
_SEEN: Final = ("ts", "slack_cid", "thread_ts")


def view(request: ViewRequest) -> Page:
    scope = request.scope
    if not scope.person:
        raise ChoiceError("person: expected a name or an ID")
    lines, seen = lines_of(scope, registry.MESSAGES), _seen(request)
    return request.page(
        "Since when this person is here, where they write, what they give and get back.",
        Section.of(_seen_table(request, seen)),
        Section.of(lines, table_of("messages", "Messages", {"messages": lines})),
        Section.of(channel_table(request)),
        Section.of(partner_table(request)),
        tiles=tiles(scope, *_FIGURES),
        notes=_notes(seen),
    )


def _seen(request: ViewRequest) -> Mapping[str, pl.DataFrame]:
    """When and where this person was seen, up to the last day: a message each, or none."""
    now, uid = request.scope.now, request.scope.person
    until = pl.col("ts") < now.period.end * 1_000_000
    is_theirs = pl.col("slack_uid") == uid
    first = now.everything("first_posts").filter(until).with_columns(thread_ts=_NOWHERE)
    joins = now.everything("recorded").filter(until & pl.col("subtype").is_in(JOINED))
    if first.height:
        joins = joins.filter(pl.col("ts") <= first["ts"][0])
    theirs = now.everything("messages").filter(until).select(*_SEEN).sort("ts")
    replies = now.whole.everything("messages").lazy().filter(until)
    answers = replies.filter((pl.col("parent_user_id") == uid) & ~is_theirs)
    is_whole = first.height > 0 and theirs["ts"].min() == first["ts"][0]
    return {
        "Joined": joins.select(*_SEEN).sort("ts").head(1),
        "First message": first.select(*_SEEN).head(1),
        "First reply by others": answers.select(*_SEEN).collect().sort("ts").head(is_whole),
        "Writes regularly": _regular(theirs, request.scope.now.period.end).head(is_whole),
        "Last message": theirs.tail(1),
    }


_NOWHERE: Final = pl.lit(None, pl.Int64)


def _regular(theirs: pl.DataFrame, end: int) -> pl.DataFrame:
    """The first message of the week that made them a regular; weeks are counted back from the end
    of the period, in seconds.
    """
    week = (end * 1_000_000 - 1 - pl.col("ts")) // (WEEK * 86_400 * 1_000_000)
    return theirs.filter(week.is_first_distinct()).slice(REGULAR - 1, 1)


def _seen_table(request: ViewRequest, seen: Mapping[str, pl.DataFrame]) -> Table:
    steps = [frame.select(pl.lit(step).alias("step"), *_SEEN) for step, frame in seen.items()]
    listed = request.listable(pl.concat(steps))
    rows = listed.select(
        "step",
        date=date_cells(listed, request.scope.now.period.zone),
        channel="slack_cid",
        message=message_cells("slack_cid", "ts", "thread_ts"),
    )
    about = (
        "Up to the last day. Who has written in three different weeks writes regularly: this is the"
        " first message of the third. That, and the first reply, are known in periods that reach"
        " back to the first message."
    )
    when = {"date": registry.WHEN, "message": registry.AT}
    return table("seen", "From first to last seen", rows, when, about=about)


def _notes(seen: Mapping[str, pl.DataFrame]) -> tuple[str, ...]:
    first, last = seen["First message"], seen["Last message"]
    if first.height and last.is_empty():
        return ("The last message was before the days that were read for this period.",)
    return ()
