"""Which rows of a table a page shows."""

from collections.abc import Mapping

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.stats.quantities import change, not_compared
from channelstats.views.model import Column, FrameRows, Kind, Row, Table
from channelstats.web.filters import BadQuery
from channelstats.web.table_pages import ROWS, TablePage, TableQuery, table_pages, table_query

NAMES = {"U1": "Zoë", "U2": "anna", "U3": "Bob"}
COLUMNS = (
    Column("person", "Person", Kind.PERSON),
    Column("words", "Words", Kind.COUNT),
    Column("change", "Change in words", Kind.CHANGE),
    Column("message", "Last message", Kind.MESSAGE),
)
PEOPLE: tuple[Row, ...] = (
    ("U1", 5, change(5, 10), "C2/1710000003.000000/"),
    ("U2", None, change(5, None), "C1/1710000001.000000/"),
    ("U3", 7, not_compared(7), "C3/1710000002.000000/"),
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


def page(query: Mapping[str, str], *, rows: tuple[Row, ...] = PEOPLE) -> TablePage:
    table = Table("people", "People", COLUMNS, rows)
    return table_pages([table], table_query(query), shown)["people"]


def people(**query: str) -> list[str]:
    return [str(row[0]) for row in page({"table": "people", **query}).rows]


def numbered(rows: int) -> Table:
    column = Column("words", "Words", Kind.COUNT)
    return Table("people", "People", (column,), tuple((number,) for number in range(rows)))


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
    steps = Table("hours", "", (column,), (("under 5 min",), ("under 1 h",), ("later",)))
    up, down = (
        table_pages([steps], TableQuery("hours", sort), shown)["hours"].rows
        for sort in ("hour", "-hour")
    )
    assert list(up) == list(steps.rows)
    assert list(down) == list(steps.rows)[::-1]


@given(st.integers(0, 3 * ROWS + 1), st.sampled_from(["", "words", "-words"]))
def test_every_row_is_on_one_page_once(rows: int, sort: str) -> None:
    table = numbered(rows)
    first = table_pages([table], TableQuery("people", sort), shown)["people"]
    seen: list[Row] = []
    for number in range(1, first.pages + 1):
        asked = TableQuery("people", sort, page=number)
        one = table_pages([table], asked, shown)["people"]
        assert one.found == rows
        assert len(one.rows) <= ROWS
        if one.rows:
            assert (one.first, one.last) == (len(seen) + 1, len(seen) + len(one.rows))
        seen += one.rows
    assert sorted(seen) == list(table.rows)


@given(st.lists(st.tuples(st.sampled_from(sorted(NAMES)), st.integers(0, 9)), max_size=120))
def test_rows_of_a_frame_are_those_of_a_tuple(rows: list[tuple[str, int]]) -> None:
    frame = pl.DataFrame(rows, {"person": pl.String, "words": pl.Int64}, orient="row")
    for query in (TableQuery(), TableQuery("t", "-words"), TableQuery("t", "person", "o")):
        one, other = (
            table_pages([Table("t", "", COLUMNS[:2], of)], query, shown)["t"]
            for of in (tuple(rows), FrameRows(frame))
        )
        assert (list(one.rows), one.found) == (list(other.rows), other.found)


@pytest.mark.parametrize("of", [tuple, FrameRows])
def test_a_column_without_anything_in_any_row_is_not_on_the_page(of: type) -> None:
    columns = tuple(Column(name, name, kind) for name, kind in EMPTY_OR_NOT.items())
    cells = ("C1", 0, None, "", not_compared(1)), ("C2", None, None, "", not_compared(2))
    rows = (
        cells if of is tuple else FrameRows(pl.DataFrame(cells, list(EMPTY_OR_NOT), orient="row"))
    )
    table = Table("channels", "Channels", columns, rows)
    found = table_pages([table], table_query({"table": "channels", "sort": "new"}), shown)
    assert [(at, column.name) for at, column in found["channels"].columns] == [
        (0, "channel"),
        (1, "words"),
    ]


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
