"""Slack's own counts beside those of the messages read here, as parts of views.

Rule: they are of the whole workspace: with a channel or a person chosen there are none.
"""

from typing import Final

import msgspec

from channelstats.stats.quantities import change, not_compared
from channelstats.tables.slack_analytics import DateSpan, Subject
from channelstats.views.model import Cell, Column, Kind, Table, Tile
from channelstats.views.request import ViewRequest

_UTC: Final = "Slack's own analytics count days in UTC"


class SlackParts(msgspec.Struct, frozen=True):
    """What is added to a view; nothing where there are no counts."""

    tiles: tuple[Tile, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def slack_members(request: ViewRequest) -> SlackParts:
    """How many members were active, beside how many posted."""
    if request.choice.channel or request.choice.person:
        return SlackParts()
    slack, now = request.data.slack, request.scope.now
    members, before = slack.members, slack.before
    if members is None:
        return SlackParts(notes=_near(request, Subject.MEMBERS))
    active = not_compared(members.active)
    if before is not None:
        active = change(members.active, before.active)
    columns = (
        Column("figure", "", Kind.TEXT),
        Column("slack", "Slack", Kind.COUNT),
        Column("here", "Counted here", Kind.COUNT),
    )
    rows: tuple[tuple[Cell, ...], ...] = (
        ("Active members, reading included", members.active, None),
        ("Members who posted", members.posters, now.posters),
        ("Messages", members.messages, now.messages.height),
        ("Messages in channels", members.channel_messages, None),
    )
    return SlackParts(
        (Tile("slack_active", "Active members (Slack)", Kind.COUNT, active),),
        (Table("slack_members", "What Slack counts", columns, rows),),
        (f"{_UTC}, and include private channels and direct messages.",),
    )


def slack_viewers(request: ViewRequest) -> SlackParts:
    """How many members viewed each channel that may be listed."""
    if request.choice.channel or request.choice.person:
        return SlackParts()
    slack = request.data.slack
    if slack.channels is None:
        return SlackParts(notes=_near(request, Subject.CHANNELS))
    here = {of.slack_cid: of for of in request.scope.now.chosen.channels}
    least = " (at least)" if slack.is_least else ""
    columns = (
        Column("channel", "Channel", Kind.CHANNEL),
        Column("viewers", f"Members who viewed{least}", Kind.COUNT, bar=True),
        Column("posters", "Members who posted", Kind.COUNT),
        Column("slack_messages", "Messages (Slack)", Kind.COUNT),
        Column("messages", "Messages counted here", Kind.COUNT),
    )
    listed = [
        (cid, of)
        for cid, of in slack.channels.items()
        if cid in request.data.channels and request.shows(cid)
    ]
    rows: list[tuple[Cell, ...]] = []
    for cid, of in sorted(listed, key=lambda found: (-found[1].viewers, found[0])):
        talk = here.get(cid)
        posters, messages = (talk.posters, talk.m) if talk else (0, 0)
        rows.append((cid, of.viewers, posters, of.messages, messages))
    table = Table("viewers", "Members who viewed (Slack)", columns, tuple(rows))
    return SlackParts(tables=(table,), notes=(f"{_UTC}.",))


def _near(request: ViewRequest, subject: Subject) -> tuple[str, ...]:
    """Says which days to choose where not all of these have counts."""
    span: DateSpan | None = (request.data.slack.near or {}).get(subject)
    if span is None:
        return ()
    return (
        (
            f"Slack's own analytics of {subject} are stored from {span.first} to {span.last}: "
            "choose these days to see them."
        ),
    )
