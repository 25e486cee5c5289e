"""Reactions: which, to what, by whom.

Rule: a message's reactions are counted by what Slack says; people and emoji by those it lists,
which can be fewer.
"""

import polars as pl

from channelstats.facts.facts import REACTED
from channelstats.facts.interactions import interactions
from channelstats.metrics import registry
from channelstats.metrics.metric import Metric
from channelstats.metrics.quantities import Formula, beside, ranked
from channelstats.metrics.query import aggregated, column_of
from channelstats.metrics.table import Table
from channelstats.metrics.volume import volume
from channelstats.pages.components import lines_of, message_table, table, table_of, tiles
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section


def view(request: ViewRequest) -> Page:
    scope = request.scope
    lines = lines_of(scope, registry.REACTIONS)
    metrics = [registry.REACTIONS, registry.REACTION_RATE, registry.REACTED_TO]
    if scope.person:
        metrics += [registry.DIFFERENT_EMOJI_EACH, registry.REACTIONS_GIVEN]
        lead = "Reactions to this person's messages, and who they react to."
        people = (
            _partners(request, "reactions_from", "receives", "Who reacts to this person"),
            _partners(request, "reacted_to", "gives", "Who this person reacts to"),
        )
    else:
        metrics.append(registry.DIFFERENT_EMOJI)
        lead = "Which emoji people react with, to which messages, and who gives and gets most."
        people = (_receivers(request), _givers(request))
    most_reacted, counted_as = "Messages with the most reactions", registry.REACTIONS
    return request.page(
        lead,
        Section.of(lines, table_of("reactions", "Over time", {"reactions": lines})),
        Section.of(_emoji_table(request)),
        Section.of(message_table(request, "most_reacted", most_reacted, REACTED, counted_as)),
        *map(Section.of, people),
        tiles=tiles(scope, *metrics),
        notes=registry.unlisted_notes(scope.now),
    )


def _emoji_table(request: ViewRequest) -> Table:
    scope = request.scope
    now, before = (aggregated(part, ("emoji",), ("times_used",)) for part in scope)
    # What was not used before was used 0 times: it is not new.
    used = beside(ranked(now, ["times_used"], "emoji"), before, "emoji").with_columns(
        pl.col("times_used_before").fill_null(0),
        all_times_used=pl.col("times_used").sum(),
        words=pl.lit(volume(scope.now).words, pl.Int64),
        was=pl.lit(value=True),
    )
    rows = used.select(
        "emoji",
        count="times_used",
        share=column_of(scope, registry.SHARE_OF_REACTIONS),
        per_thousand_words=Formula("times_used", "words", 1000).shown(),
        change=scope.changes(Formula("times_used")),
    )
    called = {
        "count": registry.at_least(registry.TIMES_USED, scope.now),
        "share": registry.SHARE_OF_REACTIONS,
        "change": registry.CHANGE,
    }
    return table("emoji", "Emoji", rows, called, bar="count")


def _receivers(request: ViewRequest) -> Table:
    received = aggregated(request.scope.now, ("person",), ("reactions",))
    received = received.filter(pl.col("reactions") > 0)
    return _people("receivers", "Most reactions received", received, registry.REACTIONS)


def _givers(request: ViewRequest) -> Table:
    given = aggregated(request.scope.now, ("person",), ("reactions_given",))
    counted = registry.at_least(registry.REACTIONS_GIVEN, request.scope.now.whole)
    return _people("givers", "Most reactions given", given, counted)


def _partners(request: ViewRequest, group: str, name: str, title: str) -> Table:
    pairs = interactions(request.scope.now).group(group)
    partners = pairs.filter(pl.col("uid") == request.scope.person).select("other", "n")
    counted = registry.at_least(registry.REACTIONS_OF_PAIR, request.scope.now.whole)
    return _people(name, title, partners, counted)


def _people(name: str, title: str, people: pl.DataFrame, counted: Metric) -> Table:
    """A table of people and how often each reacted or was reacted to, the most first."""
    person, count = people.columns
    rows = ranked(people, [count], person).select(person=person, reactions=count)
    return table(name, title, rows, {"reactions": counted}, bar="reactions")
