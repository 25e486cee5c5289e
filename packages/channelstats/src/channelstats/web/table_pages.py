"""Which rows of a table are on a page: sorted, searched, twenty at a time.

Rule: sorting, searching and paging hide nothing: without a search every row is on one of the pages,
once. What an address asks for and the table does not have is refused by the parameter's name.

    table   the table that the others are about
    sort    a column, descending with a `-` before it
    find    a part of a name: of a person, a channel, an emoji, or of a text
    page    from 1
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import polars as pl

from channelstats.metrics.quantities import replaced
from channelstats.metrics.table import NUMERIC, Column, Kind, Table
from channelstats.pages.annotations import ASSIGNED_BY, ASSIGNEE
from channelstats.web.filters import BadQuery, whole_number

PARAMETERS: Final = ("table", "sort", "find", "page")
ROWS: Final = 20
"""Rows of a page: few enough that what says that there are more is in sight."""

SEARCHED: Final = frozenset({Kind.PERSON, Kind.CHANNEL, Kind.EMOJI, Kind.TEXT})
_KEY: Final = "sorted by"
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
    """Some rows of a table, in those of its columns that have something in some row, without a
    date beside the message that is of that date, and without whom an item is assigned to, which
    stands where it is marked; CSV and JSON have the others too. ``first`` is the
    place of the first of them among the ``found``, from 1, and ``last`` that of the last; ``query``
    is what led here.
    """

    table: Table
    query: TableQuery
    columns: Sequence[Column]
    rows: Sequence[tuple[Any, ...]]
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
    rows = _found(table, asked.find, shown) if asked.find else table.rows
    if asked.sort:
        rows = _sorted(table, rows, asked, shown)
    if asked.page > _pages(rows.height):
        raise BadQuery(f"page: expected a number from 1 to {_pages(rows.height):,}")
    begin = (asked.page - 1) * ROWS
    is_dated = any(column.kind is Kind.MESSAGE for column in table.columns)
    columns = [
        column
        for column in table.columns
        if column.name not in (ASSIGNEE, ASSIGNED_BY)
        and not (_is_blank(table.rows[column.name]) or (is_dated and column.kind is Kind.DATE))
    ]
    cells = rows[begin : begin + ROWS].select(column.name for column in columns)
    return TablePage(table, asked, columns, cells.rows(), begin + 1, rows.height)


def _is_blank(cells: pl.Series) -> bool:
    """Whether there is nothing: no number, no text, no comparison."""
    known = cells.drop_nulls()
    if known.dtype == pl.Struct:
        return bool((known.struct.field("state") == "not_compared").all())
    return known.is_empty() or (known.dtype == pl.String and bool((known == "").all()))


def _pages(rows: int) -> int:
    return max(1, -(-rows // ROWS))


def _found(table: Table, find: str, shown: ShownText) -> pl.DataFrame:
    """The rows that have that in a text."""
    wanted = find.removeprefix("@").casefold()
    fits = [pl.lit(value=False)]
    for column in table.columns:
        if column.kind in SEARCHED:
            texts = table.rows[column.name].unique().drop_nulls()
            fitting = [text for text in texts if wanted in shown(text, column.kind).casefold()]
            fits.append(pl.col(column.name).is_in(fitting))
    return table.rows.filter(pl.any_horizontal(fits))


def _sorted(table: Table, rows: pl.DataFrame, asked: TableQuery, shown: ShownText) -> pl.DataFrame:
    """Rows that are alike keep their order; those without a value are last, whatever the order."""
    kinds = {column.name: column.kind for column in table.columns}
    name, is_descending = asked.column, asked.order == "descending"
    if name not in kinds:
        raise BadQuery(f"sort: expected one of {', '.join(kinds)}, or one with a - before it")
    if kinds[name] is Kind.TEXT and name == table.columns[0].name:
        return rows.reverse() if is_descending else rows  # steps, which have an order of their own
    keys = _keys(rows[name], kinds[name], shown).alias(_KEY)
    ordered = rows.with_columns(keys).sort(
        _KEY, descending=is_descending, nulls_last=True, maintain_order=True
    )
    return ordered.drop(_KEY)


def _keys(cells: pl.Series, kind: Kind, shown: ShownText) -> pl.Series:
    """What cells are sorted by; null where there is nothing."""
    if kind is Kind.MESSAGE:  # `channel/ts/thread_ts`
        return cells.str.split("/").list.get(1)
    if kind is Kind.CHANGE:
        state, growth = cells.struct.field("state"), cells.struct.field("diff_pct")
        is_new = state.is_in(["new", "from_zero"])
        return pl.select(pl.when(is_new).then(float("inf")).otherwise(growth)).to_series()
    if kind in NUMERIC:
        return cells
    return replaced(cells, lambda text: shown(text, kind).casefold()).replace("", None)
