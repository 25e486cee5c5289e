"""Where things are said.

Rule: channels are ranked by words, as everywhere. With a person chosen they are the person's, and
ranks and shares are the person's among the posters of each.
"""

import polars as pl

from channelstats.stats.channels import FIGURES, ChannelVolume, is_new
from channelstats.stats.quantities import Quantity, percent, shown
from channelstats.views import figures
from channelstats.views.comparison import Selection
from channelstats.views.components import tile
from channelstats.views.model import Cell, Column, Kind, Table
from channelstats.views.request import ViewContent, ViewRequest


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    count = _places if scope.person else _count
    tiles = [
        tile(scope, "channels", "Channels written in", Kind.COUNT, count),
        tile(scope, "messages", "Messages", Kind.COUNT, figures.messages),
        tile(scope, "words", "Words", Kind.COUNT, figures.words),
    ]
    if scope.person:
        return ViewContent(
            lead="Where this person writes, and how much of each channel that is.",
            tiles=tuple(tiles),
            tables=(channel_table(request),),
        )
    tiles.append(tile(scope, "largest", "Share of the largest", Kind.PERCENT, _largest))
    return ViewContent(
        lead="Where things are said, the most words first.",
        tiles=tuple(tiles),
        tables=(channel_table(request),),
    )


def _count(of: Selection) -> int:
    return len(of.chosen.channels)


def _places(of: Selection) -> int:
    """Of each person the channels they write in, summed up."""
    return of.chosen.channel_authors.height


def _largest(of: Selection) -> Quantity | None:
    return next((FIGURES["percent"](channel) for channel in of.chosen.channels), None)


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
        Column("change", "Change of words", Kind.CHANGE),
        Column("new", "New", Kind.TEXT),
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
                shown(FIGURES["percent"](of)),
                shown(FIGURES["words_per_poster"](of)),
                request.scope.change(of.w, earlier.get(of.slack_cid)),
                "new" if is_new(known, now.period) else "",
                known.members if known else None,
            )
        )
    return Table("channels", "Channels", columns, tuple(rows))


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
        Column("change", "Change of words", Kind.CHANGE),
        Column("channel_messages", "Messages of all", Kind.COUNT),
        Column("channel_words", "Words of all", Kind.COUNT),
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
    return Table("channels", "Channels of this person", columns, tuple(rows))
