"""Which rows of a table are on a page: sorted, searched, fifty at a time.

Rule: sorting, searching and paging hide nothing: without a search every row is on one of the pages,
once. What an address asks for and the table does not have is refused by the parameter's name.

    table   the table that the others are about
    sort    a column, descending with a `-` before it
    find    a part of a name: of a person, a channel, an emoji, or of a text
    page    from 1
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from channelstats.views.frame_rows import column_of
from channelstats.views.model import Cell, Column, Kind, Link, Row, Table
from channelstats.web.filters import BadQuery

PARAMETERS: Final = ("table", "sort", "find", "page")
ROWS: Final = 50
"""Rows of a page."""

SEARCHED: Final = frozenset({Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.TEXT})
_WORTH_SEARCHING: Final = 10
"""A table with fewer rows is seen at a glance."""

_MOST_PAGES: Final = 9_999_999

ShownText: TypeAlias = Callable[[str, Kind], str]
"""A cell's text as a reader sees it: an ID's name."""


class TableQuery(msgspec.Struct, frozen=True):
    """What is asked for of one table; ``table`` is "" where none is."""

    table: str = ""
    sort: str = ""
    find: str = ""
    page: int = 1

    @property
    def column(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def is_descending(self) -> bool:
        return self.sort.startswith("-")


class TablePage(msgspec.Struct, frozen=True):
    """Some rows of a table. ``first`` is the place of the first of them among the ``found``, from
    1; ``query`` is what led here.
    """

    table: Table
    query: TableQuery
    rows: Sequence[Row]
    first: int
    found: int

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def pages(self) -> int:
        return _pages(self.found)

    @property
    def is_searchable(self) -> bool:
        """Whether a search is offered: there is something to read, and more than a glance of it."""
        has_text = any(column.kind in SEARCHED for column in self.table.columns)
        return bool(self.query.find) or (has_text and len(self.table.rows) > _WORTH_SEARCHING)

    def order(self, column: Column) -> str:
        """`ascending` or `descending` where the rows are sorted by a column, "" otherwise."""
        if self.query.column != column.name:
            return ""
        return "descending" if self.query.is_descending else "ascending"

    def next_sort(self, column: Column) -> str:
        """What a click on a heading asks for: the largest number or the first name first, then the
        other way round.
        """
        descends = column.kind not in SEARCHED
        if order := self.order(column):
            descends = order == "ascending"
        return f"-{column.name}" if descends else column.name


def table_query(given: Mapping[str, str]) -> TableQuery:
    """Understand the parameters of this module.

    :raises BadQuery: they mean nothing
    """
    found = {name: given.get(name, "").strip() for name in PARAMETERS}
    if any(found.values()) and not found["table"]:
        raise BadQuery("table: expected with sort, find and page")
    page = found["page"] or "1"
    if not (page.isascii() and page.isdecimal() and 1 <= int(page[:8]) <= _MOST_PAGES):
        raise BadQuery("page: expected a number from 1")
    return TableQuery(found["table"], found["sort"], found["find"], int(page[:8]))


def table_pages(
    tables: Sequence[Table], asked: TableQuery, shown: ShownText
) -> dict[str, TablePage]:
    """A page of each table, by its name: the one that is asked for, and the first of the others.

    :raises BadQuery: there is no such table, column or page
    """
    names = [table.name for table in tables]
    if asked.table and asked.table not in names:
        raise BadQuery(f"table: expected one of {', '.join(names)}")
    return {
        table.name: _page(table, asked if table.name == asked.table else TableQuery(), shown)
        for table in tables
    }


def _page(table: Table, asked: TableQuery, shown: ShownText) -> TablePage:
    places: Sequence[int] = range(len(table.rows))
    if asked.find:
        places = _found(table, asked.find, shown)
    if asked.sort:
        places = _sorted(table, places, asked, shown)
    pages = _pages(len(places))
    if asked.page > pages:
        raise BadQuery(f"page: expected a number from 1 to {pages:,}")
    begin = (asked.page - 1) * ROWS
    chosen = places[begin : begin + ROWS]
    if isinstance(chosen, range) and chosen.step == 1:
        rows: Sequence[Row] = table.rows[chosen.start : chosen.stop]
    else:
        rows = [table.rows[place] for place in chosen]
    return TablePage(table, asked, rows, begin + 1, len(places))


def _pages(rows: int) -> int:
    return max(1, -(-rows // ROWS))


def _found(table: Table, find: str, shown: ShownText) -> list[int]:
    """The places of rows that have that in a text."""
    wanted = find.removeprefix("@").casefold()
    found: set[int] = set()
    for at, column in enumerate(table.columns):
        if column.kind in SEARCHED:
            cells = column_of(table.rows, at)
            texts = {cell for cell in cells if isinstance(cell, str)}
            fits = {text for text in texts if wanted in shown(text, column.kind).casefold()}
            found |= {place for place, cell in enumerate(cells) if cell in fits}
    return sorted(found)


def _sorted(
    table: Table, places: Sequence[int], asked: TableQuery, shown: ShownText
) -> Sequence[int]:
    """Rows that are alike keep their order; those without a value are last, whatever the order."""
    names = [column.name for column in table.columns]
    if asked.column not in names:
        raise BadQuery(f"sort: expected one of {', '.join(names)}, or one with a - before it")
    at = names.index(asked.column)
    kind = table.columns[at].kind
    if at == 0 and kind is Kind.TEXT:  # names of steps, which have an order of their own
        return places[::-1] if asked.is_descending else places
    cells = column_of(table.rows, at)
    texts = {cell for cell in cells if isinstance(cell, str)}
    order = {text: _order(text, kind, shown) for text in texts}
    keys = {place: _key(cells[place], order) for place in places}
    known = [place for place in places if keys[place] is not None]
    known.sort(key=keys.__getitem__, reverse=asked.is_descending)  # type: ignore[arg-type]
    return known + [place for place in places if keys[place] is None]


def _order(text: str, kind: Kind, shown: ShownText) -> str:
    """What a text is sorted by: of a message, which is `channel/ts/thread_ts`, its time."""
    return text.split("/")[1] if kind is Kind.MESSAGE else shown(text, kind).casefold()


def _key(cell: Cell, order: Mapping[str, str]) -> float | str | None:
    """What a cell is sorted by; None where there is nothing."""
    if isinstance(cell, str):
        return order[cell] or None
    if isinstance(cell, Link):
        return cell.text.casefold() or None
    if cell is None or isinstance(cell, int | float):
        return cell
    if cell["state"] in ("new", "from_zero"):
        return float("inf")
    return None if cell["state"] == "not_compared" else cell["diff_pct"]
