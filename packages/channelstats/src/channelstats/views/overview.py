"""All of it at a glance.

Rule: nothing is here that is not in another view, and nothing differs from there.
"""

from typing import Final

from channelstats.views import figures
from channelstats.views.channels import channel_table
from channelstats.views.components import MESSAGES, over_time, table_of, tile
from channelstats.views.hours import heat_map, zone_notes
from channelstats.views.model import Kind, Tile
from channelstats.views.people import people_table, share_tile
from channelstats.views.request import ViewContent, ViewRequest

_TOP: Final = 10


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    lines = over_time(scope, "messages", "Messages", Kind.COUNT, MESSAGES)
    heat, heat_table = heat_map(request)
    if scope.person:
        lead = "What one person wrote and got back, compared with the average person who posted."
    else:
        lead = "How much was written, by how many people, where and when, compared with before."
    return ViewContent(
        lead=lead,
        tiles=_tiles(request),
        charts=(lines, heat),
        tables=(
            channel_table(request, _TOP),
            people_table(request, _TOP),
            table_of("messages", "Messages", {"messages": lines}, folded=True),
            heat_table,
        ),
        notes=zone_notes(request),
    )


def _tiles(request: ViewRequest) -> tuple[Tile, ...]:
    scope = request.scope
    volume = (
        tile(scope, "messages", "Messages", Kind.COUNT, figures.messages),
        tile(scope, "words", "Words", Kind.COUNT, figures.words),
    )
    threads = (
        tile(scope, "threads_started", "Threads started", Kind.COUNT, figures.threads_started),
        tile(
            scope,
            "first_reply",
            "Median time to first reply",
            Kind.SECONDS,
            figures.first_reply(50),
            less_is_better=True,
        ),
        tile(
            scope,
            "unanswered",
            "% unanswered",
            Kind.PERCENT,
            figures.unanswered_share,
            less_is_better=True,
        ),
    )
    if scope.person:
        return (
            *volume,
            share_tile(scope),
            *threads,
            tile(scope, "reactions", "Reactions received", Kind.COUNT, figures.reactions),
            tile(scope, "reactions_given", "Reactions given", Kind.COUNT, figures.reactions_given),
            tile(
                scope, "answers", "Replies to their threads", Kind.COUNT, figures.answers_received
            ),
        )
    return (
        tile(scope, "posters", "People who posted", Kind.COUNT, figures.posters),
        *volume,
        tile(scope, "top_ten", "Top 10's share of words", Kind.PERCENT, figures.top_ten),
        tile(scope, "first_time", "First-time posters", Kind.COUNT, figures.first_time_posters),
        *threads,
        tile(scope, "reactions", "Reactions", Kind.COUNT, figures.reactions),
    )
