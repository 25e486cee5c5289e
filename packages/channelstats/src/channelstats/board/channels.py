"""Where things are said.

Rule: channels are ranked by words, as everywhere. With a person chosen they are the person's, and
ranks and shares are the person's among the posters of each.
"""

import polars as pl

from channelstats.board import figures
from channelstats.board.asked import Asked, Parts
from channelstats.board.model import Cell, Column, Kind, Table
from channelstats.board.pieces import tile
from channelstats.board.scope import Look
from channelstats.stats.channels import FIGURES, ChannelTalk, is_new
from channelstats.stats.compare import change
from channelstats.stats.quantities import Quantity, percent, shown


def view(asked: Asked) -> Parts:
    scope = asked.scope
    count = _places if scope.person else _count
    tiles = [
        tile(scope, "channels", "Channels written in", Kind.COUNT, count),
        tile(scope, "messages", "Messages", Kind.COUNT, figures.messages),
        tile(scope, "words", "Words", Kind.COUNT, figures.words),
    ]
    if scope.person:
        return Parts(
            lead="Where this person writes, and how much of each channel that is.",
            tiles=tuple(tiles),
            tables=(channel_table(asked),),
        )
    tiles.append(tile(scope, "largest", "Share of the largest", Kind.PERCENT, _largest))
    return Parts(
        lead="Where things are said, the most words first.",
        tiles=tuple(tiles),
        tables=(channel_table(asked),),
    )


def _count(of: Look) -> int:
    return len(of.chosen.channels)


def _places(of: Look) -> int:
    """Of each person the channels they write in, summed up."""
    return of.chosen.channel_authors.height


def _largest(of: Look) -> Quantity | None:
    return next((FIGURES["percent"](channel) for channel in of.chosen.channels), None)


def channel_table(asked: Asked, most: int | None = None) -> Table:
    """Every channel, or the first so many; with a person, the person's."""
    if asked.scope.person:
        return _of_person(asked, most)
    now, before = asked.scope.now, asked.scope.before
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
    for of in _listed(asked, most):
        known = asked.data.channels.get(of.slack_cid)
        rows.append(
            (
                of.slack_cid,
                of.m,
                of.w,
                of.posters,
                shown(FIGURES["percent"](of)),
                shown(FIGURES["words_per_poster"](of)),
                change(of.w, earlier.get(of.slack_cid)),
                "new" if is_new(known, now.period) else "",
                known.members if known else None,
            )
        )
    return Table("channels", "Channels", columns, tuple(rows))


def _listed(asked: Asked, most: int | None) -> list[ChannelTalk]:
    found = asked.scope.now.chosen.channels
    return [of for of in found if asked.shows(of.slack_cid)][:most]


def _of_person(asked: Asked, most: int | None) -> Table:
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
    whole = {of.slack_cid: of for of in asked.scope.all_now.chosen.channels}
    person = pl.col("slack_uid") == asked.scope.person
    ranks = dict(
        asked.scope.all_now.chosen.channel_authors.filter(person)
        .select("slack_cid", "rank")
        .iter_rows()
    )
    earlier = {of.slack_cid: of.w for of in asked.scope.before.chosen.channels}
    rows = [
        (
            of.slack_cid,
            ranks[of.slack_cid],
            of.m,
            of.w,
            shown(percent(of.w, whole[of.slack_cid].w)),
            change(of.w, earlier.get(of.slack_cid)),
            whole[of.slack_cid].m,
            whole[of.slack_cid].w,
        )
        for of in _listed(asked, most)
    ]
    return Table("channels", "Channels of this person", columns, tuple(rows))
