"""The page of a view, and what its template asks for.

Rule: a page is made on the server and whole without a script; it needs nothing from elsewhere. What
came from outside is text, never markup.
"""

from collections.abc import Mapping
from datetime import date
from functools import cached_property
from typing import Final
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
from channelstats.pages.model import (
    CHANNEL,
    LISTED_IN,
    MORE,
    PERSON,
    TO_DO,
    UNCOMPARED,
    VIEWS,
    Chart,
    Heat,
    Network,
    Page,
    SeriesChart,
    Text,
    Tile,
)
from channelstats.pages.queue import QUEUE
from channelstats.render.charts import drawn
from channelstats.render.html import delta, emoji, unchanged
from channelstats.render.text import line_text
from channelstats.render.words import NOTHING, date_text, figure_text, goal_state, plural
from channelstats.web.addresses import HEADING, Addresses
from channelstats.web.cards import WIDTHS, Slot, cards_of
from channelstats.web.filters import PRESETS, Query
from channelstats.web.http import rendered
from channelstats.web.marking import SAID, ItemsOfPage, Said
from channelstats.web.table_pages import TableQuery, table_pages

_OFFERED: Final = 60
"""People offered to choose from before anything is typed."""

_FEWEST_ABREAST: Final = 3

CHART: Final = "chart"
"""The parameter that asks for a chart of several."""

MINE: Final = "mine"
"""The parameter that asks, with `yes`, for what is assigned to the visitor."""


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


def view_page(view: Page, visit: Visit, table: TableQuery = TableQuery()) -> str:  # noqa: B008
    """The page of a view; ``table`` says which rows of a table.

    :raises BadQuery: there is no such table, column or page
    """
    return rendered(
        "view.html",
        show=ViewContext(view, visit, table),
        view=view,
        visit=visit,
        views=VIEWS,
        MORE=MORE,
        TO_DO=TO_DO,
        SAID=SAID,
        UNCOMPARED=UNCOMPARED,
        presets=PRESETS,
        span=_span,
        plural=plural,
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
        self.items = ItemsOfPage(view, self._directory)
        self.cards = cards_of(view, visit.chart)
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

    # ── charts ───────────────────────────────────────────────────────────────────────────────────

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
        width, chosen, leads = WIDTHS[place], self.choice.person, self.to.leads(chart)
        return drawn(chart, width=width, named=self.person, chosen=chosen, leads=leads)

    # ── what is to be done ───────────────────────────────────────────────────────────────────────

    def to_list_of(self, mine: bool) -> str:
        """Where the list is, of what is assigned to the visitor or of everything."""
        return f"{self.to.link(self.view.name, mine='yes' if mine else '')}#table-{QUEUE}"

    @property
    def to_list(self) -> str:
        """Where the list that is shown is."""
        return self.to_list_of(self._visit.mine)

    @property
    def said(self) -> str:
        """What has just become of items, in a sentence; "" for nothing."""
        return self.items.said(self._visit.said)

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
        markup = Markup("<bdi>{}</bdi>").format(self._directory.called(subject, kind))
        address = self.to.named(kind, subject)
        return Markup('<a href="{}">{}</a>').format(address, markup) if address else markup

    def _message(self, text: str) -> Markup:
        when = minute_text(seconds(text.split("/")[1]), self._visit.zone)
        address, line = self._directory.permalink(text), self._visit.lines.get(text)
        says = Markup(' <q class="says" dir="auto">{}</q>').format(line) if line else Markup("")
        if not address:
            return escape(when) + says
        link = Markup('<a class="outside" href="{}" rel="noreferrer">{}</a>')
        return link.format(address, when) + says


def _span(first: date, last: date) -> str:
    year = "" if first.year == last.year else f" {first.year}"
    return f"{first:%a} {first.day} {first:%b}{year} to {last:%a} {last.day} {last:%b} {last.year}"


def _is_empty(table: Table) -> bool:
    """Whether there is no row, or where there are numbers, none but 0."""
    numbers = [table.rows[column.name] for column in table.columns if column.kind in NUMERIC]
    return not any(cells.max() for cells in numbers) if numbers else table.rows.is_empty()
