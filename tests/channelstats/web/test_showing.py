"""What the templates ask for."""

from datetime import date
from zoneinfo import ZoneInfo

import pytest

from channelstats.board.model import Choice, Column, Kind, Table, View
from channelstats.reports.directory import Directory
from channelstats.web.filters import Asked
from channelstats.web.showing import ROWS, Showing

FIRST, LAST = date(2024, 3, 10), date(2024, 3, 16)


def showing(table: Table) -> Showing:
    view = View("people", "", "", Choice(FIRST, LAST), (FIRST, LAST), (), (), (table,), ())
    return Showing(view, Asked(FIRST, LAST, 1), Directory(), ZoneInfo("UTC"))


@pytest.mark.parametrize(
    ("rows", "shown"), [(0, 0), (ROWS, ROWS), (ROWS + 1, ROWS + 1), (2 * ROWS, ROWS)]
)
def test_a_table_is_cut_where_that_leaves_out_more_than_a_few_rows(rows: int, shown: int) -> None:
    column = Column("words", "Words", Kind.COUNT)
    table = Table("people", "People", (column,), tuple((number,) for number in range(rows)))
    assert len(showing(table).rows(table)) == shown
