"""Messages to answer, people to welcome or to contact, channels that fell silent.

Rule: each row leads to the message that it is about.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from channelstats.days import date_at
from channelstats.stats.period import Period
from channelstats.views.components import message_cell, message_text
from channelstats.views.frame_rows import FrameRows
from channelstats.views.model import Column, Kind, Row, Table
from channelstats.views.request import ViewContent, ViewRequest
from channelstats.views.time_buckets import with_point

_MESSAGE: Final = Column("message", "Message", Kind.MESSAGE)
_CHANNEL: Final = Column("channel", "Channel", Kind.CHANNEL)
_PERSON: Final = Column("person", "Person", Kind.PERSON)


def view(request: ViewRequest) -> ViewContent:
    tables = [_newcomers(request), _lapsed(request)]
    if not request.scope.person:
        tables.append(_silent(request))
    tables.append(_unanswered(request))  # the longest of them
    return ViewContent(
        lead="People to welcome or to contact, channels that fell silent, and messages to answer.",
        tables=tuple(tables),
        notes=_notes(request),
    )


def _unanswered(request: ViewRequest) -> Table:
    """Messages that nobody else replied or reacted to, newest first."""
    found = request.listable(request.scope.now.unanswered).sort(
        "ts", "slack_cid", descending=[True, False]
    )
    dates = request.scope.now.period.dates
    days = pl.Series([day.isoformat() for day in dates], dtype=pl.String)
    at = with_point(found, [Period(day, 1, request.scope.now.period.zone) for day in dates])
    message = message_text("slack_cid", "ts")
    rows = at.select(message, "slack_cid", "slack_uid", date=days.gather(at["point"]))
    columns = (_MESSAGE, _CHANNEL, _PERSON, Column("date", "Date", Kind.DATE))
    return _table(request, "unanswered", "Unanswered messages", columns, FrameRows(rows))


def _newcomers(request: ViewRequest) -> Table:
    """Who posted for the first time in the period, the newest first, and whether anybody answered:
    those whom nobody did come first.
    """
    now = request.scope.now
    first = now.chosen.first_posts.filter(now.period.covers()).filter(
        now.history.knows_newcomers(now.period)
    )
    key = ["slack_cid", "ts"]
    top_level = now.messages.filter(~pl.col("is_reply"))
    answered = top_level.join(now.unanswered, on=key, how="anti").group_by("slack_uid")
    found = (
        request.listable(first)
        .join(now.messages.group_by("slack_uid").agg(messages=pl.len()), on="slack_uid")
        .join(answered.agg(answered=pl.len()), on="slack_uid", how="left")
        .with_columns(pl.col("answered").fill_null(0))
        .sort(pl.col("answered") > 0, "ts", "slack_uid", descending=[False, True, False])
    )
    rows = [
        (uid, message_cell(cid, ts, None), cid, messages, answers)
        for uid, ts, cid, messages, answers in found.select(
            "slack_uid", "ts", "slack_cid", "messages", "answered"
        ).iter_rows()
    ]
    columns = (
        _PERSON,
        Column("message", "First message", Kind.MESSAGE),
        _CHANNEL,
        Column("messages", "Messages", Kind.COUNT),
        Column("answered", "Messages answered", Kind.COUNT),
    )
    return _table(request, "newcomers", "Newcomers to welcome", columns, rows)


def _lapsed(request: ViewRequest) -> Table:
    """Who posted in the period before and not in this one, the most messages first."""
    now, before = request.scope.now.messages, request.listable(request.scope.before.messages)
    found = (
        _last_of_each(before, "slack_uid")
        .join(now, on="slack_uid", how="anti")
        .sort("messages", "slack_uid", descending=[True, False])
    )
    rows = [
        (uid, messages, message_cell(cid, ts, thread), cid)
        for uid, messages, cid, ts, thread in found.select(
            "slack_uid", "messages", "slack_cid", "ts", "thread_ts"
        ).iter_rows()
    ]
    columns = (
        _PERSON,
        Column("messages_before", "Messages in the period before", Kind.COUNT),
        Column("message", "Last message", Kind.MESSAGE),
        _CHANNEL,
    )
    return _table(request, "lapsed", "People who stopped posting", columns, rows)


def _silent(request: ViewRequest) -> Table:
    """Channels that are not archived, with messages earlier in what was read and none in the
    period; the one that fell silent last comes first. Of a small group none is listed.
    """
    now = request.scope.now
    earlier = now.period_messages.source.counted.filter(pl.col("ts") < now.period.begin * 1_000_000)
    posters = earlier.group_by("slack_cid").agg(posters=pl.col("slack_uid").n_unique())
    found = (
        _last_of_each(earlier, "slack_cid")
        .join(now.messages, on="slack_cid", how="anti")
        .join(posters.filter(pl.col("posters") >= request.smallest_group), on="slack_cid")
    )
    known = request.data.channels
    rows: list[Row] = []
    for cid, ts, thread, uid in (
        found.select("slack_cid", "ts", "thread_ts", "slack_uid")
        .sort("ts", "slack_cid", descending=[True, False])
        .iter_rows()
    ):
        channel = known.get(cid)
        if channel is None or not channel.is_archived:
            members = channel.members if channel else None
            rows.append((cid, message_cell(cid, ts, thread), uid, _day(ts, now.period), members))
    columns = (
        _CHANNEL,
        Column("message", "Last message", Kind.MESSAGE),
        Column("person", "By", Kind.PERSON),
        Column("date", "Date", Kind.DATE),
        Column("members", "Members", Kind.COUNT),
    )
    return _table(request, "silent", "Channels gone silent", columns, rows)


def _last_of_each(messages: pl.DataFrame, key: str) -> pl.DataFrame:
    """The last message of each value of a column, and how many `messages` there were."""
    last = pl.exclude(key).last()
    return messages.sort("ts").group_by(key).agg(last, messages=pl.len().cast(pl.Int64))


def _day(ts: int, period: Period) -> str:
    return date_at(ts // 1_000_000, period.zone).isoformat()


def _table(
    request: ViewRequest,
    name: str,
    title: str,
    columns: tuple[Column, ...],
    rows: Sequence[Row],
) -> Table:
    return Table(name, title, columns, rows if request.names_people else ())


def _notes(request: ViewRequest) -> tuple[str, ...]:
    notes = [
        "Unanswered messages: those, not counting replies, that nobody else replied or reacted to.",
        "Newcomers posted for the first time in this period.",
        "People who stopped posting wrote in the period before, and nothing in this one.",
    ]
    now = request.scope.now
    if not now.history.knows_newcomers(now.period):
        notes.append(
            f"Messages are known from {now.history.first} on, not long enough before this period to"
            " tell who is new."
        )
    if not now.history.covers(request.scope.before.period):
        notes.append(
            "Messages of the period before are not all known, so people may be missing here."
        )
    return tuple(notes)
