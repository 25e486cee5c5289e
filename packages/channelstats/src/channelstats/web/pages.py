"""Pages: of a view, of the start, of the login, and of what went wrong.

Rule: a page is made on the server and whole without a script; it needs nothing from elsewhere. What
came from outside is text, never markup.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from markupsafe import Markup, escape

from channelstats.days import DAY, minute_text
from channelstats.facts.periods import WEEK, Now, Period
from channelstats.identifiers import seconds
from channelstats.lookup import Names
from channelstats.metrics.table import NUMERIC, Cell, Kind, Table
from channelstats.pages.channel import MOST_COMPARED
from channelstats.pages.goals import Bound, measured
from channelstats.pages.marked import ASSIGNED_BY, ASSIGNEE, MARKED
from channelstats.pages.model import (
    CHANNEL,
    LISTED_IN,
    MORE,
    OVERVIEW,
    PERSON,
    TO_DO,
    UNCOMPARED,
    VIEWS,
    Chart,
    Heat,
    Network,
    Page,
    Section,
    SeriesChart,
    Text,
    Tile,
)
from channelstats.pages.queue import ITEM, QUEUE, Action
from channelstats.render.charts import drawn
from channelstats.render.charts.drawing import HALF, MAIN, WIDE
from channelstats.render.html import delta, emoji, environment, unchanged
from channelstats.render.text import line_text
from channelstats.render.words import NOTHING, date_text, figure_text, goal_state, plural
from channelstats.tables.marks import MarkState
from channelstats.web.addresses import HEADING, Addresses
from channelstats.web.filters import PRESETS, Query
from channelstats.web.table_pages import TableQuery, table_pages

_OFFERED: Final = 60
"""People offered to choose from before anything is typed."""

_RANKED: Final = frozenset({Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.MESSAGE})
_FEWEST_ABREAST: Final = 3
_SHORT_TABLE: Final = 8
"""Rows that are shown without being asked for."""

_FEW_POINTS: Final = 13
_FEW_BARS: Final = 24
_SMALL_TABLE: Final = 3
"""Columns of a table of which two fit side by side."""


LISTED: Final = "listed"
"""Said of an item that was marked: it is listed again."""

NOTHING_CHECKED: Final = "nothing"

CHART: Final = "chart"
"""The parameter that asks for a chart of several."""

MINE: Final = "mine"
"""The parameter that asks, with `yes`, for what is assigned to the visitor."""

SAID: Final[Mapping[str, str]] = {
    MarkState.DONE: "Done",
    MarkState.SNOOZED: "Left out for a week",
    MarkState.NOT_A_QUESTION: "Marked as no question",
    MarkState.ASSIGNED: "Assigned",
    LISTED: "Listed again",
    NOTHING_CHECKED: "Nothing is checked",
}
"""What has become of items, as a page says it."""

_ABOUT_CHANNEL: Final = (Action.HELP, Action.REVIVE)
_ABOUT_MESSAGE: Final = (Action.ANSWER,)


class Said(NamedTuple):
    """What has just become of items: a key of `SAID`, "" for nothing."""

    mark: str = ""
    items: Sequence[str] = ()

    @property
    def has_undo(self) -> bool:
        """Whether the items can be listed again."""
        return bool(self.items) and self.mark not in (MarkState.ASSIGNED, LISTED)


class Visit(msgspec.Struct, frozen=True):
    """One visit to the dashboard: ``asked`` in IDs; ``me`` is who the visitor said to be, by ID,
    or ""; ``logged_in`` with a token, ``is_named`` with one of their own. Messages of a workspace
    that is made up have no links (``has_links``). ``said``: what has just become of items;
    ``mine``: only those assigned to ``me`` are listed. ``lines`` are what some messages say;
    ``chart`` names the one of several to show.
    """

    asked: Query
    names: Names
    now: Now
    zone: ZoneInfo
    workspace: str = ""
    me: str = ""
    logged_in: bool = False
    is_named: bool = False
    has_links: bool = True
    goals: tuple[Bound, ...] = ()
    said: Said = Said()
    mine: bool = False
    chart: str = ""
    lines: Mapping[str, str] = msgspec.field(default_factory=dict)


class Slot(StrEnum):
    """How wide a card is where there is room: as the page, half of that, most of it, the rest."""

    FULL = ""
    HALF = "half"
    MAIN = "main"
    SIDE = "aside"


_WIDTHS: Final = {Slot.HALF: HALF, Slot.MAIN: MAIN}


class Card(msgspec.Struct, frozen=True):
    """A chart with the tables that are folded away below it, or a table without one."""

    title: str
    chart: Chart | None
    tables: tuple[Table, ...]
    place: Slot
    empty: str
    folded: bool = True


def view_page(view: Page, visit: Visit, table: TableQuery = TableQuery()) -> str:  # noqa: B008
    """The page of a view; ``table`` says which rows of a table.

    :raises BadQuery: there is no such table, column or page
    """
    return _render("view.html", show=ViewContext(view, visit, table), view=view, visit=visit)


def start_page(visit: Visit, folder: str) -> str:
    """The page of a store without messages: what to do."""
    return _render("start.html", visit=visit, folder=folder)


def message_page(title: str, text: str, *, back: str = "/") -> str:
    """A page that says what went wrong or was done, and leads back."""
    return _render("message.html", title=title, text=text, back=back)


def stop_page(query: str) -> str:
    """A page with the button that ends the mail to an address."""
    return _render("stop.html", query=query)


def login_page(wrong: str, to: str) -> str:
    return _render("login.html", wrong=wrong, to=to)


def _render(name: str, **values: object) -> str:
    template = environment("channelstats.web").get_template(name)
    return template.render(
        views=VIEWS,
        MORE=MORE,
        TO_DO=TO_DO,
        SAID=SAID,
        UNCOMPARED=UNCOMPARED,
        presets=PRESETS,
        span=_span,
        plural=plural,
        **values,
    )


class ViewContext:
    """What the template of a view asks for. Every ID in it is one that may be shown.

    :raises BadQuery: of ``table`` there is no such table, column or page
    """

    def __init__(self, view: Page, visit: Visit, table: TableQuery = TableQuery()) -> None:  # noqa: B008
        self.view, self.asked, self.table = view, visit.asked, table
        self.choice = visit.asked.choice
        self._visit, self._directory = visit, visit.names.directory
        self.own = {MINE: "yes"} if visit.mine else {}
        if visit.chart:
            self.own[CHART] = visit.chart
        self.to = Addresses(view.name, visit.asked, self._directory, self.own)
        self.person = self._directory.person
        self.pages = table_pages(view.tables, table, self._directory.called)
        self._goals = measured(view, visit.goals)

    @property
    def people(self) -> list[tuple[str, str]]:
        """People of the view to choose from: what means each, and their names."""
        offered = dict.fromkeys(
            uid
            for table in self.view.tables
            for column in table.columns
            if column.kind is Kind.PERSON
            for uid in table.rows[column.name][:_OFFERED]
        )
        return [self._visit.names.finder(uid, self.person(uid)) for uid in list(offered)[:_OFFERED]]

    @property
    def channels(self) -> list[tuple[str, str]]:
        """Channels to choose from: what means each, and their names."""
        names = self._visit.names
        listed = names.listed_channels(self.view.small_channels)
        return [(names.channel_finder(cid), f"#{name}") for cid, name in listed]

    @property
    def channel(self) -> str:
        """The chosen channel or the group as it is called, "" for none."""
        if not self.asked.group:
            cid = self.choice.channel
            return self._directory.called(cid, Kind.CHANNEL) if cid else ""
        number = len(self.view.choice.group)
        return f"{self.asked.group} ({number:,} {plural(number, 'channel')})"

    @property
    def channel_typed(self) -> str:
        """What was typed to choose it, or may be."""
        cid = self.choice.channel
        return self._visit.names.channel_finder(cid) if cid else self.asked.group

    @property
    def is_filtered(self) -> bool:
        """Whether something is chosen that stands below the fold of a phone, beside the channel or
        the person that the page is about.
        """
        chosen = {CHANNEL: self.channel, PERSON: self.choice.person}
        return self.choice.against_year or any(
            subject for name, subject in chosen.items() if name != self.view.name
        )

    @property
    def comparable(self) -> list[tuple[str, str]]:
        """Channels that can be drawn beside the one that the page is about: IDs and names."""
        choice = self.choice
        if self.view.name != CHANNEL or choice.group or len(choice.compare) == MOST_COMPARED:
            return []
        shown = choice.channel, *choice.compare
        return self._visit.names.listed_channels({*self.view.small_channels, *shown})

    @property
    def is_compared(self) -> bool:
        """Whether all messages of the period and of the one before are known. What is to be done
        goes up to the newest message, and has no number that is compared.
        """
        begins = self.view.before[0], *((self.choice.first,) if self.view.name != TO_DO else ())
        compared = (Period(first, self.asked.days, self._visit.zone) for first in begins)
        return all(map(self._visit.now.history.covers, compared))

    @property
    def newer_days(self) -> tuple[date, date] | None:
        """The days after a period of whole weeks, up to the last message; None where there are
        none.
        """
        first, newest = self.choice.last + DAY, self._visit.now.history.newest
        return (first, newest) if self.asked.weeks and newest and newest >= first else None

    @cached_property
    def is_silent(self) -> bool:
        """Whether there is nothing at all to see, and the last weeks of everybody may show more."""
        if not self.asked.query():
            return False
        return all(map(self.is_empty, self.view.charts)) and all(map(_is_empty, self.view.tables))

    @property
    def lacks_links(self) -> bool:
        """Whether there are messages that could be linked if the workspace were known."""
        is_unknown = self._visit.has_links and not self._directory.slack_name
        return is_unknown and any(
            table.rows.height and any(column.kind is Kind.MESSAGE for column in table.columns)
            for table in self.view.tables
        )

    @property
    def heading_of_page(self) -> str:
        """What the page is called: the person or the channel that it is about, or the view."""
        if self.view.name == CHANNEL and self.channel:
            return self.channel
        if self.view.name == PERSON and self.choice.person:
            return self.person(self.choice.person)
        return line_text(self.view.title, self._directory)

    @property
    def sentences(self) -> list[str]:
        """What happened, in words."""
        texts = (part for part in self.view.lead if isinstance(part, Text))
        return [line_text(line, self._directory) for part in texts for line in part.lines]

    @property
    def listed_in(self) -> str:
        """The view of the navigation that this page belongs to."""
        return LISTED_IN.get(self.view.name, self.view.name)

    # ── tiles ────────────────────────────────────────────────────────────────────────────────────

    @property
    def tiles_abreast(self) -> int:
        """How many tiles stand side by side where there is room: the most of which the last row is
        nearly full.
        """
        count = max(len(self.view.tiles), _FEWEST_ABREAST)
        full = ((min(wide, count), (count - 1) % min(wide, count) + 1) for wide in (5, 4))
        return next((wide for wide, last in full if last >= 0.75 * wide), _FEWEST_ABREAST)

    @cached_property
    def charts(self) -> list[str]:
        """The charts of which one is shown, by the tile of its name; none without a choice."""
        alternatives = (section.charts for section in self.view.sections)
        return next(([chart.name for chart in some] for some in alternatives if len(some) > 1), [])

    @property
    def chart(self) -> str:
        """The one of them that is shown."""
        return self._visit.chart if self._visit.chart in self.charts else self.charts[0]

    def to_chart(self, name: str) -> str:
        """The same page with another one of them."""
        chart = "" if name == self.charts[0] else name
        return f"{self.to.link(self.view.name, chart=chart)}#tiles"

    def counted(self, chart: Chart) -> str:
        """Where what a chart counts can be seen that a tile shows; "" where that is nowhere."""
        tiles = (tile for tile in self.view.tiles if tile.name == chart.name in self.charts)
        return next(map(self.to.rows_of, tiles), "")

    def goals(self, tile: Tile) -> list[str]:
        """The goals of a tile and whether they were met. They are those of the whole workspace, and
        of counts those of a week.
        """
        choice = self.view.choice
        is_other = tile.kind is Kind.COUNT and (choice.last - choice.first).days + 1 != WEEK
        if choice.channels or choice.person or is_other:
            return []
        figure = f"{self.view.name}.{tile.name}"
        return [goal_state(goal) for goal in self._goals if goal.bound.figure == figure]

    # ── cards ────────────────────────────────────────────────────────────────────────────────────

    @property
    def cards(self) -> list[Card]:
        """The sections, small ones side by side."""
        cards = [_card(section.showing(self._visit.chart)) for section in self.view.sections]
        return _panels(cards) if self.view.name == OVERVIEW else _paired(cards)

    def is_empty(self, chart: Chart) -> bool:
        """Whether there is nothing to draw."""
        if isinstance(chart, Network):
            return not chart.nodes
        rows = (
            chart.values if isinstance(chart, Heat) else [series.values for series in chart.series]
        )
        return not any(value for row in rows for value in row)

    def draw(self, chart: Chart, place: Slot) -> Markup:
        if isinstance(chart, SeriesChart):
            named = (self._directory.called(of.title, chart.series_kind) for of in chart.series)
            pairs = zip(chart.series, named, strict=True)
            series = tuple(msgspec.structs.replace(of, title=title) for of, title in pairs)
            chart = msgspec.structs.replace(chart, series=series)
        width, chosen, leads = _WIDTHS.get(place, WIDE), self.choice.person, self.to.leads(chart)
        return drawn(chart, width=width, named=self.person, chosen=chosen, leads=leads)

    # ── what is to be done ───────────────────────────────────────────────────────────────────────

    @cached_property
    def _items(self) -> dict[str, dict[str, Any]]:
        """The rows of what is to be done, and of what was marked, by item."""
        return {
            row[ITEM]: row
            for table in self.view.tables
            if table.name in (QUEUE, MARKED) and ITEM in table.rows.columns
            for row in table.rows.iter_rows(named=True)
        }

    @property
    def has_items(self) -> bool:
        """Whether there is anything that can be marked."""
        return bool(self._items)

    def is_marked(self, item: str) -> bool:
        """Whether somebody marked this item of what is to be done."""
        return "state" in self._items[item]

    def to_list_of(self, mine: bool) -> str:
        """Where the list is, of what is assigned to the visitor or of everything."""
        return f"{self.to.link(self.view.name, mine='yes' if mine else '')}#table-{QUEUE}"

    @property
    def to_list(self) -> str:
        """Where the list that is shown is."""
        return self.to_list_of(self._visit.mine)

    def label(self, item: str) -> str:
        """What is to be done: `Answer Freya in #hiring`."""
        row = self._items[item]
        action, person = row["action"], self.person(row["person"])
        channel = self._directory.called(row["channel"], Kind.CHANNEL)
        if action in _ABOUT_MESSAGE:
            return f"{action} {person} in {channel}"
        return f"{action} {channel if action in _ABOUT_CHANNEL else person}"

    def assignee(self, item: str) -> str:
        """The ID of whom an item is assigned to, "" for nobody."""
        return self._items[item].get(ASSIGNEE) or ""

    def assigned(self, item: str) -> str:
        """Whom an item is assigned to, and by whom, in words; "" for nobody."""
        if not (assignee := self.assignee(item)):
            return ""
        by = self._items[item][ASSIGNED_BY]
        name = self.person(assignee)
        return f"{name}, by {self.person(by)}" if by and by != assignee else name

    @property
    def said(self) -> str:
        """What has just become of items, in a sentence; "" for nothing."""
        mark, items = self._visit.said
        if not items:
            return f"{SAID[mark]}." if mark else ""
        what = f"{len(items)} items" if len(items) > 1 else "an item"
        if len(items) == 1 and items[0] in self._items:
            what = self.label(items[0])
        return f"{SAID[mark]}: {what}."

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    def heading(self, table: Table) -> str:
        """The column whose cells name the rows; "" when none does."""
        return next((column.name for column in table.columns if column.kind in HEADING), "")

    def cell(self, cell: Cell, kind: Kind) -> Markup:
        """A cell as it is shown."""
        if cell is None or cell == "":
            return escape(NOTHING if kind in NUMERIC else "")
        if isinstance(cell, Mapping):  # the number itself is in another column
            changed = delta(cell, Kind.NUMBER)
            if cell["state"] == "same":
                return unchanged(cell)
            if cell["state"] not in ("up", "down"):
                return changed
            before = Markup(' <span class="from">from {}</span>')
            return changed + before.format(figure_text(cell["prev"], Kind.NUMBER))
        if isinstance(cell, int | float):
            return escape(figure_text(cell, kind))
        text = str(cell)
        if kind in (Kind.PERSON, Kind.CHANNEL):
            return self._profile(kind, text)
        if kind is Kind.EMOJI:
            return emoji(text)
        if kind is Kind.MESSAGE:
            return self._message(text)
        return escape(date_text(text, long=True) if kind is Kind.DATE else text)

    def day(self, label: str, table: Table) -> Markup:
        """A day, or the first one of several, that leads to the same view of these."""
        address, text = self.to.day(label, table), date_text(label, long=True)
        return Markup('<a href="{}">{}</a>').format(address, text)

    def _profile(self, kind: Kind, subject: str) -> Markup:
        """A name that leads to whoever or whatever has it, where that is known."""
        shown = Markup("<bdi>{}</bdi>").format(self._directory.called(subject, kind))
        address = self.to.named(kind, subject)
        return Markup('<a href="{}">{}</a>').format(address, shown) if address else shown

    def _message(self, text: str) -> Markup:
        when = minute_text(seconds(text.split("/")[1]), self._visit.zone)
        address, line = self._directory.permalink(text), self._visit.lines.get(text)
        says = Markup(' <q class="says" dir="auto">{}</q>').format(line) if line else Markup("")
        if not address:
            return escape(when) + says
        shown = Markup('<a class="outside" href="{}" rel="noreferrer">{}</a>')
        return shown.format(address, when) + says


def _span(first: date, last: date) -> str:
    year = "" if first.year == last.year else f" {first.year}"
    return f"{first:%a} {first.day} {first:%b}{year} to {last:%a} {last.day} {last:%b} {last.year}"


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


def _is_empty(table: Table) -> bool:
    """Whether there is no row, or where there are numbers, none but 0."""
    numbers = [table.rows[column.name] for column in table.columns if column.kind in NUMERIC]
    return not any(cells.max() for cells in numbers) if numbers else table.rows.is_empty()


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
