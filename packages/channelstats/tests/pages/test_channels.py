"""Files, joins and leaves of channels: in the view."""

from typing import Any

import pytest

from channelstats.pages.loading import DashboardData
from channelstats.tables.directory import User
from support.channelstats.pages import data_of, look
from support.channelstats.said import WEEK
from support.channelstats.workspace import Raw

DAY = 24 * 60


def said(minute: int, user: str = "UA", **fields: Any) -> Raw:
    ts = f"{WEEK.begin + 60 * minute}.000000"
    return {"type": "message", "user": user, "ts": ts, "text": "a b", **fields}


def moved(minute: int, user: str, subtype: str) -> Raw:
    return said(minute, user, subtype=subtype)


FILE: Raw = {"id": "F1", "name": "{of a plan}.pdf", "mimetype": "application/pdf", "size": 9}


@pytest.fixture(scope="module")
def data() -> DashboardData:
    messages = {
        "C1": [
            said(1, files=[FILE, {**FILE, "id": "F2"}], subtype="file_share"),
            said(2, file={}),
            said(-DAY + 2, files=[FILE]),
            moved(3, "UB", "channel_join"),
            moved(DAY + 3, "UC", "group_join"),
            moved(DAY + 4, "UC", "channel_leave"),
            moved(4, "UBOT", "channel_join"),
            moved(-DAY, "UD", "channel_leave"),
            moved(-DAY + 1, "UE", "channel_leave"),
        ],
        "C2": [said(5)],
    }
    return data_of(messages, users={"UBOT": User("UBOT", is_bot=True)})


def test_each_channel_has_its_files_joins_and_leaves(data: DashboardData) -> None:
    rows = look("channels", data).by("moves_by_channel", "channel")
    found = {
        cid: tuple(row[name] for name in ("files", "joins", "leaves")) for cid, row in rows.items()
    }
    assert found == {"C1": (3, 2, 1)}


def test_those_of_the_workspace_are_compared_and_shown_over_time(data: DashboardData) -> None:
    channels = look("channels", data)
    changes = {name: channels.tiles[name].change for name in ("files", "joins", "leaves")}
    assert {name: of and (of["cur"], of["prev"]) for name, of in changes.items()} == {
        "files": (3, 1),
        "joins": (2, 0),
        "leaves": (1, 2),
    }
    assert channels.series("moves") == {
        "joins": (1, 1, 0, 0, 0, 0, 0),
        "leaves": (0, 1, 0, 0, 0, 0, 0),
    }
    assert [row["leaves"] for row in channels.rows("moves")] == [0, 1, 0, 0, 0, 0, 0]


def test_of_a_channel_where_nobody_came_or_went_nothing_is_drawn(data: DashboardData) -> None:
    assert look("channels", data, channel="C2").charts == {}
