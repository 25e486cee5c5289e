"""Groups that are too small to hide in are in no list, and cannot be chosen."""

from functools import cache

import msgspec
import pytest

from channelstats.metrics.table import Kind
from channelstats.pages.loading import DashboardData, ViewRequest
from channelstats.pages.model import VIEWS, ChoiceError, Page
from channelstats.pages.views import view_of
from support.cases import cases
from support.channelstats.pages import Looked, data_of, everything, look
from support.channelstats.said import WEEK
from support.channelstats.workspace import Raw

K = 3


def said(minute: int, user: str, cid: str) -> Raw:
    ts = f"{WEEK.begin + 60 * minute}.000000"
    reacted = [{"name": "wave", "users": ["UA", "UB", "UC"], "count": 3}]
    return {"type": "message", "user": user, "ts": ts, "text": f"in {cid}", "reactions": reacted}


@cache
def workspace(big: str = "ABC", small: str = "AB") -> DashboardData:
    messages = {
        "CBIG": [said(minute, f"U{name}", "CBIG") for minute, name in enumerate(big)],
        "CSMALL": [said(minute, f"U{name}", "CSMALL") for minute, name in enumerate(small)],
    }
    return data_of(messages)


def cells(view: Looked, *kinds: Kind) -> set[str]:
    """Everything of these kinds in the tables of a view."""
    return {
        str(row[place])
        for table in view.tables.values()
        for place, column in enumerate(table.columns)
        if column.kind in kinds
        for row in table.rows.iter_rows()
    }


@cases("name", VIEWS)
def test_a_small_channel_is_in_no_list_and_its_messages_neither(name: str) -> None:
    listed = cells(look(name, workspace(), smallest_group=K), Kind.CHANNEL, Kind.MESSAGE)
    assert not any("CSMALL" in cell for cell in listed)
    person = look(name, workspace(), person="UA", smallest_group=K)
    assert not any("CSMALL" in cell for cell in cells(person, Kind.CHANNEL, Kind.MESSAGE))
    assert any("fewer than 3 people posted" in note for note in person.view.notes)


def test_a_list_that_small_groups_are_left_out_of_does_not_say_that_there_is_nothing() -> None:
    for data in (workspace("ABC", "D"), workspace("AB", "AB")):
        sections = look("todo", data, smallest_group=K).view.sections
        said = {of.title: of.empty for of in sections if not of.tables[0].rows.height}
        assert said["Channels gone silent"] == "Nothing is listed here. Small groups are left out."
        assert set(said.values()) == {said["Channels gone silent"]}


def test_without_a_smallest_group_everything_is_listed() -> None:
    found = look("channels", workspace())
    assert cells(found, Kind.CHANNEL) == {"CBIG", "CSMALL"}
    assert not any("fewer" in note for note in found.view.notes)


def test_figures_of_the_whole_stay_as_they_are() -> None:
    assert look("overview", workspace(), smallest_group=K).number("messages") == 5


@pytest.mark.parametrize("channel", ["CSMALL", "CNONE"])
def test_a_small_channel_cannot_be_chosen(channel: str) -> None:
    with pytest.raises(ChoiceError, match="fewer than 3 people posted in this channel"):
        look("volume", workspace(), channel, smallest_group=K)
    assert look("volume", workspace(), "CBIG", smallest_group=K).number("messages") == 3


def test_a_small_channel_is_left_out_of_a_group() -> None:
    data = workspace()

    def of(*group: str) -> Page:
        choice = msgspec.structs.replace(everything(data), group=group)
        return view_of("volume", data, choice, smallest_group=K)

    page = of("CBIG", "CSMALL")
    assert Looked(page).number("messages") == 3
    assert page.choice.group == ("CBIG",)
    assert page.notes == ("Channels where fewer than 3 people posted are left out.",)
    with pytest.raises(ChoiceError, match="fewer than 3 people posted in each of these channels"):
        of("CSMALL", "CNONE")


@cases("name", VIEWS)
def test_where_too_few_posted_nobody_is_named(name: str) -> None:
    data = workspace("AB", "AB")
    found = look(name, data, smallest_group=K)
    assert cells(found, Kind.PERSON, Kind.MESSAGE) == set()
    if name == "network":
        assert found.charts["network"].nodes == ()
    assert found.view.notes[-1] == "Fewer than 3 people posted, so nobody is named."
    with pytest.raises(ChoiceError, match="nobody is shown on their own"):
        look(name, data, person="UA", smallest_group=K)


def test_days_without_anybody_are_no_small_group_by_themselves() -> None:
    silent = workspace("", "")
    asked = ViewRequest("people", silent, everything(silent, "CBIG", "UA"), 1)
    assert asked.names_people
    assert asked.page("").notes == ("This person wrote nothing in this channel in this period.",)
