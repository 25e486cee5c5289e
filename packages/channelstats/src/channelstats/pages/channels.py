"""Where people write.

Rule: channels are ranked by messages, as everywhere. With a person chosen they are the person's,
and ranks and shares are the person's among the posters of each.
"""

from typing import Final

import polars as pl

from channelstats.metrics import registry
from channelstats.metrics.quantities import Formula, percent_of, ranked
from channelstats.metrics.query import BY_MESSAGES, aggregated, compared, entries
from channelstats.metrics.table import Table
from channelstats.pages.components import By, lines_of, ranking, table, table_of, tiles, together
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section

_MOVES: Final = (registry.JOINS, registry.LEAVES)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    volume, moved = (registry.MESSAGES, registry.WORDS), (registry.FILES, *_MOVES)
    if scope.person:
        return request.page(
            "Where this person writes, and how much of each channel they write.",
            Section.of(channel_table(request)),
            tiles=tiles(scope, registry.PLACES, *volume),
        )
    private = [registry.IN_PRIVATE] if request.data.known_channels["private"].any() else []
    metrics = (registry.CHANNELS, *volume, *private, registry.LARGEST, *moved)
    if request.choice.channel:  # of one channel there is nothing to say of several
        metrics = (registry.POSTERS, *volume, *moved)
    over = list[Section]()
    if any(part.table("moves").height for part in scope):
        lines = {metric.name: lines_of(scope, metric) for metric in _MOVES}
        numbers = table_of("moves", registry.MOVES.title, lines)
        over.append(Section.of(together(registry.MOVES, lines), numbers))
    return request.page(
        "Where people write, most messages first.",
        *over,
        Section.of(channel_table(request)),
        Section.of(_moves_table(request)),
        tiles=tiles(scope, *metrics),
    )


def channel_table(request: ViewRequest, most: int | None = None) -> Table:
    """Every channel, or the first so many; with a person, the person's."""
    if request.scope.person:
        return _persons_channels(request, most)
    metrics = ("messages", "words", "posters", "share", "words_per_poster", "change")
    known = ("new", "private", "members")
    people = {"posters": registry.PEOPLE_THERE}
    return ranking(request, By.CHANNEL, *metrics, *known, most=most, called=people)


def _persons_channels(request: ViewRequest, most: int | None) -> Table:
    """With the person's place among those who posted in each."""
    scope, everybody = request.scope, request.scope.now.whole
    sizes = entries(everybody, "channel", ())
    there = aggregated(everybody, ("channel", "person"), ("messages", "words"))
    places = (
        ranked(there, BY_MESSAGES, "person")
        .with_columns(place=pl.int_range(1, pl.len() + 1).over("channel"))
        .filter(person=scope.person)
    )
    own = request.listable(compared(scope, "channel", ()), "channel").drop("place")
    rows = (
        own.head(most or own.height)
        .join(places.select("channel", "place"), on="channel", how="left", maintain_order="left")
        .join(
            sizes.select("channel", channel_messages="messages", channel_words="words"),
            on="channel",
            how="left",
            maintain_order="left",
        )
        .select(
            "channel",
            "messages",
            "words",
            "channel_messages",
            "channel_words",
            rank="place",
            share=percent_of("messages", "channel_messages").shown(),
            change=scope.changes(Formula("messages")),
        )
    )
    order = ("channel", "rank", "messages", "words", "share", "change")
    whole = "channels" if rows.height < own.height else ""
    own_share = {"share": registry.SHARE_OF_CHANNEL}
    title = "This person's channels"
    rows = rows.select(*order, "channel_messages", "channel_words")
    return table("channels", title, rows, own_share, bar="messages", whole=whole)


def _moves_table(request: ViewRequest) -> Table:
    """Of the channels that have any."""
    names = ("files", "joins", "leaves")
    some = pl.sum_horizontal(names) > 0
    title = "Files, joins and leaves by channel"
    return ranking(
        request, By.CHANNEL, *names, title=title, name="moves_by_channel", where=some, bar=""
    )
