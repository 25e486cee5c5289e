"""What figures and columns mean is said where they stand."""

import re
from dataclasses import replace

import pytest

from channelstats.metrics.registry import METRICS
from channelstats.metrics.table import Kind
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import CHANNEL, PERSON, VIEWS, Heat, Network, Page, SeriesChart
from support.channelstats.pages import channels_of, look, people_of, random_workspace

NUMERIC = {Kind.COUNT, Kind.NUMBER, Kind.PERCENT, Kind.SECONDS, Kind.CHANGE}
ITSELF = re.compile(
    r".*, (period before|in the four weeks before|average per poster|everyone)|Week \d+|Everyone|"
    r"Threads|Mentions|Mentions of|Mentioned by|Reactions (from|to)|Seconds"
)
"""Titles that say themselves what they mean, or whose numbers stand beside those explained."""

_OF_A_TEAM = {"first_answers", "first_answer", "questions_left"}
SOMETIMES = {"in_private", "members_of_all", "members_at_end", *_OF_A_TEAM}
"""Figures of workspaces with private channels, with counts of members, and with a team."""


@pytest.fixture(scope="module")
def data() -> DashboardData:
    return random_workspace(105, 30)


@pytest.fixture(scope="module")
def views(data: DashboardData) -> list[Page]:
    person, channel = people_of(data)[0], channels_of(data)[0]
    asked = [(name, "", uid) for name in VIEWS for uid in ("", person)]
    asked += [(PERSON, "", person), (CHANNEL, channel, "")]
    return [look(name, data, cid, uid).view for name, cid, uid in asked]


def test_every_tile_and_every_column_of_numbers_is_explained(views: list[Page]) -> None:
    for view in views:
        columns = [column for table in view.tables for column in table.columns]
        unsaid = [tile.title for tile in view.tiles if not tile.about]
        unsaid += [of.title for of in columns if of.kind in NUMERIC and not of.about]
        assert [title for title in unsaid if not ITSELF.fullmatch(title)] == [], view.name


def test_every_picture_whose_colours_or_steps_mean_something_is_explained(
    views: list[Page],
) -> None:
    for view in views:
        for chart in view.charts:
            if isinstance(chart, Heat | Network) or (
                isinstance(chart, SeriesChart) and chart.name == "first_replies"
            ):
                assert chart.about, chart.title


def test_nothing_is_explained_that_no_view_shows(views: list[Page]) -> None:
    shown = {(part.title, part.about) for view in views for part in (*view.tiles, *view.charts)}
    shown |= {
        (column.title, column.about)
        for view in views
        for table in view.tables
        for column in table.columns
    }
    unused = {of.name for of in METRICS.values() if of.about and (of.title, of.about) not in shown}
    assert unused == SOMETIMES


def test_columns_of_one_key_that_mean_different_things_say_so() -> None:
    data = random_workspace(100, 30)
    of_channels = {of.name: of.about for of in look("channels", data).tables["channels"].columns}
    ways_in = {of.name: of.about for of in look("newcomers", data).tables["ways_in"].columns}
    assert of_channels["posters"] == "People who wrote at least one message there."
    assert ways_in["people"] == "How many of them reached this step."


def test_weeks_that_are_taken_together_are_shares_as_single_ones_are() -> None:
    data = replace(random_workspace(100, 30), cohorts=52)
    columns = look("newcomers", data).tables["cohorts"].columns
    assert columns[2].title == "Weeks 1 to 4"
    assert {of.kind for of in columns[2:]} == {Kind.PERCENT}
