"""Reactions: which, to what, by whom.

Rule: a message's reactions are counted by what Slack says; people and emoji by those it lists,
which can be fewer.
"""

import polars as pl

from channelstats.stats.messages import REACTED
from channelstats.stats.quantities import Quantity, counts, percent, ranked, ratio, shown
from channelstats.views import figures
from channelstats.views.comparison import Selection
from channelstats.views.components import REACTIONS, message_table, over_time, table_of, tile
from channelstats.views.model import Column, Kind, Table
from channelstats.views.request import ViewContent, ViewRequest


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    different = _different_each if scope.person else _different
    title = "Reactions received" if scope.person else "Reactions"
    lines = over_time(scope, "reactions", title, Kind.COUNT, REACTIONS)
    tiles = [
        tile(scope, "reactions", title, Kind.COUNT, figures.reactions),
        tile(
            scope,
            "per_thousand_words",
            "Reactions per 1,000 words",
            Kind.NUMBER,
            figures.reactions_per_thousand,
        ),
        tile(scope, "reacted_to", "Messages with reactions", Kind.PERCENT, _reacted_share),
        tile(scope, "emoji", "Different emoji", Kind.COUNT, different),
    ]
    if scope.person:
        given = figures.reactions_given
        tiles.append(tile(scope, "reactions_given", "Reactions given", Kind.COUNT, given))
        lead = "Reactions to this person's messages, and who they react to."
        people = (
            _partners(request, "reactions_from", "receives", "Who reacts to this person"),
            _partners(request, "reacted_to", "gives", "Who this person reacts to"),
        )
    else:
        lead = "Which emoji people react with, to which messages, and who gives and gets most."
        people = (_receivers(request), _givers(request))
    return ViewContent(
        lead=lead,
        tiles=tuple(tiles),
        charts=(lines,),
        tables=(
            _emoji_table(request),
            message_table(
                request, "most_reacted", "Messages with the most reactions", REACTED, "Reactions"
            ),
            *people,
            table_of("reactions", "Over time", {"reactions": lines}, folded=True),
        ),
        notes=_notes(request),
    )


def _reacted_share(of: Selection) -> Quantity:
    return percent(of.messages.filter(pl.col("reaction_count") > 0).height, of.messages.height)


def _different(of: Selection) -> int:
    return of.period_messages.reactions["emoji"].n_unique()


def _different_each(of: Selection) -> int:
    """Of each person the different emoji they get, summed up."""
    return of.period_messages.reactions.select("slack_uid", "emoji").n_unique()


def _emoji_table(request: ViewRequest) -> Table:
    now, before = request.scope.now, request.scope.before
    found, earlier = (of.period_messages.emoji() for of in (now, before))
    total, words = sum(found.values()), figures.words(now)
    columns = (
        Column("emoji", "Emoji", Kind.EMOJI),
        Column("count", "Times", Kind.COUNT, bar=True),
        Column("share", "Share", Kind.PERCENT),
        Column("per_thousand_words", "Per 1,000 words", Kind.NUMBER),
        Column("change", "Change", Kind.CHANGE),
    )
    rows = tuple(
        (
            name,
            n,
            shown(percent(n, total)),
            shown(ratio(1000 * n, words)),
            request.scope.change(n, earlier.get(name, 0)),
        )
        for name, n in found.items()
    )
    return Table("emoji", "Emoji", columns, rows)


def _receivers(request: ViewRequest) -> Table:
    sizes = request.scope.now.messages.group_by("slack_uid").agg(n=pl.col("reaction_count").sum())
    found = ranked(sizes.filter(pl.col("n") > 0), ["n"], "slack_uid")
    return _people(request, "receivers", "Most reactions received", found)


def _givers(request: ViewRequest) -> Table:
    found = counts(request.scope.now.given.with_columns(all=pl.lit("")), "all", "reactor")
    return _people(request, "givers", "Most reactions given", found.select("reactor", "n"))


def _partners(request: ViewRequest, group: str, name: str, title: str) -> Table:
    interactions = request.scope.now.interactions.group(group)
    found = interactions.filter(pl.col("uid") == request.scope.person).select("other", "n")
    return _people(request, name, title, found)


def _people(request: ViewRequest, name: str, title: str, found: pl.DataFrame) -> Table:
    columns = (
        Column("person", "Person", Kind.PERSON),
        Column("reactions", "Reactions", Kind.COUNT, bar=True),
    )
    return Table(name, title, columns, tuple(found.iter_rows()) if request.names_people else ())


def _notes(request: ViewRequest) -> tuple[str, ...]:
    now = request.scope.now
    missing = figures.reactions(now) - now.period_messages.reactions.height
    if missing <= 0:
        return ()
    return (f"Slack does not say who gave {missing:,} of the reactions.",)
