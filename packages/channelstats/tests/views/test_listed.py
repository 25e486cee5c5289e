"""What a tile counts can be looked at: the rows of a table."""

import pytest

from channelstats.views.loading import DashboardData
from channelstats.views.model import VIEWS, Kind
from support.channelstats.views import channels_of, look


def test_a_tile_leads_to_as_many_rows_as_it_says(data: DashboardData) -> None:
    for channel in ("", *channels_of(data)[:2]):
        for name in VIEWS:
            for tile in look(name, data, channel).view.tiles:
                view, _, table = tile.listed.partition("/")
                if not table or tile.kind is not Kind.COUNT or tile.change is None:
                    continue
                rows = look(view, data, channel).rows(table)
                if table == "people":  # who only reacted is among them
                    rows = [row for row in rows if row["messages"]]
                assert len(rows) == tile.change["cur"]


@pytest.mark.parametrize("view", ["overview", "threads", "people", "channels", "newcomers"])
def test_what_has_rows_says_so(data: DashboardData, view: str) -> None:
    assert any(tile.listed for tile in look(view, data).view.tiles)
