"""Where people write.

Rule: channels are ranked by messages, as everywhere. With a person chosen they are the person's,
and ranks and shares are the person's among the posters of each.
"""

from typing import Final

import polars as pl

from channelstats.stats.measures import Measures
from channelstats.metrics.quantities import (
    MESSAGES_THEN_WORDS,
    Formula,
    Quantity,
    percent,
    percent_of,
    ranked,
)
from channelstats.pages import figures
from channelstats.pages.components import over_time, table, table_of, tiles, together
from channelstats.metrics.registry import Figure
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section, Table
from channelstats.pages.ranking import By, ranking

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
        "Where people write, most messages first.",
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
    if request.scope.person:
        return _persons_channels(request, most)
    metrics = ("messages", "words", "posters", "share", "words_per_poster", "change")
    known = ("new", "private", "members")
    people = {"posters": figures.PEOPLE_THERE}
    return ranking(request, By.CHANNEL, *metrics, *known, most=most, called=people)


def _persons_channels(request: ViewRequest, most: int | None) -> Table:
    """With the person's place among those who posted in each."""
    scope, everybody = request.scope, request.scope.now.whole
    places = ranked(everybody.channel_authors, MESSAGES_THEN_WORDS, "slack_uid").with_columns(
        place=pl.int_range(1, pl.len() + 1).over("slack_cid")
    )
    sizes = everybody.channel_frame.select("slack_cid", all_m="m", all_w="w")
    own = places.filter(slack_uid=scope.person).select("slack_cid", "place")
    found = ranked(request.listable(scope.channels), MESSAGES_THEN_WORDS, "slack_cid")
    rows = (
        found.drop("all_w")
        .head(most or found.height)
        .join(own, on="slack_cid", how="left", maintain_order="left")
        .join(sizes, on="slack_cid", how="left", maintain_order="left")
        .select(
            channel="slack_cid",
            rank="place",
            messages="m",
            words="w",
            share=percent_of("m", "all_m").column().shown(),
            change=scope.changes(Formula("m")),
            channel_messages="all_m",
            channel_words="all_w",
        )
    )
    whole = "channels" if rows.height < found.height else ""
    own_share = {"share": figures.SHARE_OF_CHANNEL}
    title = "This person's channels"
    return table("channels", title, rows, own_share, bar="messages", whole=whole)


def _moves_table(request: ViewRequest) -> Table:
    """Of the channels that have any."""
    names = ("files", "joins", "leaves")
    some = pl.sum_horizontal(names) > 0
    title = "Files, joins and leaves by channel"
    return ranking(
        request, By.CHANNEL, *names, title=title, name="moves_by_channel", where=some, bar=""
    )
