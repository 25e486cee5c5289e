"""All of it at a glance, and how much was said over time.

Rule: nothing is at a glance that is not in another view, and nothing differs from there. The points
of a volume add up to the tiles, but for people: who posts in two weeks is one poster.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from channelstats.facts.facts import Slice
from channelstats.metrics import registry
from channelstats.metrics.metric import Metric
from channelstats.metrics.table import Table
from channelstats.pages.channels import channel_table
from channelstats.pages.components import lines_of, table_of, tiles
from channelstats.pages.hours import heat_map, zone_notes
from channelstats.pages.loading import ViewRequest
from channelstats.pages.model import Page, Section
from channelstats.pages.people import people_table
from channelstats.pages.queue import SHOWN, items, queue
from channelstats.pages.summary import summary
from channelstats.pages.threads import most_replied

_TOP: Final = 8
_TOP_THREADS: Final = 5

_VOLUME: Final = (registry.MESSAGES, registry.WORDS)
_THREADS: Final = (
    registry.THREADS_STARTED,
    registry.FIRST_REPLY,
    registry.UNANSWERED_SHARE._replace(key="unanswered"),
)
_OF_ALL: Final = (
    registry.POSTERS,
    registry.MESSAGES,
    registry.NEWCOMERS_STAYED,
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

CHARTS: Final = tuple(dict.fromkeys(metric.key for metric in (*_OF_ALL, *_OF_PERSON)))
"""Names of the charts of which the tiles show one at a time."""

_ELSEWHERE: Final = (
    *("rank", "words", "share", "words_per_poster", "channel_messages", "channel_words"),
    *("new", "private", "members", "reactions", "reactions_given", "answers"),
)
"""Columns of channels and people that only the views of these have."""


def view(request: ViewRequest) -> Page:
    scope = request.scope
    lead = "How much was written, by how many people, where and when, compared with before."
    first, people = [queue(items(request), SHOWN)], [people_table(request, _TOP)]
    stayed = registry.NEWCOMERS_STAYED
    metrics = [_stayed(scope.now) if metric is stayed else metric for metric in _OF_ALL]
    if scope.person:
        lead = "What one person wrote and got back, compared with the average person who posted."
        first, people = [], []
        metrics = list(_OF_PERSON)
    panels = [channel_table(request, _TOP), *people]
    return request.page(
        lead,
        _over_time(request, metrics),
        *first,
        *(Section.of(panel.without(*_ELSEWHERE)) for panel in panels),
        heat_map(request),
        Section.of(_most_replied(request)),
        summary=summary(request),
        tiles=tiles(scope, *metrics),
        notes=zone_notes(request),
    )


def _over_time(request: ViewRequest, metrics: Sequence[Metric]) -> Section:
    """Each of these metrics over time, as a chart and the table of its numbers."""
    charts = {
        metric.name: lines_of(request.scope, metric)
        for metric in metrics
        if metric.formula or metric.by_point
    }
    first = next(iter(charts.values()))
    parts = (
        (chart, table_of(chart.name, chart.title, {name: chart})) for name, chart in charts.items()
    )
    return Section(first.title, tuple(chain.from_iterable(parts)))


def _stayed(now: Slice) -> Metric:
    """Newcomers who stayed, and how many these are of how many."""
    metric, since = registry.NEWCOMERS_STAYED, registry.newcomers_since(now)
    stayed, new = since["ts"].count(), since.height
    about = f"{stayed:,} of {new:,} who first posted in the period before posted again in this one."
    return metric._replace(about=about) if new else metric


def _most_replied(request: ViewRequest) -> Table:
    """The first threads of the view of these."""
    threads = most_replied(request)
    rows = threads.rows.head(_TOP_THREADS)
    whole = "threads" if rows.height < threads.rows.height else ""
    return replace(threads, rows=rows, whole=whole)


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
