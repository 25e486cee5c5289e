"""Who writes how much.

Rule: people are ranked by messages, as everywhere. With a person chosen there is a second table,
of those the person interacts with.
"""

from typing import Final

import polars as pl

from channelstats.facts.interactions import interactions
from channelstats.metrics import registry
from channelstats.metrics.quantities import ranked
from channelstats.metrics.query import entries
from channelstats.metrics.table import Table
from channelstats.pages.components import By, ranking, table, tiles
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section
from channelstats.tables.columns import ID

_OF_ALL: Final = (
    registry.POSTERS,
    registry.POSTING,
    registry.MEDIAN_MESSAGES,
    registry.MESSAGES,
    registry.WORDS,
    registry.WORDS_PER_POSTER,
    registry.TOP_TEN,
    registry.HALF,
    registry.REACTIONS,
    registry.ANSWERS,
)
_OF_PERSON: Final = (
    registry.MESSAGES,
    registry.WORDS,
    registry.SHARE_OF_MESSAGES,
    registry.REACTIONS,
    registry.REACTIONS_GIVEN,
    registry.ANSWERS,
)

_POSTED: Final = pl.col("messages") > 0

_PARTNERS: Final = (
    "reactions_from",
    "reacted_to",
    "thread_responders",
    "author_thread_responded",
    "mentioned_you",
    "you_mentioned",
)
"""The people groups of a person, one column each."""


def view(request: ViewRequest) -> Page:
    scope = request.scope
    if scope.person:
        return request.page(
            "How much this person writes and gets back, and who they interact with.",
            Section.of(people_table(request)),
            Section.of(partner_table(request)),
            tiles=tiles(scope, *_OF_PERSON),
        )
    return request.page(
        "Who writes how much and gets how much back, most messages first.",
        Section.of(people_table(request)),
        *_only_answered(request),
        tiles=tiles(scope, *_OF_ALL),
    )


def people_table(request: ViewRequest, most: int | None = None) -> Table:
    """Everybody who posted, or the first so many; or the person chosen."""
    scope = request.scope
    # As many as the tiles count. Who only got replies is in a table of their own.
    chosen = pl.col("person") == scope.person if scope.person else _POSTED
    metrics = ("messages", "words", "share", "reactions", "reactions_given", "answers", "change")
    received = {
        "reactions": registry.REACTIONS_RECEIVED,
        "reactions_given": registry.at_least(registry.REACTIONS_GIVEN, scope.now.whole),
    }
    title = "This person" if scope.person else ""
    return ranking(
        request, By.PERSON, "rank", *metrics, title=title, where=chosen, most=most, called=received
    )


def _only_answered(request: ViewRequest) -> list[Section]:
    """Who wrote nothing, while others replied in threads they started before; if anybody."""
    people = entries(request.scope.now.whole, "person", ("reactions_given",))
    rows = people.filter(~_POSTED).select("person", "answers", "reactions_given")
    if rows.is_empty():
        return []
    about = "People who wrote nothing in this period, and whose earlier threads others replied to."
    return [Section.of(table("only_answered", "Only replied to", rows, about=about))]


def partner_table(request: ViewRequest) -> Table:
    """Who the person interacts with, by every way, the most first."""
    ways, person = interactions(request.scope.now), request.scope.person
    others = pl.DataFrame(schema={"other": ID})
    for name in _PARTNERS:
        group = ways.group(name).filter(pl.col("uid") == person)
        counted = group.select("other", pl.col("n").alias(name))
        others = others.join(counted, on="other", how="full", coalesce=True)
    others = others.filter(pl.col("other") != person).with_columns(pl.exclude("other").fill_null(0))
    total = pl.sum_horizontal(*_PARTNERS).alias("total")
    rows = ranked(others.with_columns(total), ["total"], "other").select(
        "total", *_PARTNERS, person="other"
    )
    rows = rows.select("person", pl.exclude("person"))
    return table("partners", "Who this person interacts with", rows, bar="total")
