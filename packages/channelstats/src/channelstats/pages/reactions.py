"""Reactions: which, to what, by whom.

Rule: a message's reactions are counted by what Slack says; people and emoji by those it lists,
which can be fewer.
"""

import polars as pl

from channelstats.stats.messages import REACTED
from channelstats.metrics.quantities import (
    Formula,
    beside,
    counts,
    percent_of,
    ranked,
)
from channelstats.stats.rankings import EMOJI_RATE
from channelstats.pages import figures
from channelstats.pages.components import message_table, over_time, table, table_of, tiles
from channelstats.metrics.registry import Figure
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section, Table


def view(request: ViewRequest) -> Page:
    scope = request.scope
    lines = over_time(scope, figures.REACTIONS)
    shown = [figures.REACTIONS, figures.REACTION_RATE, figures.REACTED_TO]
    if scope.person:
        shown += [figures.DIFFERENT_EMOJI_EACH, figures.REACTIONS_GIVEN]
        lead = "Reactions to this person's messages, and who they react to."
        people = (
            _partners(request, "reactions_from", "receives", "Who reacts to this person"),
            _partners(request, "reacted_to", "gives", "Who this person reacts to"),
        )
    else:
        shown.append(figures.DIFFERENT_EMOJI)
        lead = "Which emoji people react with, to which messages, and who gives and gets most."
        people = (_receivers(request), _givers(request))
    most_reacted, counted_as = "Messages with the most reactions", figures.REACTIONS
    return request.page(
        lead,
        Section.of(lines, table_of("reactions", "Over time", {"reactions": lines})),
        Section.of(_emoji_table(request)),
        Section.of(message_table(request, "most_reacted", most_reacted, REACTED, counted_as)),
        *map(Section.of, people),
        tiles=tiles(scope, *shown),
        notes=figures.unlisted_notes(scope.now),
    )


def _emoji_table(request: ViewRequest) -> Table:
    scope = request.scope
    now, before = (counts(of.period_messages.reactions, "emoji") for of in scope)
    # What was not used before was used 0 times: it is not new.
    found = beside(now, before, "emoji").with_columns(
        pl.col("n_before").fill_null(0),
        all=pl.col("n").sum(),
        w=pl.lit(scope.now.volume.words, pl.Int64),
        was=pl.lit(value=True),
    )
    rows = found.select(
        "emoji",
        count="n",
        share=percent_of("n", "all").column().shown(),
        per_thousand_words=EMOJI_RATE.column().shown(),
        change=scope.changes(Formula("n")),
    )
    of = {
        "count": figures.at_least(figures.TIMES_USED, scope.now),
        "share": figures.SHARE_OF_REACTIONS,
        "change": figures.CHANGE,
    }
    return table("emoji", "Emoji", rows, of, bar="count")


def _receivers(request: ViewRequest) -> Table:
    sizes = request.scope.now.messages.group_by("slack_uid").agg(n=pl.col(REACTED).sum())
    found = ranked(sizes.filter(pl.col("n") > 0), ["n"], "slack_uid")
    return _people("receivers", "Most reactions received", found, figures.REACTIONS)


def _givers(request: ViewRequest) -> Table:
    found = counts(request.scope.now.given, "reactor")
    counted = figures.at_least(figures.REACTIONS_GIVEN, request.scope.now.whole)
    return _people("givers", "Most reactions given", found, counted)


def _partners(request: ViewRequest, group: str, name: str, title: str) -> Table:
    interactions = request.scope.now.interactions.group(group)
    found = interactions.filter(pl.col("uid") == request.scope.person).select("other", "n")
    counted = figures.at_least(figures.REACTIONS_OF_PAIR, request.scope.now.whole)
    return _people(name, title, found, counted)


def _people(name: str, title: str, found: pl.DataFrame, counted: Figure) -> Table:
    """A table of people and how often each reacted or was reacted to."""
    person, count = found.columns
    rows = found.select(person=person, reactions=count)
    return table(name, title, rows, {"reactions": counted}, bar="reactions")
