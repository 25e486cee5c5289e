"""Who writes how much.

Rule: people are ranked by words, as everywhere. With a person chosen there is a second table,
of those the person interacts with.
"""

from typing import Final

import polars as pl

from channelstats.stats.quantities import ranked, ratio, shown
from channelstats.stats.rankings import AUTHOR_FIGURES
from channelstats.views import figures
from channelstats.views.comparison import Comparison
from channelstats.views.components import tile
from channelstats.views.model import Cell, Column, Kind, Table, Tile
from channelstats.views.request import ViewContent, ViewRequest
from channelstats.views.slack_components import slack_members

_PARTNERS: Final = {
    "reactions_from": "Reactions from",
    "reacted_to": "Reactions to",
    "thread_responders": "Replies from",
    "author_thread_responded": "Replies to",
    "mentioned_you": "Mentioned by",
    "you_mentioned": "Mentions of",
}
"""The people groups of a person, one column each."""


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    tiles = [
        tile(scope, "messages", "Messages", Kind.COUNT, figures.messages),
        tile(scope, "words", "Words", Kind.COUNT, figures.words),
    ]
    if scope.person:
        tiles += [
            share_tile(scope),
            tile(scope, "reactions", "Reactions received", Kind.COUNT, figures.reactions),
            tile(scope, "reactions_given", "Reactions given", Kind.COUNT, figures.reactions_given),
            tile(
                scope, "answers", "Replies to their threads", Kind.COUNT, figures.answers_received
            ),
        ]
        lead = "How much this person writes and gets back, and who they interact with."
    else:
        tiles.insert(0, tile(scope, "posters", "People who posted", Kind.COUNT, figures.posters))
        tiles += [
            tile(
                scope,
                "words_per_poster",
                "Words per person",
                Kind.NUMBER,
                lambda of: ratio(figures.words(of), of.posters),
            ),
            tile(scope, "reactions", "Reactions", Kind.COUNT, figures.reactions),
            tile(scope, "answers", "Replies to others", Kind.COUNT, figures.answers_received),
        ]
        lead = "Who writes how much and gets how much back, most words first."
    tables = [people_table(request)]
    if scope.person:
        tables.append(_partners(request))
    slack = slack_members(request)
    return ViewContent(
        lead, (*tiles, *slack.tiles), tables=(*tables, *slack.tables), notes=slack.notes
    )


def share_tile(scope: Comparison) -> Tile:
    """How much of all words a person writes."""
    name, title = "share_of_words", "Share of words"
    return tile(scope, name, title, Kind.PERCENT, figures.share_of_words, mean=True)


def people_table(request: ViewRequest, most: int | None = None) -> Table:
    """Everybody who posted or was answered, or the first so many; or the person chosen."""
    columns = (
        Column("rank", "Rank", Kind.COUNT),
        Column("person", "Person", Kind.PERSON),
        Column("messages", "Messages", Kind.COUNT),
        Column("words", "Words", Kind.COUNT, bar=True),
        Column("share", "Share of words", Kind.PERCENT),
        Column("reactions", "Reactions received", Kind.COUNT),
        Column("reactions_given", "Reactions given", Kind.COUNT),
        Column("answers", "Replies to their threads", Kind.COUNT),
        Column("change", "Change in words", Kind.CHANGE),
    )
    person = request.scope.person
    now, before = request.scope.all_now.chosen, request.scope.all_before.chosen
    earlier = {author.slack_uid: author.w for author in before.authors}
    found = [of for of in now.authors if not person or of.slack_uid == person]
    rows: list[tuple[Cell, ...]] = [
        (
            of.rank,
            of.slack_uid,
            of.m,
            of.w,
            shown(AUTHOR_FIGURES["percent_of_words"](of)),
            of.reactions,
            of.reactions_given,
            of.thread_messages,
            request.scope.change(of.w, earlier.get(of.slack_uid)),
        )
        for of in (found[:most] if request.names_people else ())
    ]
    whole = "people" if 0 < len(rows) < len(found) else ""
    title = "People with the most words" if whole else "This person" if person else "People"
    return Table("people", title, columns, tuple(rows), whole=whole)


def _partners(request: ViewRequest) -> Table:
    """Who the person interacts with, by every way, the most first."""
    interactions, person = request.scope.now.interactions, request.scope.person
    others = pl.DataFrame(schema={"other": pl.String})
    for name in _PARTNERS:
        group = interactions.group(name).filter(pl.col("uid") == person)
        column = group.select("other", pl.col("n").alias(name))
        others = others.join(column, on="other", how="full", coalesce=True)
    others = others.filter(pl.col("other") != person).with_columns(pl.exclude("other").fill_null(0))
    total = pl.sum_horizontal(*_PARTNERS).alias("total")
    found = ranked(others.with_columns(total), ["total"], "other").select(
        "other", "total", *_PARTNERS
    )
    columns = (
        Column("person", "Person", Kind.PERSON),
        Column("total", "Total", Kind.COUNT, bar=True),
        *(Column(name, title, Kind.COUNT) for name, title in _PARTNERS.items()),
    )
    return Table("partners", "Who this person interacts with", columns, tuple(found.iter_rows()))
