"""What titles mean is said where they stand."""

import re

import pytest

from channelstats.views.glossary import GLOSSARY
from channelstats.views.loading import DashboardData
from channelstats.views.model import VIEWS, Heat, Kind, Network, SeriesChart, View
from support.channelstats.views import look, people_of, random_workspace

NUMERIC = {Kind.COUNT, Kind.NUMBER, Kind.PERCENT, Kind.SECONDS, Kind.CHANGE}
ITSELF = re.compile(
    r".*, (period before|in the four weeks before|average per poster|everyone)|Week \d+|Everyone|"
    r"Weekdays?|Hours?|Threads|"
    r"Date|Mentions|Mentions of|Mentioned by|Reactions (from|to)|Response time|Seconds|Posters"
)
"""Titles that say themselves what they mean, or whose numbers stand beside those explained."""

SLACK = {
    "Active members (Slack)",
    "Slack",
    "Counted here",
    "Members who viewed",
    "Members who viewed (at least)",
    "Members who posted",
    "Messages (Slack)",
    "Messages counted here",
}
"""Titles that are there with counts of Slack's own, see `test_slack_counts`."""


@pytest.fixture(scope="module")
def data() -> DashboardData:
    return random_workspace(100, 30)


@pytest.fixture(scope="module")
def views(data: DashboardData) -> list[View]:
    return [
        look(name, data, person=person).view
        for name in VIEWS
        for person in ("", people_of(data)[0])
    ]


def test_every_tile_and_every_column_of_numbers_is_explained(views: list[View]) -> None:
    for view in views:
        columns = [column for table in view.tables for column in table.columns]
        unsaid = [tile.title for tile in view.tiles if not tile.about]
        unsaid += [of.title for of in columns if of.kind in NUMERIC and not of.about]
        assert [title for title in unsaid if not ITSELF.fullmatch(title)] == [], view.name


def test_every_picture_whose_colours_or_steps_mean_something_is_explained(
    views: list[View],
) -> None:
    for view in views:
        for chart in view.charts:
            if isinstance(chart, Heat | Network) or (
                isinstance(chart, SeriesChart) and chart.name == "first_replies"
            ):
                assert chart.about, chart.title


def test_nothing_is_explained_that_no_view_says(views: list[View]) -> None:
    titles = {part.title for view in views for part in (*view.tiles, *view.charts)}
    titles |= {column.title for view in views for table in view.tables for column in table.columns}
    sometimes = {"In private channels", "Members of the workspace", *SLACK}
    assert sorted(GLOSSARY.keys() - titles - sometimes) == []
