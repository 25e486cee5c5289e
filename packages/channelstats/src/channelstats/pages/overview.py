"""All of it at a glance, and how much was said over time.

Rule: nothing is at a glance that is not in another view, and nothing differs from there. The points
of a volume add up to the tiles, but for people: who posts in two weeks is one poster.
"""

from typing import Final

from channelstats.pages import figures
from channelstats.pages.channels import channel_table
from channelstats.pages.components import over_time, table_of, tiles
from channelstats.pages.hours import heat_map, zone_notes
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section
from channelstats.pages.people import people_table
from channelstats.pages.queue import SHOWN, items, queue
from channelstats.pages.summary import summary

_TOP: Final = 10

_VOLUME: Final = (figures.MESSAGES, figures.WORDS)
_THREADS: Final = (
    figures.THREADS_STARTED,
    figures.FIRST_REPLY,
    figures.UNANSWERED_SHARE._replace(key="unanswered"),
)
_OF_ALL: Final = (
    figures.POSTERS,
    figures.MESSAGES,
    figures.FIRST_TIME,
    figures.FIRST_REPLY,
    figures.OPEN_QUESTIONS,
)
_OF_PERSON: Final = (
    *_VOLUME,
    figures.SHARE_OF_MESSAGES,
    *_THREADS,
    figures.REACTIONS,
    figures.REACTIONS_GIVEN,
    figures.ANSWERS,
)


def view(request: ViewRequest) -> Page:
    scope = request.scope
    lines = over_time(scope, figures.MESSAGES)
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
    people = () if scope.person else (figures.POSTERS,)
    charts = {figure.key: over_time(scope, figure) for figure in (*_VOLUME, *people)}
    return request.page(
        "How much was written and by how many people, compared with before.",
        *map(Section.of, charts.values()),
        Section.of(table_of("volume", "Over time", charts)),
        tiles=tiles(scope, *_VOLUME, figures.WORDS_PER_MESSAGE, *people),
    )
