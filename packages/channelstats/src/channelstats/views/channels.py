"""Where people write.

Rule: channels are ranked by words, as everywhere. With a person chosen they are the person's, and
ranks and shares are the person's among the posters of each.
"""

from typing import Final

import polars as pl

from channelstats.stats.measures import Measures
from channelstats.stats.quantities import Formula, Quantity, percent, percent_of
from channelstats.stats.rankings import CHANNEL_FIGURES
from channelstats.views import figures
from channelstats.views.components import over_time, table, table_of, tiles, together
from channelstats.views.figures import Figure
from channelstats.views.loading import ViewRequest
from channelstats.views.model import Page, Section, Table

_MOVES: Final = (figures.JOINS, figures.LEAVES)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    volume, moved = (figures.MESSAGES, figures.WORDS), (figures.FILES, *_MOVES)
    if scope.person:
        return request.page(
            "Where this person writes, and how much of each channel they write.",
            Section.of(channel_table(request)),
            tiles=tiles(scope, figures.PLACES, *volume),
        )
    private = [_private(request)] if request.data.known_channels["private"].any() else []
    shown = (figures.CHANNELS, *volume, *private, figures.LARGEST, *moved)
    if request.choice.channel:  # of one channel there is nothing to say of several
        shown = (figures.POSTERS, *volume, *moved)
    over = list[Section]()
    if any(of.period_messages.moves.height for of in scope):
        lines = {of.name: over_time(scope, of) for of in _MOVES}
        numbers = table_of("moves", figures.MOVES.title, lines)
        over.append(Section.of(together(figures.MOVES, lines), numbers))
    return request.page(
        "Where people write, most words first.",
        *over,
        Section.of(channel_table(request)),
        Section.of(_moves_table(request)),
        tiles=tiles(scope, *shown),
    )


def _private(request: ViewRequest) -> Figure:
    private = request.data.known_channels.filter("private")

    def measure(of: Measures) -> Quantity | None:
        found = of.messages.join(private, on="slack_cid", how="semi").height
        return percent(found, of.messages.height) if of.messages.height else None

    return figures.IN_PRIVATE._replace(measure=measure)


def channel_table(request: ViewRequest, most: int | None = None) -> Table:
    """Every channel, or the first so many; with a person, the person's."""
    scope, known = request.scope, request.data.known_channels
    found = request.listable(scope.channels)
    whole = "channels" if found.height > len(found[:most]) else ""
    found = found.head(most) if most else found
    change = scope.changes(Formula("w"))
    if scope.person:
        everybody = scope.now.whole
        own = everybody.channel_authors.filter(slack_uid=scope.person)
        sizes = everybody.channel_frame.select("slack_cid", all_m="m", all_words="w")
        beside_them = own.select("slack_cid", own_rank="rank").join(sizes, on="slack_cid")
        rows = found.join(beside_them, on="slack_cid", maintain_order="left").select(
            channel="slack_cid",
            rank="own_rank",
            messages="m",
            words="w",
            share=percent_of("w", "all_words").column().shown(),
            change=change,
            channel_messages="all_m",
            channel_words="all_words",
        )
        own_share = {"share": figures.SHARE_OF_CHANNEL}
        title = "This person's channels"
        return table("channels", title, rows, own_share, bar="words", whole=whole)
    rows = found.join(known, on="slack_cid", how="left", maintain_order="left").select(
        channel="slack_cid",
        messages="m",
        words="w",
        posters="posters",
        share=CHANNEL_FIGURES["percent"].column().shown(),
        words_per_poster=CHANNEL_FIGURES["words_per_poster"].column().shown(),
        change=change,
        new=pl.when("new").then(pl.lit("new")).otherwise(pl.lit("")),
        private=pl.when("private").then(pl.lit("private")).otherwise(pl.lit("")),
        members="members",
    )
    title = "Channels with the most words" if whole else "Channels"
    people = {"posters": figures.PEOPLE_THERE}
    return table("channels", title, rows, people, bar="words", whole=whole)


def _moves_table(request: ViewRequest) -> Table:
    """Of the channels that have any."""
    names = ("files", "joins", "leaves")
    found = request.listable(request.scope.channels)
    rows = found.filter(pl.sum_horizontal(names) > 0).rename({"slack_cid": "channel"})
    title = "Files, joins and leaves by channel"
    return table("moves_by_channel", title, rows.select("channel", *names))
