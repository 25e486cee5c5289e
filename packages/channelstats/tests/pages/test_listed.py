"""What is counted can be looked at: the rows of a table, or the messages themselves."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest

from channelstats.metrics.table import Kind
from channelstats.metrics.volume import volume
from channelstats.pages.loading import DashboardData, Members
from channelstats.pages.messages import SELECTIONS, emoji_selection, selection_of
from channelstats.pages.model import ALL_VIEWS, GROUP, MESSAGES, VIEWS, Choice, ChoiceError, Tile
from channelstats.pages.newcomers import group_of, is_group
from channelstats.pages.views import view_of
from support.channelstats.pages import Looked, Row, channels_of, look, people_of, random_workspace
from support.soak import slow_after

SUMMED = {"words": "words", "reactions": "reactions", "files": "files"}
"""Figures that are sums over a column of the list of messages."""


def listed(data: DashboardData, only: str = "", channel: str = "", person: str = "") -> Looked:
    days = data.period.start, data.period.last
    return Looked(view_of(MESSAGES, data, Choice(*days, channel, person, only=only)))


def number_of(tile: Tile, rows_of: Callable[[str, str], list[Row]]) -> int | None:
    """What the list of a tile counts; None where that is not as many as rows."""
    view, _, what = tile.listed.partition("/")
    if not view or tile.kind is not Kind.COUNT or tile.change is None or "/" in what:
        return None
    rows = rows_of(view, what)
    if view == MESSAGES:
        if tile.name not in SUMMED:
            return len(rows)
        return sum(int(row[SUMMED[tile.name]]) for row in rows)
    if tile.name in ("interactions", "half", "pairs"):
        return None
    if tile.name == "reactions_given":
        return sum(int(row["reactions"]) for row in rows)
    return len(rows)


def check_tiles(data: DashboardData, channel: str, person: str) -> None:
    """The number of each tile is that of the rows of its list."""
    # Many tiles lead to the same view.
    shown = cache(partial(look, data=data, channel=channel, person=person))
    selected = cache(partial(listed, data, channel=channel, person=person))

    def rows_of(view: str, what: str) -> list[Row]:
        """The rows of a table, or the messages of a selection."""
        return selected(what).rows("messages") if view == MESSAGES else shown(view).rows(what)

    for name in (*VIEWS, *(["person"] if person else ["channel"] if channel else [])):
        for tile in shown(name).view.tiles:
            number = number_of(tile, rows_of)
            if number is not None and tile.change is not None:
                assert number == tile.change["cur"], (name, tile.name, channel, person)


def test_a_tile_leads_to_as_many_rows_as_it_says(data: DashboardData) -> None:
    check_tiles(data, "", "")
    for channel in channels_of(data)[:2]:
        check_tiles(data, channel, "")
    for person in people_of(data)[:2]:
        check_tiles(data, "", person)


@pytest.mark.parametrize("view", ["overview", "threads", "people", "channels", "newcomers"])
def test_what_has_rows_says_so(data: DashboardData, view: str) -> None:
    assert any(tile.listed for tile in look(view, data).view.tiles)


def test_whatever_is_listed_is_in_a_view_that_there_is() -> None:
    data = random_workspace(100, 60)
    person, channel = people_of(data)[0], channels_of(data)[0]
    views = [look(name, data, person=uid) for name in VIEWS for uid in ("", person)]
    views += [look("person", data, person=person), look("channel", data, channel)]
    found = {of.listed for view in views for of in view.view.tiles}
    found |= {of.listed for view in views for table in view.tables.values() for of in table.columns}
    tables_of = cache(
        lambda *choice: look(choice[0], data, *choice[1:], members=Members((person,))).tables
    )
    assert len(found) > 10
    for where in found - {""}:
        name, _, what = where.partition("/")
        assert name in ALL_VIEWS
        if name == MESSAGES:
            assert what in SELECTIONS
        elif name != GROUP:
            of_channel = channel if name == "channel" else ""
            of_person = person if name == "person" else ""
            tables = tables_of(name, of_channel, of_person) | tables_of(name, of_channel, person)
            assert what.partition("/")[0] in tables


def test_an_hour_of_the_heat_map_lists_the_messages_of_that_hour(data: DashboardData) -> None:
    found = look("hours", data)
    for row in found.rows("week"):
        only = selection_of(row["weekday"], row["hour"])
        if row["messages"]:
            assert len(listed(data, only).rows("messages")) == row["messages"]
    for table, column in (("hours", "hour"), ("weekdays", "weekday")):
        for row in found.rows(table):
            of_bar = listed(data, selection_of(row[column])).rows("messages")
            assert len(of_bar) == row["messages"]
            assert sum(message["words"] for message in of_bar) == row["words"]


def test_a_bar_of_waiting_lists_the_threads_that_waited_so_long(data: DashboardData) -> None:
    for row in look("threads", data).rows("first_replies"):
        assert len(listed(data, selection_of(row["first"])).rows("messages")) == row["threads"]


def test_an_emoji_lists_the_messages_that_got_it(data: DashboardData) -> None:
    reactions = data.whole.now.table("reactions")
    for row in look("reactions", data).rows("emoji"):
        with_it = reactions.filter(emoji=row["emoji"])
        assert with_it.height == row["count"]
        rows = listed(data, emoji_selection(row["emoji"])).rows("messages")
        assert len(rows) == with_it["row"].n_unique()
        assert all(message["reactions"] for message in rows)


def test_members_are_listed_whether_or_not_they_wrote() -> None:
    data = random_workspace(100, 60)
    channel = channels_of(data)[0]
    wrote = look("channel", data, channel).by("carriers", "person")
    members = ("UREADS", *wrote)
    found = look("channel", data, channel, members=Members(members))
    rows = found.by("members", "person")
    assert rows.keys() == set(members)
    assert rows["UREADS"] == {"person": "UREADS", "messages": 0, "words": 0}
    for uid, row in wrote.items():
        assert (rows[uid]["messages"], rows[uid]["words"]) == (row["messages"], row["words"])
    assert "members" not in look("channel", data, channel).tables


@pytest.mark.parametrize("seed", slow_after(1, [100, 3]))
def test_numbers_of_a_person_lead_to_rows_that_add_up_to_them(seed: int) -> None:
    data = random_workspace(seed, 60)
    tables = (
        ("network", "people", "total", "total"),
        ("reactions", "givers", "reactions", "reactions"),
    )
    for view, table, column, summed in tables:
        found = look(view, data)
        (listed_in,) = (of.listed for of in found.tables[table].columns if of.name == column)
        to, _, what = listed_in.partition("/")
        for row in found.rows(table):
            rows = look(to, data, person=row["person"]).rows(what)
            assert sum(of[summed] for of in rows) == row[column], (view, row)


@pytest.mark.parametrize("seed", slow_after(1, [100, 3]))
def test_the_posters_of_four_weeks_lead_to_these(seed: int) -> None:
    data = random_workspace(seed, 60)
    found = look("newcomers", data)
    (column,) = (of for of in found.tables["weeks"].columns if of.name == "monthly")
    view, table, days = column.listed.split("/")
    of_days = replace(data, period=data.period.ending_with(int(days)))
    assert len(look(view, of_days).rows(table)) == found.rows("weeks")[-1]["monthly"]


def test_a_list_says_in_the_page_of_what_it_is(data: DashboardData) -> None:
    assert listed(data, "reacted").tables["messages"].title == "Messages with reactions"
    choice = Choice(data.period.start, data.period.last, only="2024-03-10-joined")
    (people,) = view_of(GROUP, data, choice).tables
    assert people.about == "Who joined in the four weeks from 2024-03-10."


def people_in(data: DashboardData, day: str, column: str) -> int:
    choice = Choice(data.period.start, data.period.last, only=group_of(day, column))
    assert is_group(choice.only)
    return len(Looked(view_of(GROUP, data, choice)).rows("people"))


@pytest.mark.parametrize("seed", slow_after(1, [100, 3]))
def test_a_cell_of_the_cohorts_and_of_the_way_in_lists_its_people(seed: int) -> None:
    data = random_workspace(seed, 60)
    found = look("newcomers", data)
    counted = 0
    for row in found.rows("ways_in_by_month"):
        for step in ("joined", "posted", "answered", "regular"):
            assert people_in(data, row["month"], step) == row[step]
            counted += row[step]
    for row in found.rows("cohorts"):
        for column in found.tables["cohorts"].columns[2:]:
            share, size = row[column.name], row["newcomers"]
            if share is not None:
                assert people_in(data, row["week"], column.name) == round(share * size / 100)
                assert people_in(data, row["week"], column.title) == round(share * size / 100)
                counted += size
    assert counted


@pytest.mark.parametrize("seed", slow_after(1, [100, 3]))
def test_who_stayed_and_who_came_back_in_a_week_are_listed(seed: int) -> None:
    data = random_workspace(seed, 60)
    counted = 0
    for row in look("newcomers", data).rows("weeks"):
        for kind in ("both", "returning"):
            if row[kind] is not None:
                assert people_in(data, row["week"], kind) == row[kind]
                counted += row[kind]
    assert counted


def test_what_is_no_group_is_refused_and_of_no_day_there_is_nobody(data: DashboardData) -> None:
    assert people_in(data, "1999-01-01", "posted") == 0
    assert people_in(data, data.period.start.isoformat(), "week_99") == 0
    days = data.period.start, data.period.last
    for name, only in ((GROUP, "monday"), (MESSAGES, "2024-03-10-posted")):
        with pytest.raises(ChoiceError, match="only: expected"):
            view_of(name, data, Choice(*days, only=only))


def test_where_too_few_posted_a_group_names_nobody(data: DashboardData) -> None:
    choice = Choice(data.period.start, data.period.last, only="2024-03-10-joined")
    few = volume(data.whole.now).posters + 1
    page = view_of(GROUP, data, choice, smallest_group=few)
    assert page.tables[0].rows.is_empty()


def test_the_newest_message_comes_first_and_none_twice(data: DashboardData) -> None:
    messages = [row["message"] for row in listed(data).rows("messages")]
    times = [message.split("/")[1] for message in messages]
    assert times == sorted(times, reverse=True)
    assert len(set(messages)) == len(messages)
