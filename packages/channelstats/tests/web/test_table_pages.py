"""Which rows of a table a page shows."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.metrics.quantities import change, not_compared
from channelstats.metrics.table import Column, Kind, Table
from channelstats.web.filters import BadQuery
from channelstats.web.table_pages import ROWS, TablePage, TableQuery, table_pages, table_query

NAMES = {"U1": "Zoë", "U2": "anna", "U3": "Bob"}
COLUMNS = (
    Column("person", "Person", Kind.PERSON),
    Column("words", "Words", Kind.COUNT),
    Column("change", "Change in words", Kind.CHANGE),
    Column("message", "Last message", Kind.MESSAGE),
)
PEOPLE = pl.DataFrame(
    {
        "person": ["U1", "U2", "U3"],
        "words": [5, None, 7],
        "change": [change(5, 10), change(5, None), not_compared(7)],
        "message": ["C2/1710000003.000000/", "C1/1710000001.000000/", "C3/1710000002.000000/"],
    }
)

EMPTY_OR_NOT = {
    "channel": Kind.CHANNEL,
    "words": Kind.COUNT,
    "members": Kind.COUNT,
    "new": Kind.TEXT,
    "change": Kind.CHANGE,
}


def shown(of: str, _: Kind) -> str:
    return NAMES.get(of, of)


def page(query: Mapping[str, str]) -> TablePage:
    table = Table("people", "People", COLUMNS, PEOPLE)
    return table_pages([table], table_query(query), shown)["people"]


def people(**query: str) -> list[str]:
    return [str(row[0]) for row in page({"table": "people", **query}).rows]


def numbered(rows: int) -> Table:
    column = Column("words", "Words", Kind.COUNT)
    numbers = pl.Series(range(rows), dtype=pl.Int64)
    return Table("people", "People", (column,), numbers.to_frame("words"))


def test_without_a_wish_rows_stay_in_their_order() -> None:
    assert [str(row[0]) for row in page({}).rows] == ["U1", "U2", "U3"]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("person", ["U2", "U3", "U1"]),  # by name, whatever its case
        ("-person", ["U1", "U3", "U2"]),
        ("words", ["U1", "U3", "U2"]),  # without a number, at the end
        ("-words", ["U3", "U1", "U2"]),
        ("change", ["U1", "U2", "U3"]),  # what is new grew most; what is not compared is last
        ("-change", ["U2", "U1", "U3"]),
        ("message", ["U2", "U3", "U1"]),  # by time
    ],
)
def test_rows_are_sorted_by_what_is_seen(sort: str, order: list[str]) -> None:
    assert people(sort=sort) == order


@pytest.mark.parametrize(("find", "found"), [("b", ["U3"]), ("@ZOË", ["U1"]), ("u1", []), ("", 3)])
def test_rows_are_found_by_the_names_that_are_seen(find: str, found: list[str] | int) -> None:
    names = people(find=find)
    assert names == found if isinstance(found, list) else len(names) == found


def test_steps_that_have_an_order_keep_it() -> None:
    column = Column("hour", "Hour", Kind.TEXT)
    names = pl.DataFrame({"hour": ["under 5 min", "under 1 h", "later"]})
    steps = Table("hours", "", (column,), names)
    up, down = (
        table_pages([steps], TableQuery("hours", sort), shown)["hours"].rows
        for sort in ("hour", "-hour")
    )
    assert up == names.rows()
    assert down == names.rows()[::-1]


@given(st.integers(0, 3 * ROWS + 1), st.sampled_from(["", "words", "-words"]))
def test_every_row_is_on_one_page_once(rows: int, sort: str) -> None:
    table = numbered(rows)
    first = table_pages([table], TableQuery("people", sort), shown)["people"]
    seen: list[tuple[Any, ...]] = []
    for number in range(1, first.pages + 1):
        asked = TableQuery("people", sort, page=number)
        one = table_pages([table], asked, shown)["people"]
        assert one.found == rows
        assert len(one.rows) <= ROWS
        if one.rows:
            assert (one.first, one.last) == (len(seen) + 1, len(seen) + len(one.rows))
        seen += one.rows
    assert sorted(seen) == table.rows.rows()


@given(st.lists(st.tuples(st.sampled_from(sorted(NAMES)), st.integers(0, 9)), max_size=120))
def test_rows_that_are_alike_keep_their_order(rows: list[tuple[str, int]]) -> None:
    frame = pl.DataFrame(rows, {"person": pl.String, "words": pl.Int64}, orient="row")
    table = Table("t", "", COLUMNS[:2], frame)
    with_o = [row for row in rows if row[0] != "U2"]
    for query, expected in (
        (TableQuery(), rows),
        (TableQuery("t", "-words"), sorted(rows, key=lambda row: -row[1])),
        (TableQuery("t", "words"), sorted(rows, key=lambda row: row[1])),
        (TableQuery("t", "person", "o"), sorted(with_o, key=lambda row: NAMES[row[0]].casefold())),
    ):
        found = table_pages([table], query, shown)["t"]
        assert (found.rows, found.found) == (expected[:ROWS], len(expected))


def test_a_column_without_anything_in_any_row_is_not_on_the_page() -> None:
    columns = tuple(Column(name, name, kind) for name, kind in EMPTY_OR_NOT.items())
    cells = ("C1", 0, None, "", not_compared(1)), ("C2", None, None, "", not_compared(2))
    table = Table("channels", "", columns, pl.DataFrame(cells, list(EMPTY_OR_NOT), orient="row"))
    found = table_pages([table], table_query({"table": "channels", "sort": "new"}), shown)
    page = found["channels"]
    assert [column.name for column in page.columns] == ["channel", "words"]
    assert page.rows == [("C1", 0), ("C2", None)]


@pytest.mark.parametrize("has_message", [True, False])
def test_a_date_is_not_beside_the_message_that_is_of_that_date(has_message: bool) -> None:
    message, date = Column("message", "Message", Kind.MESSAGE), Column("date", "Date", Kind.DATE)
    columns = (message, date) if has_message else (date,)
    cells = {"message": ["C1/1710000003.000000/"], "date": ["2024-03-09"]}
    rows = pl.DataFrame(cells).select(column.name for column in columns)
    found = table_pages([Table("silent", "", columns, rows)], TableQuery(), shown)["silent"]
    assert list(found.columns) == [message if has_message else date]


def test_a_heading_sorts_the_most_or_the_first_name_first_and_then_turns_round() -> None:
    person, words = COLUMNS[:2]
    start = page({})
    assert (start.next_sort(person), start.next_sort(words)) == ("person", "-words")
    assert start.order(words) == ""
    most = page({"table": "people", "sort": "-words"})
    assert (most.order(words), most.next_sort(words)) == ("descending", "words")
    least = page({"table": "people", "sort": "words"})
    assert (least.order(words), least.next_sort(words)) == ("ascending", "-words")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sort": "words"}, "table: expected with sort, find and page"),
        ({"table": "persons"}, "table: expected one of people"),
        ({"table": "people", "sort": "word"}, "sort: expected one of person, words, change"),
        ({"table": "people", "page": "0"}, "page: expected a number from 1"),
        ({"table": "people", "page": "two"}, "page: expected a number from 1"),
        ({"table": "people", "page": "2"}, "page: expected a number from 1 to 1"),
    ],
)
def test_what_the_table_does_not_have_is_refused_by_name(
    query: dict[str, str], message: str
) -> None:
    with pytest.raises(BadQuery, match=f"^{message}"):
        page(query)
