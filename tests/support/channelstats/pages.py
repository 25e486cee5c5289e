"""Views of the dashboard to look into: of random workspaces, by the names of their parts."""

import random
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec

from channelstats.facts import Inputs, Options
from channelstats.facts.interactions import interactions
from channelstats.facts.periods import History
from channelstats.metrics.table import Table
from channelstats.pages.annotations import NO_MARKS, MarkedItems, with_marks
from channelstats.pages.loading import DashboardData
from channelstats.pages.model import Choice, Page, Part
from channelstats.pages.views import view_of
from channelstats.tables.directory import Channel, User
from support.channelstats.inputs import inputs_of, wanted
from support.channelstats.random_workspace import Maker, settings
from support.channelstats.said import LONG_AGO, WEEK
from support.channelstats.workspace import Raw, Workspace

Row = dict[str, Any]


@cache
def random_workspace(seed: int, most: int | None = None) -> DashboardData:
    """What the views of a random workspace are made of; the same object for the same numbers, with
    what was measured of it.
    """
    rng = random.Random(seed)
    of = settings(rng)
    workspace = Maker(rng, of).workspace(rng.choice((0, 3, 15, 60)) if most is None else most)
    period, options = wanted(of)
    return DashboardData(inputs_of(workspace), period, options)


def data_of(
    messages: Mapping[str, list[Raw]],
    *,
    users: Mapping[str, User] | None = None,
    archived: Collection[str] = (),
    history: History = LONG_AGO,
    options: Options = Options(),  # noqa: B008 - it is frozen
) -> DashboardData:
    """What the views of the week are made of, where this was said in channels, by their IDs."""
    read = inputs_of(Workspace(messages=dict(messages)))
    channels = {cid: Channel(cid, cid, 1, is_archived=cid in archived) for cid in messages}
    inputs = Inputs(read.messages, users or {}, channels, history=history)
    return DashboardData(inputs, WEEK, options)


def everything(data: DashboardData, channel: str = "", person: str = "") -> Choice:
    """All days of what was read."""
    return Choice(data.period.start, data.period.last, channel, person)


def channels_of(data: DashboardData) -> list[str]:
    """Every channel that anything was said in, ever."""
    return sorted(data.facts.messages["slack_cid"].unique())


def people_of(data: DashboardData) -> list[str]:
    """Everybody who did anything in the period."""
    now = data.whole.now
    return sorted({*now.messages["slack_uid"], *interactions(now).everybody()})


class Looked:
    """A view by the names of its parts."""

    def __init__(self, view: Page) -> None:
        self.view = view
        self.tiles = {tile.name: tile for tile in view.tiles}
        self.charts: dict[str, Any] = {chart.name: chart for chart in view.charts}
        self.tables = {table.name: table for table in view.tables}

    def number(self, tile: str) -> float | None:
        """What a tile shows."""
        change = self.tiles[tile].change
        return None if change is None else change["cur"]

    def rows(self, table: str) -> list[Row]:
        """The rows of a table by the names of its columns."""
        return self.tables[table].rows.to_dicts()

    def by(self, table: str, key: str) -> dict[str, Row]:
        """The rows of a table by what is in a column."""
        return {row[key]: row for row in self.rows(table)}

    def series(self, chart: str) -> dict[str, tuple[float | None, ...]]:
        return {series.name: series.values for series in self.charts[chart].series}


def comparable(view: Page) -> Page:
    """The view with its tables as rows, which frames are not equal to."""

    def of_rows(part: Part) -> Part:
        if not isinstance(part, Table):
            return part
        return msgspec.structs.replace(part, rows=part.rows.to_dicts())

    sections = [
        msgspec.structs.replace(of, parts=tuple(map(of_rows, of.parts))) for of in view.sections
    ]
    return msgspec.structs.replace(view, sections=tuple(sections))


def look(
    name: str,
    data: DashboardData,
    channel: str = "",
    person: str = "",
    *,
    marks: MarkedItems = NO_MARKS,
    **options: Any,
) -> Looked:
    view = view_of(name, data, everything(data, channel, person), **options)
    return Looked(with_marks(view, marks))
