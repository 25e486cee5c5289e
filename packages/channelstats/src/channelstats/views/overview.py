"""All of it at a glance, and how much was said over time.

Rule: nothing is at a glance that is not in another view, and nothing differs from there. The points
of a volume add up to the tiles, but for people: who posts in two weeks is one poster.
"""

from typing import Final

from channelstats.views import figures
from channelstats.views.channels import channel_table
from channelstats.views.components import over_time, table_of, tiles
from channelstats.views.hours import heat_map, zone_notes
from channelstats.views.loading import ViewContent, ViewRequest
from channelstats.views.people import people_table
from channelstats.views.queue import SHOWN, items, queue

_TOP: Final = 10

_VOLUME: Final = (figures.MESSAGES, figures.WORDS)
_THREADS: Final = (
    figures.THREADS_STARTED,
    figures.FIRST_REPLY,
    figures.UNANSWERED_SHARE._replace(key="unanswered"),
)
_OF_ALL: Final = (
    figures.POSTERS,
    *_VOLUME,
    figures.TOP_TEN,
    figures.FIRST_TIME,
    *_THREADS,
    figures.REACTIONS,
)
_OF_PERSON: Final = (
    *_VOLUME,
    figures.SHARE_OF_WORDS,
    *_THREADS,
    figures.REACTIONS,
    figures.REACTIONS_GIVEN,
    figures.ANSWERS,
)


def view(request: ViewRequest) -> ViewContent:
    scope = request.scope
    lines = over_time(scope, figures.MESSAGES)
    heat, heat_table = heat_map(request)
    lead = "How much was written, by how many people, where and when, compared with before."
    if scope.person:
        lead = "What one person wrote and got back, compared with the average person who posted."
    return ViewContent(
        lead=lead,
        tiles=tiles(scope, *(_OF_PERSON if scope.person else _OF_ALL)),
        charts=(lines, heat),
        tables=(
            *(() if scope.person else (queue(request, items(request), SHOWN),)),
            channel_table(request, _TOP).without("files", "joins", "leaves"),
            people_table(request, _TOP),
            table_of("messages", "Messages", {"messages": lines}, below=lines.name),
            heat_table,
        ),
        notes=zone_notes(request),
    )


def volume(request: ViewRequest) -> ViewContent:
    scope = request.scope
    people = () if scope.person else (figures.POSTERS,)
    charts = {figure.key: over_time(scope, figure) for figure in (*_VOLUME, *people)}
    return ViewContent(
        lead="How much was written and by how many people, compared with the period before.",
        tiles=tiles(scope, *_VOLUME, figures.WORDS_PER_MESSAGE, *people),
        charts=tuple(charts.values()),
        tables=(table_of("volume", "Over time", charts),),
    )
