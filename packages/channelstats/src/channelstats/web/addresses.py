"""Where the parts of a page lead: each count to what it counts, each name to its page.

Rule: an address asks for the choice that the page shows, but for what it changes. What has no list,
or is not known, leads nowhere: its address is "".
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from itertools import dropwhile, takewhile
from typing import Final, TypeAlias
from urllib.parse import parse_qsl

from channelstats.days import DAY
from channelstats.metrics.registry import COHORTS
from channelstats.metrics.table import Cell, Column, Kind, Table
from channelstats.pages.messages import emoji_selection, selection_of
from channelstats.pages.model import (
    GROUP,
    MESSAGES,
    OVERVIEW,
    PROFILES,
    TO_DO,
    Chart,
    Network,
    SeriesChart,
    Tile,
)
from channelstats.pages.newcomers import group_of
from channelstats.render.charts.drawing import Leads
from channelstats.render.names import Directory
from channelstats.web.filters import COMPARE, ONLY, Query
from channelstats.web.table_pages import TablePage

HEADING: Final = (Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.DATE, Kind.TEXT, Kind.MESSAGE)
"""Columns whose cells can name a row."""
_NAMING: Final = (Kind.PERSON, Kind.CHANNEL, Kind.DATE, Kind.TEXT, Kind.EMOJI)

NO_MORE: Final[Mapping[str, str]] = {}

Days: TypeAlias = tuple[date, date]
"""The first and the last."""


class Addresses:
    """Those of the page of a view; every ID in them is one that may be shown. ``own`` are further
    parameters, which lead to the same view again.
    """

    def __init__(
        self, view: str, asked: Query, directory: Directory, own: Mapping[str, str] = NO_MORE
    ) -> None:
        self._view, self._asked, self._directory, self._own = view, asked, directory, own

    def link(self, view: str, ending: str = "", **changed: str | Sequence[str]) -> str:
        """A view of the same choice, or of one with changes."""
        path = "/" if view == OVERVIEW and not ending else f"/{view}{ending}"
        own = self._own if view == self._view else {COMPARE: (), ONLY: ""}
        return path + self._asked.query(**{**own, **changed})

    def whole(self, table: Table) -> str:
        """The view that a table is the beginning of, of the same days: periods of the view To do
        end with another day unless they are named.
        """
        days = _span_query(*self._days) if table.whole == TO_DO else {}
        return self.link(table.whole, **days)

    def profile(self, kind: Kind, subject: str) -> str:
        """The page of a person or a channel."""
        names = self._directory
        if subject not in (names.people if kind is Kind.PERSON else names.channels):
            return ""
        return self.link(kind, **{**dict.fromkeys(PROFILES, ""), str(kind): subject})

    def named(self, kind: Kind, subject: str) -> str:
        """Where a name leads: on Overview to what it has of that person or channel, from anywhere
        else to their page.
        """
        profile = self.profile(kind, subject)
        is_filter = profile and self._view == OVERVIEW
        return self.link(OVERVIEW, **{str(kind): subject}) if is_filter else profile

    # ── pages of tables ──────────────────────────────────────────────────────────────────────────

    def page_link(
        self, page: TablePage, *, sort: str | None = None, find: str | None = None, number: int = 1
    ) -> str:
        """A page of a table: in this order with this search, or in another."""
        asked = {
            "table": page.table.name,
            "sort": page.query.sort if sort is None else sort,
            "find": page.query.find if find is None else find,
            "page": str(number) if number > 1 else "",
        }
        return f"{self.link(self._view, **asked)}#table-{page.table.name}"

    def kept(self, page: TablePage) -> list[tuple[str, str]]:
        """What the search of a table sends along: the choice, the table, and its order."""
        query = self._asked.query(**self._own, table=page.table.name, sort=page.query.sort)
        return parse_qsl(query.removeprefix("?"))

    # ── what is counted ──────────────────────────────────────────────────────────────────────────

    def rows_of(self, tile: Tile) -> str:
        """What a tile counts."""
        return self._listed(tile.listed) if tile.change and tile.change["cur"] else ""

    def counted(self, column: Column, row: Sequence[Cell], page: TablePage) -> str:
        """What a cell counts, by what its row is called."""
        cells = {named.name: cell for named, cell in zip(page.columns, row, strict=True)}
        if not (column.listed and cells[column.name]):
            return ""
        subject, texts, days, only = dict[str, str](), list[str](), None, ""
        for named in _naming(page.columns):
            text = str(cells[named.name])
            if named.kind is Kind.DATE and column.listed == f"{GROUP}/":
                return self.link(GROUP, only=group_of(text, column.name))
            if named.kind is Kind.DATE:
                days = self._days_from(text, page.table.rows[named.name])
            elif named.kind is Kind.TEXT:
                texts.append(text)
            elif named.kind is Kind.EMOJI:
                only = emoji_selection(text)
            elif self.profile(named.kind, text):
                subject[named.kind] = text
            else:
                return ""
        only = only or selection_of(*texts)
        if not (subject or days or only):
            return ""
        return self._listed(column.listed, days, only=only, **subject)

    def day(self, label: str, table: Table) -> str:
        """The same view of a day, or of several that begin with it."""
        return self._of_days(self._days_from(label, table.rows.to_series()))

    def leads(self, chart: Chart) -> Leads:
        """Where the places of a chart lead."""

        def of_person(place: Sequence[str]) -> str:
            (uid,) = place
            return self.profile(Kind.PERSON, uid)

        def of_days(place: Sequence[str]) -> str:
            assert isinstance(chart, SeriesChart)
            return self._of_days(self._days_from(place[0], chart.labels))

        def of_messages(place: Sequence[str]) -> str:
            only = selection_of(*place)
            return self._listed(f"{MESSAGES}/{only}") if only else ""

        def of_group(place: Sequence[str]) -> str:
            return self.link(GROUP, only=group_of(*place))

        if isinstance(chart, Network):
            return of_person
        if chart.name == COHORTS.name:
            return of_group
        is_over_time = isinstance(chart, SeriesChart) and chart.is_over_time
        return of_days if is_over_time else of_messages

    def _listed(
        self, listed: str, days: Days | None = None, *, only: str = "", **subject: str
    ) -> str:
        """What is `listed` (see `Tile`), of some days or of those asked for."""
        view, _, what = listed.partition("/")
        if not view:
            return ""
        (first, last), (table, _, newest) = days or self._days, what.partition("/")
        if newest:
            first = last - (int(newest) - 1) * DAY
        if view == MESSAGES:
            return self.link(view, **_span_query(first, last), **subject, only=only or table)
        return f"{self.link(view, **_span_query(first, last), **subject)}#table-{table}"

    def _of_days(self, days: Days) -> str:
        return self.link(self._view, **_span_query(*days))

    @property
    def _days(self) -> Days:
        return self._asked.choice.first, self._asked.choice.last

    def _days_from(self, label: str, labels: Iterable[str]) -> Days:
        """The days that a label stands for: those up to the next one."""
        following = min((other for other in labels if other > label), default="")
        last = date.fromisoformat(following) - DAY if following else self._days[1]
        return date.fromisoformat(label), last


def _span_query(first: date, last: date) -> dict[str, str]:
    """What asks for these days, and for no preset: one of the view To do ends with another day."""
    return {"weeks": "", "from": first.isoformat(), "to": last.isoformat()}


def _naming(columns: Sequence[Column]) -> Iterator[Column]:
    """The columns that say together what a row is about: the first one that names it, and those
    right after it.
    """
    from_first = dropwhile(lambda column: column.kind not in HEADING, columns)
    return takewhile(lambda column: column.kind in _NAMING, from_first)
