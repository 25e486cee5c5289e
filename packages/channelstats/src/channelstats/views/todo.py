"""Messages to answer, people to welcome or to contact, channels that fell silent.

Rule: each row leads to the message that it is about.
"""

import polars as pl

from channelstats.counting import JOINED
from channelstats.views.components import date_cells, message_cells, table
from channelstats.views.loading import ViewContent, ViewRequest
from channelstats.views.model import Table


def view(request: ViewRequest) -> ViewContent:
    tables = [_newcomers(request), _never_posted(request), _lapsed(request)]
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
    now = request.scope.now
    found = request.listable(now.unanswered).sort("ts", "slack_cid", descending=[True, False])
    rows = found.select(
        message=message_cells("slack_cid", "ts"),
        channel="slack_cid",
        person="slack_uid",
        date=date_cells(found, now.period.zone),
    )
    about = "Messages, not replies, that nobody else replied or reacted to; the newest first."
    return table("unanswered", "Unanswered messages", rows, about=about)


def _newcomers(request: ViewRequest) -> Table:
    """Who posted for the first time in the period, the newest first, and whether anybody answered:
    those whom nobody did come first.
    """
    now = request.scope.now
    first = now.first_posts.filter(now.period.covers()).filter(
        now.history.knows_newcomers(now.period)
    )
    top_level = now.messages.filter(~pl.col("is_reply"))
    answered = top_level.join(now.unanswered, on=("slack_cid", "ts"), how="anti")
    rows = (
        request.listable(first)
        .join(_counted(now.messages, "messages"), on="slack_uid")
        .join(_counted(answered, "answered"), on="slack_uid", how="left")
        .with_columns(pl.col("answered").fill_null(0))
        .sort(pl.col("answered") > 0, "ts", "slack_uid", descending=[False, True, False])
        .select(
            person="slack_uid",
            message=message_cells("slack_cid", "ts"),
            channel="slack_cid",
            messages="messages",
            answered="answered",
        )
    )
    about = "Their first message is in this period. Those whom nobody answered yet come first."
    titles = {"message": "First message"}
    return table("newcomers", "Newcomers to welcome", rows, titles, about=about)


def _never_posted(request: ViewRequest) -> Table:
    """Who joined in the period and has posted nothing since, nor before, the newest first."""
    now = request.scope.now
    joins = now.period_messages.moves.filter(pl.col("subtype").is_in(JOINED)).sort("ts")
    earlier = now.period_messages.source.joins_before(now.period)
    gone = [uid for uid, user in request.data.inputs.users.items() if user.deleted or user.is_bot]
    rows = (
        request.listable(joins)
        .filter(now.history.knows_newcomers(now.period) & ~pl.col("slack_uid").is_in(gone))
        .join(earlier, on="slack_uid", how="anti")
        .join(request.data.measured.first_posts, on="slack_uid", how="anti")
        .group_by("slack_uid")
        .agg(pl.first("slack_cid", "ts"), channels=pl.col("slack_cid").n_unique().cast(pl.Int64))
        .sort("ts", "slack_uid", descending=[True, False])
    )
    cells = rows.select(
        person="slack_uid",
        message=message_cells("slack_cid", "ts"),
        channel="slack_cid",
        channels="channels",
    )
    about = (
        "They joined their first channel in this period, as far as Slack posted a message about it,"
        " and have posted nothing anywhere; the newest first."
    )
    titles = {"message": "Joined", "channels": "Channels joined"}
    return table("never_posted", "Joined and never posted", cells, titles, about=about)


def _counted(messages: pl.DataFrame, name: str) -> pl.DataFrame:
    """How many messages each person wrote, under a name."""
    return messages.group_by("slack_uid").agg(pl.len().cast(pl.Int64).alias(name))


def _lapsed(request: ViewRequest) -> Table:
    """Who posted in the period before and not in this one, the most messages first."""
    now, before = request.scope.now.messages, request.listable(request.scope.before.messages)
    rows = (
        _last_of_each(before, "slack_uid")
        .join(now, on="slack_uid", how="anti")
        .sort("messages", "slack_uid", descending=[True, False])
        .select(
            person="slack_uid",
            messages_before="messages",
            message=message_cells("slack_cid", "ts", "thread_ts"),
            channel="slack_cid",
        )
    )
    about = "They wrote in the period before, and nothing in this one; the most messages first."
    titles = {"message": "Last message"}
    return table("lapsed", "People who stopped posting", rows, titles, about=about)


def _silent(request: ViewRequest) -> Table:
    """Channels that are not archived, with messages earlier in what was read and none in the
    period; the one that fell silent last comes first. Of a small group none is listed.
    """
    now = request.scope.now
    counted = now.period_messages.source.counted
    earlier = counted.filter(pl.col("ts") < now.period.begin * 1_000_000).collect()
    posters = earlier.group_by("slack_cid").agg(posters=pl.col("slack_uid").n_unique())
    found = (
        _last_of_each(earlier, "slack_cid")
        .join(now.messages, on="slack_cid", how="anti")
        .join(posters.filter(pl.col("posters") >= request.smallest_group), on="slack_cid")
        .join(request.data.known_channels, on="slack_cid", how="left")
        .filter(~pl.col("archived").fill_null(value=False))
        .sort("ts", "slack_cid", descending=[True, False])
    )
    rows = found.select(
        channel="slack_cid",
        message=message_cells("slack_cid", "ts", "thread_ts"),
        person="slack_uid",
        date=date_cells(found, now.period.zone),
        members="members",
    )
    titles = {"message": "Last message", "person": "By"}
    about = "Channels with messages before this period and none in it, unless they are archived."
    return table("silent", "Channels gone silent", rows, titles, about=about)


def _last_of_each(messages: pl.DataFrame, key: str) -> pl.DataFrame:
    """The last message of each value of a column, and how many `messages` there were."""
    last = pl.exclude(key).last()
    return messages.sort("ts").group_by(key).agg(last, messages=pl.len().cast(pl.Int64))


def _notes(request: ViewRequest) -> tuple[str, ...]:
    notes = []
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
