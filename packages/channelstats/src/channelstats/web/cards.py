"""How the sections of a page stand beside one another: cards, wide or narrow."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from channelstats.metrics.table import Kind, Table
from channelstats.pages.model import OVERVIEW, Chart, Page, Section, SeriesChart
from channelstats.pages.queue import QUEUE
from channelstats.render.charts.drawing import HALF, MAIN, WIDE

_RANKED: Final = frozenset({Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.MESSAGE})
_SHORT_TABLE: Final = 8
"""Rows that are shown without being asked for."""

_FEW_POINTS: Final = 13
_FEW_BARS: Final = 24
_SMALL_TABLE: Final = 3
"""Columns of a table of which two fit side by side."""


class Slot(StrEnum):
    """How wide a card is where there is room: as the page, half of that, most of it, the rest."""

    FULL = ""
    HALF = "half"
    MAIN = "main"
    SIDE = "aside"


WIDTHS: Final = {Slot.FULL: WIDE, Slot.HALF: HALF, Slot.MAIN: MAIN, Slot.SIDE: WIDE}
"""Widths of charts."""


class Card(msgspec.Struct, frozen=True):
    """A chart with the tables that are folded away below it, or a table without one."""

    title: str
    chart: Chart | None
    tables: tuple[Table, ...]
    place: Slot
    empty: str
    folded: bool = True


def cards_of(view: Page, chart: str) -> list[Card]:
    """The sections, small ones side by side; of several charts the one of this name."""
    cards = [_card(section.showing(chart)) for section in view.sections]
    return _panels(cards) if view.name == OVERVIEW else _paired(cards)


def _card(section: Section) -> Card:
    chart, tables = section.chart, section.tables
    if chart is not None:
        place = Slot.HALF if _is_small(chart) else Slot.FULL
        return Card(section.title, chart, tables, place, section.empty)
    is_narrow = all(len(table.columns) <= _SMALL_TABLE for table in tables)
    is_folded = any(map(_is_series, tables))
    place = Slot.HALF if is_narrow else Slot.FULL
    return Card(section.title, None, tables, place, section.empty, is_folded)


def _is_small(chart: Chart) -> bool:
    """Whether it needs no more than half the width."""
    if not isinstance(chart, SeriesChart):
        return False
    return len(chart.labels) <= (_FEW_POINTS if chart.is_over_time else _FEW_BARS)


def _is_series(table: Table) -> bool:
    """Whether it is a long row of numbers, as there is one behind a chart, and no ranking."""
    kinds = {column.kind for column in table.columns}
    return not kinds & _RANKED and table.rows.height > _SHORT_TABLE


def _paired(cards: Sequence[Card]) -> list[Card]:
    """A half card without another one of its kind beside it takes the whole width."""
    placed, at = list(cards), 0
    while at < len(placed):
        kinds = {(card.place, card.chart is None) for card in placed[at : at + 2]}
        if placed[at].place is Slot.HALF and (len(kinds) > 1 or at + 1 == len(placed)):
            placed[at] = msgspec.structs.replace(placed[at], place=Slot.FULL)
        at += 2 if placed[at].place is Slot.HALF else 1
    return placed


def _panels(cards: Sequence[Card]) -> list[Card]:
    """The chart beside what is to be done, where that is there, and two panels side by side."""
    is_side = [any(table.name == QUEUE for table in card.tables) for card in cards]
    places = [Slot.SIDE if side else Slot.HALF for side in is_side]
    places[0] = Slot.MAIN if any(is_side) else Slot.FULL
    if places.count(Slot.HALF) % 2:
        places[-1] = Slot.FULL
    return [
        msgspec.structs.replace(card, place=place, folded=False)
        for card, place in zip(cards, places, strict=True)
    ]
