"""Where people write.

Rule: channels are ranked by words, as everywhere. With a person chosen they are the person's, and
ranks and shares are the person's among the posters of each.
"""

import polars as pl

from channelstats.stats.quantities import Quantity, percent, shown
from channelstats.stats.rankings import CHANNEL_FIGURES, ChannelVolume, is_new
from channelstats.views import figures
from channelstats.views.comparison import Figure, Selection
from channelstats.views.components import tile
from channelstats.views.model import Cell, Column, Kind, Table
from channelstats.views.request import ViewContent, ViewRequest
from channelstats.views.slack_components import slack_viewers


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    count = _places if scope.person else _count
    tiles = [
        tile(scope, "channels", "Active channels", Kind.COUNT, count),
        tile(scope, "messages", "Messages", Kind.COUNT, figures.messages),
        tile(scope, "words", "Words", Kind.COUNT, figures.words),
    ]
    if scope.person:
        return ViewContent(
            lead="Where this person writes, and how much of each channel they write.",
            tiles=tuple(tiles),
            tables=(channel_table(request),),
        )
    if any(known.is_private for known in request.data.channels.values()):
        private = _private(request)
        tiles.append(tile(scope, "private", "In private channels", Kind.PERCENT, private))
    tiles.append(tile(scope, "largest", "Largest channel's share of words", Kind.PERCENT, _largest))
    slack = slack_viewers(request)
    return ViewContent(
        lead="Where people write, most words first.",
        tiles=tuple(tiles),
        tables=(channel_table(request), *slack.tables),
        notes=slack.notes,
    )


def _count(of: Selection) -> int:
    return len(of.chosen.channels)


def _places(of: Selection) -> int:
    """Of each person the channels they write in, summed up."""
    return of.chosen.channel_authors.height


def _largest(of: Selection) -> Quantity | None:
    return next((CHANNEL_FIGURES["percent"](channel) for channel in of.chosen.channels), None)


def _private(request: ViewRequest) -> Figure:
    private = {cid for cid, known in request.data.channels.items() if known.is_private}

    def figure(of: Selection) -> Quantity | None:
        found = sum(channel.m for channel in of.chosen.channels if channel.slack_cid in private)
        whole = figures.messages(of)
        return percent(found, whole) if whole else None

    return figure


def channel_table(request: ViewRequest, most: int | None = None) -> Table:
    """Every channel, or the first so many; with a person, the person's."""
    if request.scope.person:
        return _of_person(request, most)
    now, before = request.scope.now, request.scope.before
    columns = (
        Column("channel", "Channel", Kind.CHANNEL),
        Column("messages", "Messages", Kind.COUNT),
        Column("words", "Words", Kind.COUNT, bar=True),
        Column("posters", "People", Kind.COUNT),
        Column("share", "Share of words", Kind.PERCENT),
        Column("words_per_poster", "Words per person", Kind.NUMBER),
        Column("change", "Change in words", Kind.CHANGE),
        Column("new", "New", Kind.TEXT),
        Column("private", "Private", Kind.TEXT),
        Column("members", "Members", Kind.COUNT),
    )
    earlier = {of.slack_cid: of.w for of in before.chosen.channels}
    rows: list[tuple[Cell, ...]] = []
    for of in _listed(request, most):
        known = request.data.channels.get(of.slack_cid)
        rows.append(
            (
                of.slack_cid,
                of.m,
                of.w,
                of.posters,
                shown(CHANNEL_FIGURES["percent"](of)),
                shown(CHANNEL_FIGURES["words_per_poster"](of)),
                request.scope.change(of.w, earlier.get(of.slack_cid)),
                "new" if is_new(known, now.period) else "",
                "private" if known and known.is_private else "",
                known.members if known else None,
            )
        )
    whole = "channels" if len(rows) < len(_listed(request, None)) else ""
    title = "Channels with the most words" if whole else "Channels"
    return Table("channels", title, columns, tuple(rows), whole=whole)


def _listed(request: ViewRequest, most: int | None) -> list[ChannelVolume]:
    found = request.scope.now.chosen.channels
    return [of for of in found if request.shows(of.slack_cid)][:most]


def _of_person(request: ViewRequest, most: int | None) -> Table:
    columns = (
        Column("channel", "Channel", Kind.CHANNEL),
        Column("rank", "Rank", Kind.COUNT),
        Column("messages", "Messages", Kind.COUNT),
        Column("words", "Words", Kind.COUNT, bar=True),
        Column("share", "Share of the channel's words", Kind.PERCENT),
        Column("change", "Change in words", Kind.CHANGE),
        Column("channel_messages", "Channel's messages", Kind.COUNT),
        Column("channel_words", "Channel's words", Kind.COUNT),
    )
    whole = {of.slack_cid: of for of in request.scope.all_now.chosen.channels}
    person = pl.col("slack_uid") == request.scope.person
    ranks = dict(
        request.scope.all_now.chosen.channel_authors.filter(person)
        .select("slack_cid", "rank")
        .iter_rows()
    )
    earlier = {of.slack_cid: of.w for of in request.scope.before.chosen.channels}
    rows = [
        (
            of.slack_cid,
            ranks[of.slack_cid],
            of.m,
            of.w,
            shown(percent(of.w, whole[of.slack_cid].w)),
            request.scope.change(of.w, earlier.get(of.slack_cid)),
            whole[of.slack_cid].m,
            whole[of.slack_cid].w,
        )
        for of in _listed(request, most)
    ]
    full = "channels" if len(rows) < len(_listed(request, None)) else ""
    return Table("channels", "This person's channels", columns, tuple(rows), whole=full)
