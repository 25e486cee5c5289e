"""What the templates ask for: cells, bars, charts, addresses.

Rule: what came from outside is text, never markup; a number has one way to be written.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final, cast
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup, escape

from channelstats.days import minute_text
from channelstats.identifiers import seconds
from channelstats.render.charts.bars import bars
from channelstats.render.charts.drawing import HALF, NARROW, WIDE, colour
from channelstats.render.charts.heat import heat, ranges
from channelstats.render.charts.lines import lines
from channelstats.render.charts.network import network
from channelstats.render.emoji_signs import sign
from channelstats.render.goals import goal_state
from channelstats.render.names import Directory
from channelstats.render.words import NOTHING, change_text, date_text, figure_text
from channelstats.stats.compare import Change
from channelstats.stats.period import WEEK
from channelstats.views.frame_rows import FrameRows, column_of
from channelstats.views.goals import Bound, measured
from channelstats.views.model import (
    VIEWS,
    Bars,
    Cell,
    Chart,
    Column,
    Heat,
    Kind,
    Lines,
    Network,
    Row,
    Series,
    Table,
    Tile,
    View,
)
from channelstats.web.filters import PRESETS, Query
from channelstats.web.table_pages import TablePage, TableQuery, table_pages

_NUMERIC: Final = frozenset({Kind.COUNT, Kind.NUMBER, Kind.PERCENT, Kind.SECONDS})
_HEADING: Final = (Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.DATE, Kind.TEXT, Kind.MESSAGE)
_ARROWS: Final[Mapping[str, str]] = {"up": "▲", "down": "▼", "new": "★", "from_zero": "▲"}
_MEANING: Final[Mapping[str, tuple[str, str]]] = {
    "up": ("worse", "worse"),
    "from_zero": ("worse", "worse"),
    "down": ("better", "better"),
}
"""Of numbers that are better the smaller they are: the class, and the word."""

_FEWEST_ABREAST: Final = 3
_SHORT_TABLE: Final = 8
"""Rows that are shown without being asked for."""

_FEW_POINTS: Final = 13
_FEW_BARS: Final = 24
_SMALL_TABLE: Final = 3
"""Columns of a table of which two fit side by side."""


class Card(msgspec.Struct, frozen=True):
    """A chart with the tables that are folded away below it, or a table without one."""

    title: str
    chart: Chart | None
    tables: tuple[Table, ...]
    half: bool = False
    folded: bool = False


class ViewContext:
    """One view, as its page shows it. Every ID in it is one that may be shown.

    :raises BadQuery: of ``table`` there is no such table, column or page
    """

    def __init__(
        self,
        view: View,
        asked: Query,
        directory: Directory,
        zone: ZoneInfo,
        table: TableQuery = TableQuery(),  # noqa: B008 - frozen
        goals: Sequence[Bound] = (),
    ) -> None:
        self.view, self.asked = view, asked
        self._goals = measured(view, goals)
        self._directory = directory
        self._zone = zone
        self._table = table
        self._pages = table_pages(view.tables, table, self._text)

    # ── cards ────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def cards(self) -> list[Card]:
        """Charts with what is below them, then the other tables; small ones side by side."""
        names = {chart.name for chart in self.view.charts}
        found = [
            Card(
                chart.title,
                chart,
                tuple(table for table in self.view.tables if table.chart == chart.name),
                half=isinstance(chart, Lines | Bars) and _is_small(chart),
            )
            for chart in self.view.charts
        ]
        others = [table for table in self.view.tables if table.chart not in names]
        found += [
            Card(
                table.title,
                None,
                (table,),
                half=len(table.columns) <= _SMALL_TABLE,
                folded=_is_series(table),
            )
            for table in others
        ]
        return _paired(found)

    @property
    def tiles_abreast(self) -> int:
        """How many tiles stand side by side where there is room: the most of which the last row is
        nearly full.
        """
        count = max(len(self.view.tiles), _FEWEST_ABREAST)
        full = ((min(wide, count), (count - 1) % min(wide, count) + 1) for wide in (5, 4))
        return next((wide for wide, last in full if last >= 0.75 * wide), _FEWEST_ABREAST)

    # ── numbers ──────────────────────────────────────────────────────────────────────────────────

    def figure(self, tile: Tile) -> str:
        return NOTHING if tile.change is None else figure_text(tile.change["cur"], tile.kind)

    def before(self, tile: Tile) -> str:
        """The number of the days before; "" where there is none."""
        if tile.change is None or tile.change["prev"] is None:
            return ""
        return figure_text(tile.change["prev"], tile.kind)

    def goals(self, tile: Tile) -> list[str]:
        """The goals of a tile and whether they were met. They are those of the whole workspace, and
        of counts those of a week.
        """
        choice = self.view.choice
        if choice.channel or choice.person:
            return []
        if tile.kind is Kind.COUNT and (choice.last - choice.first).days + 1 != WEEK:
            return []
        figure = f"{self.view.name}.{tile.name}"
        return [goal_state(goal) for goal in self._goals if goal.bound.figure == figure]

    def everyone(self, tile: Tile) -> str:
        if tile.everyone is None:
            return ""
        kind = Kind.NUMBER if tile.kind is Kind.COUNT else tile.kind
        return figure_text(tile.everyone, kind)

    def delta(
        self, change: Change | None, kind: Kind = Kind.NUMBER, *, less_is_better: bool = False
    ) -> Markup:
        """How a number changed: percentages in points. It has a colour only where it is certain
        what is better; a word says it too.
        """
        if change is None or change["state"] == "not_compared":
            return Markup("")
        state, text = change["state"], change_text(change, kind)
        if not text:
            return Markup('<span class="delta">no change</span>')
        colour, word = _MEANING.get(state, ("", "")) if less_is_better else ("", "")
        shown = Markup('<span class="delta {}"><span aria-hidden="true">{}</span> {}</span>')
        return shown.format(colour, _ARROWS[state], f"{text}, {word}" if word else text)

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    def alignment(self, column: Column) -> str:
        """The class of a column's cells."""
        return "numeric" if column.kind in _NUMERIC else str(column.kind)

    def heading(self, table: Table) -> int:
        """The column whose cells name the rows; -1 when none does."""
        kinds = [column.kind for column in table.columns]
        return next((at for at, kind in enumerate(kinds) if kind in _HEADING), -1)

    def page(self, table: Table) -> TablePage:
        """The rows that are shown."""
        return self._pages[table.name]

    def is_asked(self, table: Table) -> bool:
        """Whether the address is about this table: it is then not folded away."""
        return table.name == self._table.table

    def most(self, table: Table) -> list[float]:
        """The largest number of each column with bars."""
        return [_most(table.rows, at) if of.bar else 0 for at, of in enumerate(table.columns)]

    def terms(self, table: Table) -> list[Column]:
        """The columns that need words."""
        return [column for column in table.columns if column.about]

    def meter(self, cell: Cell, most: float) -> Markup:
        part = 100 * _number(cell) / most if most > 0 else 0
        shape = Markup(
            '<svg class="meter" aria-hidden="true" preserveAspectRatio="none" viewBox="0 0 100 4">'
            '<rect width="{:.1f}" height="4" rx="2"/></svg>'
        )
        return shape.format(max(part, 0))

    def cell(self, cell: Cell, kind: Kind) -> Markup:
        """A cell as it is shown."""
        if cell is None or cell == "":
            return escape(NOTHING if kind in _NUMERIC else "")
        if kind is Kind.CHANGE:
            return self._changed(cast("Change", cell))
        if isinstance(cell, int | float):
            return escape(figure_text(cell, kind))
        text = str(cell)
        if kind is Kind.PERSON:
            people = self._directory.people
            return self._choice("person", text, self._text(text, kind), text in people)
        if kind is Kind.CHANNEL:
            channels = self._directory.channels
            return self._choice("channel", text, self._text(text, kind), text in channels)
        if kind is Kind.EMOJI:
            glyph = Markup('<span class="sign" aria-hidden="true">{}</span> ').format(sign(text))
            return (glyph if sign(text) else Markup("")) + escape(self._text(text, kind))
        if kind is Kind.DATE:
            return escape(date_text(text, long=True))
        if kind is Kind.MESSAGE:
            return self._message(text)
        return escape(text)

    def _changed(self, change: Change) -> Markup:
        """How a number changed, and from what; the number itself is in another column."""
        if change["prev"] is None or change["state"] in ("same", "from_zero"):
            return self.delta(change)
        before = Markup(' <span class="from">from {}</span>')
        return self.delta(change) + before.format(figure_text(change["prev"], Kind.NUMBER))

    def _choice(self, name: str, of: str, shown: str, is_known: bool) -> Markup:
        """A name that leads to the same view of it alone, where that can be asked for."""
        if not is_known:
            return Markup("<bdi>{}</bdi>").format(shown)
        to = self.link(self.view.name, **{name: of})
        return Markup('<a href="{}"><bdi>{}</bdi></a>').format(to, shown)

    def _message(self, text: str) -> Markup:
        when = minute_text(seconds(text.split("/")[1]), self._zone)
        address = self._directory.permalink(text)
        if not address:
            return escape(when)
        shown = Markup('<a class="outside" href="{}" rel="noreferrer">{}</a>')
        return shown.format(address, when)

    # ── charts ───────────────────────────────────────────────────────────────────────────────────

    def draw(self, chart: Chart, *, half: bool) -> Markup:
        """The chart, once for wide and once for narrow windows."""
        return self._drawn(chart, HALF if half else WIDE) + self._drawn(chart, NARROW)

    def series(self, chart: Chart) -> list[tuple[str, Series]]:
        """What a key has to tell apart, with their classes."""
        if not isinstance(chart, Lines | Bars) or len(chart.series) < 2:
            return []
        return [(colour(number, faint=of.faint), of) for number, of in enumerate(chart.series)]

    def scale(self, chart: Chart) -> list[tuple[int, str]]:
        """What the colours of a heat map stand for: their steps, and numbers."""
        return ranges(chart) if isinstance(chart, Heat) else []

    @cached_property
    def is_silent(self) -> bool:
        """Whether there is nothing at all to see."""
        return all(map(self.is_empty, self.view.charts)) and not any(
            any(_most(table.rows, at) for at in _numeric(table))
            or (table.rows and not _numeric(table))
            for table in self.view.tables
        )

    @property
    def shortened(self) -> str:
        """What was asked for, where messages are not known of so many weeks; "" otherwise."""
        weeks = self.asked.weeks
        return PRESETS.get(weeks, f"{weeks} weeks").lower() if self.asked.is_shortened else ""

    @cached_property
    def lacks_links(self) -> bool:
        """Whether there are messages that nothing leads to, as the workspace is not known."""
        return not self._directory.slack_name and any(
            table.rows and any(column.kind is Kind.MESSAGE for column in table.columns)
            for table in self.view.tables
        )

    def is_empty(self, chart: Chart) -> bool:
        """Whether there is nothing to draw."""
        if isinstance(chart, Network):
            return not chart.nodes
        if isinstance(chart, Heat):
            return not any(value for row in chart.values for value in row)
        return not any(value for of in chart.series for value in of.values)

    def _drawn(self, chart: Chart, width: float) -> Markup:
        if isinstance(chart, Network):
            return network(chart, width, self._directory.person, self.asked.person)
        if isinstance(chart, Heat):
            return heat(chart, width)
        return lines(chart, width) if isinstance(chart, Lines) else bars(chart, width)

    # ── addresses ────────────────────────────────────────────────────────────────────────────────

    def link(self, view: str, ending: str = "", **changed: str) -> str:
        """The address of a view of the same choice, or of one with changes."""
        path = "/" if view == next(iter(VIEWS)) and not ending else f"/{view}{ending}"
        return path + self.asked.query(**changed)

    def page_link(self, page: TablePage, *, sort: str | None = None, number: int = 1) -> str:
        """The address of a page of a table: in this order, or in another."""
        query = page.query
        asked = {
            "table": page.table.name,
            "sort": query.sort if sort is None else sort,
            "find": query.find,
            "page": str(number) if number > 1 else "",
        }
        return f"{self.link(self.view.name, **asked)}#table-{page.table.name}"

    def cleared(self, page: TablePage) -> str:
        """The address without the search."""
        return self.page_link(msgspec.structs.replace(page, query=TableQuery(sort=page.query.sort)))

    def kept(self, page: TablePage) -> list[tuple[str, str]]:
        """What the search of a table sends along: the choice, the table, and its order."""
        query = self.asked.query(table=page.table.name, sort=page.query.sort)
        return parse_qsl(query.removeprefix("?"))

    # ── names ────────────────────────────────────────────────────────────────────────────────────

    def _text(self, of: str, kind: Kind) -> str:
        """A cell's text as it is read."""
        if kind is Kind.PERSON:
            return self._directory.person(of)
        if kind is Kind.CHANNEL:
            return f"#{self._directory.channel(of)}"
        return f":{of}:" if kind is Kind.EMOJI else of


def _is_small(chart: Lines | Bars) -> bool:
    """Whether it needs no more than half the width."""
    return len(chart.labels) <= (_FEW_POINTS if isinstance(chart, Lines) else _FEW_BARS)


def _is_series(table: Table) -> bool:
    """Whether it is a long row of numbers, as there is one behind a chart, and no ranking."""
    named = {Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.MESSAGE}
    kinds = {column.kind for column in table.columns}
    return not kinds & named and len(table.rows) > _SHORT_TABLE


def _numeric(table: Table) -> list[int]:
    return [at for at, column in enumerate(table.columns) if column.kind in _NUMERIC]


def _most(rows: Sequence[Row], at: int) -> float:
    """The largest number of a column."""
    if isinstance(rows, FrameRows):
        return rows.most(at)
    return max(map(_number, column_of(rows, at)), default=0)


def _number(cell: Cell) -> float:
    if isinstance(cell, Mapping):
        return cell["cur"]
    return cell if isinstance(cell, int | float) else 0


def _paired(cards: Sequence[Card]) -> list[Card]:
    """A half card without another one beside it takes the whole width."""
    found, at = list(cards), 0
    while at < len(found):
        if found[at].half and not (at + 1 < len(found) and found[at + 1].half):
            found[at] = msgspec.structs.replace(found[at], half=False)
        at += 2 if found[at].half else 1
    return found
