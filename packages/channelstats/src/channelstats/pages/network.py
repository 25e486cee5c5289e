"""Who interacts with whom: mentions, replies and reactions, from one to another.

Rule: what people do to themselves does not count. The picture is the strongest part of the tables;
with a person chosen all are about the person, those they interact with, and the interactions among
these.
"""

from typing import Final

import polars as pl

from channelstats.facts.interactions import interactions
from channelstats.metrics import registry
from channelstats.metrics.quantities import ranked
from channelstats.metrics.registry import TOTAL_OF_PERSON
from channelstats.metrics.table import Table
from channelstats.pages.components import table, tiles
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Edge, Network, Node, Page, Section

MOST_NODES: Final = 60
MOST_EDGES: Final = 200
MOST_LISTED: Final = 10_000
"""Interactions in the table. Of long periods there can be millions."""

_OF_ALL: Final = (registry.INTERACTING, registry.PAIRS, registry.MUTUAL, registry.INTERACTIONS)
_OF_PERSON: Final = (registry.PARTNERS, registry.DONE, registry.RECEIVED)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    lead = "Who mentions, replies to and reacts to whom."
    if scope.person:
        lead = "Who this person interacts with, and how these interact with one another."
    edges = _around(interactions(scope.now).edges, scope.person)
    if not request.names_people:
        edges = edges.clear()
    people = _people(edges)
    return request.page(
        lead,
        Section.of(_network(edges, people)),
        Section.of(_edge_table(edges)),
        Section.of(
            table(
                "people", "People by interactions", people, {"total": TOTAL_OF_PERSON}, bar="total"
            )
        ),
        tiles=tiles(scope, *(_OF_PERSON if scope.person else _OF_ALL)),
    )


def _around(edges: pl.DataFrame, person: str) -> pl.DataFrame:
    """The edges between a person and those they interact with, and among these."""
    if not person:
        return edges
    one, other = pl.col("one"), pl.col("other")
    touching = edges.filter((one == person) | (other == person))
    known = sorted({*touching["one"], *touching["other"]})
    return edges.filter(one.is_in(known) & other.is_in(known))


def _people(edges: pl.DataFrame) -> pl.DataFrame:
    """Each `person`, and how often: `total`, `done` and `received`; the most first."""
    done = edges.group_by(person="one").agg(done=pl.col("n").sum())
    received = edges.group_by(person="other").agg(received=pl.col("n").sum())
    both = done.join(received, on="person", how="full", coalesce=True)
    both = both.with_columns(pl.exclude("person").fill_null(0))
    both = both.with_columns(total=pl.col("done") + pl.col("received"))
    return ranked(both, ["total"], "person").select("person", "total", "done", "received")


def _network(edges: pl.DataFrame, people: pl.DataFrame) -> Network:
    strongest = people.head(MOST_NODES)["person"].to_list()
    one, other = pl.col("one"), pl.col("other")
    among = edges.filter(one.is_in(strongest) & other.is_in(strongest))
    among = _strongest(among, MOST_EDGES)
    drawn = {*among["one"], *among["other"]}
    weights = people.select("person", "total").head(MOST_NODES).iter_rows()
    return Network(
        registry.NETWORK.name,
        registry.NETWORK.title,
        about=registry.NETWORK.about,
        nodes=tuple(Node(uid, weight) for uid, weight in weights if uid in drawn),
        edges=tuple(Edge(*row) for row in among.select("one", "other", "n").iter_rows()),
    )


def _strongest(edges: pl.DataFrame, most: int) -> pl.DataFrame:
    """The most first, then by `one` and `other`; at most so many."""
    if edges.height > most:
        n, least = pl.col("n"), edges["n"].top_k(most).min()
        # Nearly all are equals, of which only those of the first people are sorted.
        equals = edges.filter(n == least).group_by("one").len().sort("one")
        first = equals.filter(pl.col("len").cum_sum() - pl.col("len") < most)["one"]
        edges = edges.filter((n > least) | ((n == least) & pl.col("one").is_in(first.implode())))
    return ranked(edges, ["n"], "one", "other").head(most)


def _edge_table(edges: pl.DataFrame) -> Table:
    columns = ("one", "other", "n", "mentions", "replies", "reactions")
    rows = _strongest(edges, MOST_LISTED).select(columns)
    rows = rows.rename({"one": "from", "other": "to", "n": "total"})
    about = f"The strongest {rows.height:,} of {edges.height:,}." * (rows.height < edges.height)
    title = "Interactions from one person to another"
    called = {"reactions": registry.REACTIONS_OF_PAIR}
    return table("edges", title, rows, called, bar="total", about=about)
