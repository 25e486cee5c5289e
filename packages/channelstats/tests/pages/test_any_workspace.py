"""Every view of every workspace can be made, whatever is missing, and holds together."""

from dataclasses import replace
from datetime import date, timedelta
from itertools import chain
from typing import Any

import pytest

from channelstats.facts import Period
from channelstats.metrics.people import huddles
from channelstats.metrics.table import Cell, Kind
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import VIEWS, Heat, Network, Page, SeriesChart
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import User
from support.cases import cases
from support.channelstats.pages import channels_of, data_of, look, people_of, random_workspace
from support.channelstats.said import WEEK
from support.channelstats.workspace import Raw
from support.soak import slow_after

NUMBERS = {Kind.COUNT, Kind.NUMBER, Kind.PERCENT, Kind.SECONDS}


def check(view: Page) -> None:
    """What holds in every view."""
    for names in (
        [tile.name for tile in view.tiles],
        [chart.name for chart in view.charts],
        [table.name for table in view.tables],
    ):
        assert len(set(names)) == len(names)
    for tile in view.tiles:
        assert tile.kind in NUMBERS
        assert (tile.everyone is None) or view.choice.person
    for table in view.tables:
        assert len({column.name for column in table.columns}) == len(table.columns)
        assert table.rows.columns == [column.name for column in table.columns]
        for row in table.rows.iter_rows():
            for column, cell in zip(table.columns, row, strict=True):
                check_cell(column.kind, cell)
    for chart in view.charts:
        if isinstance(chart, SeriesChart):
            for series in chart.series:
                assert len(series.values) == len(chart.labels)
                assert tuple(zip(chart.labels, series.values, strict=True)) in pairs_of(view)
        elif isinstance(chart, Heat):
            assert [len(row) for row in chart.values] == [len(chart.columns)] * len(chart.rows)
            ((table,),) = (of.tables for of in view.sections if of.chart == chart)
            numbers = list(chain(*chart.values))
            by_cell = [row[2] for row in table.rows.iter_rows()]
            assert numbers in (by_cell, list(chain(*(row[2:] for row in table.rows.iter_rows()))))
        else:
            check_network(view, chart)


def check_cell(kind: Kind, cell: Cell) -> None:
    if kind is Kind.CHANGE:
        assert isinstance(cell, dict)
    elif kind is Kind.COUNT:
        assert cell is None or type(cell) is int
    elif kind in NUMBERS:
        assert cell is None or isinstance(cell, int | float)
    else:
        assert isinstance(cell, str)
    if kind is Kind.DATE:
        assert date.fromisoformat(str(cell))
    if kind is Kind.MESSAGE:
        assert str(cell).count("/") == 2


def pairs_of(view: Page) -> set[Any]:
    """Every column of every table beside the first of its table."""
    return {
        tuple((row[0], row[place]) for row in table.rows.iter_rows())
        for table in view.tables
        for place in range(1, len(table.columns))
        if table.columns[place].kind is not Kind.CHANGE
    }


def check_network(view: Page, chart: Network) -> None:
    tables = {table.name: {row[:3] for row in table.rows.iter_rows()} for table in view.tables}
    assert len(chart.nodes) <= 60
    assert len(chart.edges) <= 200
    assert {(edge.one, edge.other, edge.weight) for edge in chart.edges} <= tables["edges"]
    assert {(node.id, node.weight) for node in chart.nodes} <= {row[:2] for row in tables["people"]}
    ends = {end for edge in chart.edges for end in (edge.one, edge.other)}
    assert ends == {node.id for node in chart.nodes}


@pytest.mark.parametrize("seed", slow_after(1, range(200, 203)))
def test_every_view_of_every_choice(seed: int) -> None:
    data = random_workspace(seed)
    channels = [*channels_of(data)[:2], "CNONE"]
    people = [*people_of(data)[:2], "UNOBODY"]
    choices = [("", ""), *((cid, "") for cid in channels), *(("", uid) for uid in people)]
    choices.append((channels[0], people[0]))
    for name in VIEWS:
        for channel, person in choices:
            check(look(name, data, channel, person).view)


def workspace(*messages: Raw, users: dict[str, User] | None = None) -> DashboardData:
    return data_of({"C1": list(messages)}, users=users)


def said(minute: int, user: str = "UA") -> Raw:
    ts = f"{WEEK.begin + 60 * minute}.000000"
    return {"type": "message", "user": user, "ts": ts, "text": "a b"}


@pytest.fixture(scope="module")
def silence() -> DashboardData:
    return workspace()


@pytest.fixture(scope="module")
def one_message() -> DashboardData:
    return workspace(said(1))


@cases("name", VIEWS)
def test_silence_is_zeros_and_a_note(silence: DashboardData, name: str) -> None:
    for channel, person in (("", ""), ("C1", ""), ("", "UA"), ("C1", "UA")):
        found = look(name, silence, channel, person)
        check(found.view)
        assert all(not (found.number(tile) or 0) for tile in found.tiles)
        who = "This person wrote nothing" if person else "Nobody wrote anything"
        where = " in this channel" if channel else ""
        assert found.view.notes[0] == f"{who}{where} in this period."


@cases("name", VIEWS)
def test_one_message_is_enough(one_message: DashboardData, name: str) -> None:
    for person in ("", "UA"):
        check(look(name, one_message, "", person).view)


def test_it_is_said_how_many_have_no_time_zone() -> None:
    messages = (said(1, "UA"), said(2, "UB"), said(3, "UC"))

    def notes(users: dict[str, User]) -> tuple[str, ...]:
        return look("hours", workspace(*messages, users=users)).view.notes

    of_all = {uid: User(uid, tz="Europe/Berlin") for uid in ("UA", "UB", "UC")}
    assert notes(of_all) == ()
    (some,) = notes({"UA": of_all["UA"], "UB": of_all["UB"]})
    assert some.startswith("1 of 3 people who posted has no known time zone")
    nowhere = {"UA": User("UA", tz="Mars/Olympus")}
    (none,) = notes(nowhere)
    charts = look("hours", workspace(*messages, users=nowhere)).view.sections[:3]
    assert [of.empty for of in charts] == [none] * 3
    assert none.startswith("Nobody who posted has a known time zone")


def test_bots_and_deleted_messages_are_in_no_view() -> None:
    bot = {"UBOT": User("UBOT", is_bot=True)}
    data = workspace(said(1, "UBOT"), said(2), users=bot)
    assert look("overview", data).number("messages") == 1
    assert [row["person"] for row in look("people", data).rows("people")] == ["UA"]
    assert look("overview", data, person="UBOT").number("messages") == 0


@pytest.mark.parametrize("others", [0, 5])
def test_reactions_that_slack_does_not_list_are_noted(others: int) -> None:
    """Also where another message lists more people than it counts."""
    liked: Raw = {**said(1), "reactions": [{"name": "wave", "users": ["UB"], "count": 3}]}
    people = [f"UB{number}" for number in range(others)]
    other: Raw = {**said(2), "reactions": [{"name": "wave", "users": people, "count": 1}]}
    found = look("reactions", workspace(liked, *([other] if others else [])))
    assert found.number("reactions") == 3 + others
    assert [row["reactions"] for row in found.rows("givers")] == [1] * (1 + others)
    assert found.view.notes == ("Slack does not say who gave 2 of the reactions.",)
    titles = [
        column.title
        for table in found.view.tables
        for column in table.columns
        if column.title.endswith(" (at least)")
    ]
    assert titles == ["Times (at least)", "Reactions given (at least)"]
    assert look("reactions", workspace(said(1))).view.notes == ()


@pytest.mark.parametrize(
    ("reactor", "is_answered"), [("UB", True), ("UBOT", False), ("USLACKBOT", False), ("B1", False)]
)
def test_a_reaction_of_a_bot_answers_nothing(reactor: str, is_answered: bool) -> None:
    asked: Raw = {**said(1), "reactions": [{"name": "eyes", "users": [reactor], "count": 1}]}
    data = workspace(asked)
    bots = {"UBOT": User("UBOT", is_bot=True)}
    data = DashboardData(replace(data.inputs, users=bots), data.period, data.options)
    assert look("threads", data).number("unanswered") == (0 if is_answered else 1)


def test_huddles_are_counted_once_however_slack_tells_of_them() -> None:
    def huddle(day: int, subtype: str, begin: int, end: int) -> Raw:
        room = {"participants": ["UA"], "date_start": begin, "date_end": end}
        return {**said(day), "subtype": subtype, "room": room}

    data = workspace(
        huddle(1, "huddle_thread", 100, 160),
        huddle(2, "sh_room_created", 100, 0),
        huddle(3, "sh_room_created", 500, 600),
        huddle(4, "huddle_thread", 900, 850),
        {**said(5), "subtype": "sh_room_created"},
    )
    found = huddles(data.whole.now)
    assert found == {"count": 3, "participants": 1, "seconds": 160}


def test_members_of_the_workspace_are_drawn_where_they_were_counted_more_than_once() -> None:
    def charts(*counted: tuple[date, int], choice: str = "") -> dict[str, Any]:
        data = workspace(said(1))
        weeks = Period(WEEK.last - timedelta(27), 28, WEEK.zone)
        counts = {day: Counts(active_humans=number) for day, number in counted}
        data = DashboardData(replace(data.inputs, counts=counts), weeks, data.options)
        return look("newcomers", data, person=choice).charts

    first, last = WEEK.last - timedelta(20), WEEK.last
    assert "members" not in charts((last, 7))
    assert charts((first, 5), (last, 7))["members"].series[0].values == (None, 5, 5, 7)
    assert "members" not in charts((first, 5), (last, 7), choice="UA")
