"""All of it at a glance, and how much was said over time.

Rule: nothing is at a glance that is not in another view, and nothing differs from there. The points
of a volume add up to the tiles, but for people: who posts in two weeks is one poster.
"""

from typing import Final

from channelstats.metrics import registry
from channelstats.pages.channels import channel_table
from channelstats.pages.components import lines_of, table_of, tiles
from channelstats.pages.hours import heat_map, zone_notes
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section
from channelstats.pages.people import people_table
from channelstats.pages.queue import SHOWN, items, queue
from channelstats.pages.summary import summary

_TOP: Final = 10

_VOLUME: Final = (registry.MESSAGES, registry.WORDS)
_THREADS: Final = (
    registry.THREADS_STARTED,
    registry.FIRST_REPLY,
    registry.UNANSWERED_SHARE._replace(key="unanswered"),
)
_OF_ALL: Final = (
    registry.POSTERS,
    registry.MESSAGES,
    registry.FIRST_TIME,
    registry.FIRST_REPLY,
    registry.OPEN_QUESTIONS,
)
_OF_PERSON: Final = (
    *_VOLUME,
    registry.SHARE_OF_MESSAGES,
    *_THREADS,
    registry.REACTIONS,
    registry.REACTIONS_GIVEN,
    registry.ANSWERS,
)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    lines = lines_of(scope, registry.MESSAGES)
    lead = "How much was written, by how many people, where and when, compared with before."
    first = [queue(items(request), SHOWN)]
    if scope.person:
        lead = "What one person wrote and got back, compared with the average person who posted."
        first = []
    return request.page(
        lead,
        *first,
        Section.of(lines, table_of("messages", "Messages", {"messages": lines})),
        heat_map(request),
        Section.of(channel_table(request, _TOP).without("files", "joins", "leaves")),
        Section.of(people_table(request, _TOP)),
        summary=summary(request),
        tiles=tiles(scope, *(_OF_PERSON if scope.person else _OF_ALL)),
        notes=zone_notes(request),
    )


def volume(request: ViewRequest) -> Page:
    scope = request.scope
    people = () if scope.person else (registry.POSTERS,)
    charts = {metric.key: lines_of(scope, metric) for metric in (*_VOLUME, *people)}
    return request.page(
        "How much was written and by how many people, compared with before.",
        *map(Section.of, charts.values()),
        Section.of(table_of("volume", "Over time", charts)),
        tiles=tiles(scope, *_VOLUME, registry.WORDS_PER_MESSAGE, *people),
    )
