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

from channelstats.views.model import Cell, Column, Kind, Link, Row, Table, column_of, is_blank
from channelstats.web.filters import BadQuery, whole_number

PARAMETERS: Final = ("table", "sort", "find", "page")
ROWS: Final = 50
"""Rows of a page."""

SEARCHED: Final = frozenset({Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.TEXT})
_WORTH_SEARCHING: Final = 10
"""A table with fewer rows is seen at a glance."""

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
    def order(self) -> str:
        return "descending" if self.sort.startswith("-") else "ascending"


class TablePage(msgspec.Struct, frozen=True):
    """Some rows of a table. ``first`` is the place of the first of them among the ``found``, from
    1, and ``last`` that of the last; ``query`` is what led here.
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
    def columns(self) -> list[tuple[int, Column]]:
        """The columns that some row of the table has something in, with their places; CSV and JSON
        have the others too.
        """
        columns = enumerate(self.table.columns)
        return [(at, column) for at, column in columns if not is_blank(self.table.rows, at)]

    @property
    def is_searchable(self) -> bool:
        """Whether a search is offered: there is something to read, and more than a glance of it."""
        has_text = any(column.kind in SEARCHED for column in self.table.columns)
        return bool(self.query.find) or (has_text and len(self.table.rows) > _WORTH_SEARCHING)

    def order(self, column: Column) -> str:
        """`ascending` or `descending` where the rows are sorted by a column, "" otherwise."""
        return self.query.order if self.query.column == column.name else ""

    def next_sort(self, column: Column) -> str:
        """What a click on a heading asks for: the largest number or the first name first, then the
        other way round.
        """
        first = "ascending" if column.kind in SEARCHED else "descending"
        turned = {"": first, "ascending": "descending", "descending": "ascending"}
        is_descending = turned[self.order(column)] == "descending"
        return f"-{column.name}" if is_descending else column.name


def table_query(given: Mapping[str, str]) -> TableQuery:
    """Understand the parameters of this module.

    :raises BadQuery: they mean nothing
    """
    table, sort, find, page = (given.get(name, "").strip() for name in PARAMETERS)
    if (sort or find or page) and not table:
        raise BadQuery("table: expected with sort, find and page")
    return TableQuery(table, sort, find, whole_number("page", page or "1"))


def table_pages(
    tables: Sequence[Table], asked: TableQuery, shown: ShownText
) -> dict[str, TablePage]:
    """A page of each table, by its name: the one that is asked for, and the first of the others.

    :raises BadQuery: there is no such table, column or page
    """
    names = [table.name for table in tables]
    if asked.table and asked.table not in names:
        raise BadQuery(f"table: expected one of {', '.join(names)}")
    usual = TableQuery()
    return {of.name: _page(of, asked if of.name == asked.table else usual, shown) for of in tables}


def _page(table: Table, asked: TableQuery, shown: ShownText) -> TablePage:
    places: Sequence[int] = range(len(table.rows))
    if asked.find:
        places = _found(table, asked.find, shown)
    if asked.sort:
        places = _sorted(table, places, asked, shown)
    if asked.page > _pages(len(places)):
        raise BadQuery(f"page: expected a number from 1 to {_pages(len(places)):,}")
    begin = (asked.page - 1) * ROWS
    rows = [table.rows[place] for place in places[begin : begin + ROWS]]
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
    columns = {column.name: (at, column.kind) for at, column in enumerate(table.columns)}
    if asked.column not in columns:
        raise BadQuery(f"sort: expected one of {', '.join(columns)}, or one with a - before it")
    at, kind = columns[asked.column]
    is_descending = asked.order == "descending"
    if at == 0 and kind is Kind.TEXT:  # names of steps, which have an order of their own
        return places[::-1] if is_descending else places
    cells = column_of(table.rows, at)
    texts = {cell for cell in cells if isinstance(cell, str)}
    words = {text: _word(text, kind, shown) for text in texts}
    keys = {place: _key(cells[place], words) for place in places}
    known = [place for place in places if keys[place] is not None]
    known.sort(key=keys.__getitem__, reverse=is_descending)  # type: ignore[arg-type]
    return known + [place for place in places if keys[place] is None]


def _word(text: str, kind: Kind, shown: ShownText) -> str:
    """What a text is sorted by: of a message, which is `channel/ts/thread_ts`, its time."""
    return text.split("/")[1] if kind is Kind.MESSAGE else shown(text, kind).casefold()


def _key(cell: Cell, words: Mapping[str, str]) -> float | str | None:
    """What a cell is sorted by; None where there is nothing."""
    if isinstance(cell, str):
        return words[cell] or None
    if isinstance(cell, Link):
        return cell.text.casefold() or None
    if cell is None or isinstance(cell, int | float):
        return cell
    if cell["state"] in ("new", "from_zero"):
        return float("inf")
    return None if cell["state"] == "not_compared" else cell["diff_pct"]
