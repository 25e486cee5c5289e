"""Goals and alerts: figures of views, and bounds for them.

A figure is a tile of a view of the whole workspace, `threads.unanswered_share`. What is wanted of
it is written as `threads.unanswered_share <= 30`: percentages are 0 to 100, a `%` may follow; times
are seconds, or have one of the units s, min, h, d.

Rule: which figures there are is what the views say, of no messages; there is no second list.
"""

import asyncio
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import SUNDAY
from channelstats.facts import Inputs, Options, Period
from channelstats.facts.periods import WEEK
from channelstats.metrics.table import Kind
from channelstats.pages.loading import DashboardData, load
from channelstats.pages.model import VIEWS, Choice, Page, Tile
from channelstats.pages.views import view_of
from channelstats.tables import Tables
from channelstats.tables.columns import MESSAGES
from channelstats.tables.directory import Channel

_BOUND: Final = re.compile(
    r"(?P<figure>[a-z_0-9.]{1,80})\s*(?P<sign><=|>=|<|>)\s*"
    r"(?P<number>[0-9]{1,12}(\.[0-9]{1,6})?)\s*(?P<unit>%|s|min|h|d)?"
)
_SIGNS: Final[Mapping[str, tuple[Callable[[float, float], bool], str]]] = {
    "<=": (operator.le, "at most"),
    ">=": (operator.ge, "at least"),
    "<": (operator.lt, "less than"),
    ">": (operator.gt, "more than"),
}
_UNITS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_EXAMPLE: Final = "threads.unanswered_share <= 30"
_SOME_WEEK: Final = Period(date(2024, 1, 7), WEEK, ZoneInfo("UTC"))


class Bound(msgspec.Struct, frozen=True):
    """A figure, and where it is to lie: ``sign`` is one of `<=`, `>=`, `<`, `>`."""

    figure: str
    sign: str
    number: float

    @property
    def view(self) -> str:
        return self.figure.partition(".")[0]

    @property
    def text(self) -> str:
        """As one word, which tells it from every other."""
        return f"{self.figure}{self.sign}{self.number:g}"

    @property
    def words(self) -> str:
        """at most; more than."""
        return _SIGNS[self.sign][1]

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {self.number:g}"

    def holds(self, value: float) -> bool:
        return _SIGNS[self.sign][0](value, self.number)


GROWING: Final = frozenset({"messages", "words", "posters", "reactions", "threads_started"})
"""Tiles that only grow as a week goes on: what is above a bound stays above it."""


class Measured(msgspec.Struct, frozen=True):
    """A bound, and the figure of a period; ``value`` is None where there was nothing to measure."""

    bound: Bound
    title: str
    kind: Kind
    value: float | None

    @property
    def holds(self) -> bool | None:
        """Whether the figure lies there; None where there is no figure."""
        return None if self.value is None else self.bound.holds(self.value)


def decided(measured: Measured, *, is_alert: bool) -> bool:
    """Whether it is sure before the week is over that a goal is missed, or that there is an alert:
    where a figure that only grows has passed the bound.
    """
    upward = measured.bound.sign in ((">", ">=") if is_alert else ("<", "<="))
    tile = measured.bound.figure.partition(".")[2]
    return upward and tile in GROWING and measured.holds is is_alert


def parse_bound(text: str) -> Bound:
    """:raises ValueError: what is wrong, in words; it repeats nothing but names of figures"""
    match = _BOUND.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected a figure and a bound, like {_EXAMPLE!r}")
    figure, unit = match["figure"], match["unit"]
    tile = figures().get(figure)
    if tile is None:
        # A tile that is on another page now comes before one that is called alike.
        moved = [name for name in figures() if name.partition(".")[2] == figure.partition(".")[2]]
        [near] = moved[:1] or get_close_matches(figure, figures(), 1, 0.5) or [""]
        meant = f"; did you mean {near!r}?" if near else f", as {_EXAMPLE!r} has"
        raise ValueError(f"there is no figure of that name{meant}")
    if unit == "%" and tile.kind is not Kind.PERCENT:
        raise ValueError(f"{figure} is not a percentage")
    if unit in _UNITS and tile.kind is not Kind.SECONDS:
        raise ValueError(f"{figure} is not a time")
    return Bound(figure, match["sign"], float(match["number"]) * _UNITS.get(unit or "", 1))


@cache
def figures() -> Mapping[str, Tile]:
    """Every tile of the whole workspace by its name, `<view>.<tile>`."""
    # One tile is there only with a private channel.
    private = {"C0": Channel("C0", is_private=True)}
    inputs = Inputs(MESSAGES.to_frame(), channels=private)
    data = DashboardData(inputs, _SOME_WEEK, Options())
    choice = Choice(_SOME_WEEK.start, _SOME_WEEK.last)
    return {
        f"{name}.{tile.name}": tile for name in VIEWS for tile in view_of(name, data, choice).tiles
    }


def measured(view: Page, bounds: Iterable[Bound]) -> list[Measured]:
    """The figures of a view that have bounds, in the order of these."""
    tiles = {f"{view.name}.{tile.name}": tile for tile in view.tiles}
    return [
        Measured(bound, tile.title, tile.kind, None if tile.change is None else tile.change["cur"])
        for bound in bounds
        if (tile := tiles.get(bound.figure)) is not None
    ]


async def measure_week(
    tables: Tables,
    week: Period,
    goals: Sequence[Bound],
    alerts: Sequence[Bound],
    options: Options,
    *,
    first_weekday: int = SUNDAY,
) -> tuple[list[Measured], list[Measured]]:
    """The figures of a week that have goals, and those that have alerts, in their order.

    :raises ChoiceError: there are too many messages to measure
    """
    if not goals and not alerts:
        return [], []
    choice = Choice(week.start, week.last)
    data = await load(tables, choice, options, first_weekday=first_weekday)

    def measure() -> tuple[list[Measured], list[Measured]]:
        names = dict.fromkeys(bound.view for bound in (*goals, *alerts))
        views = {name: view_of(name, data, choice) for name in names}

        def one(bound: Bound) -> Measured:
            of_view = measured(views[bound.view], [bound])
            unknown = figures()[bound.figure]  # such as a share of no private channels
            return of_view[0] if of_view else Measured(bound, unknown.title, unknown.kind, None)

        return [one(goal) for goal in goals], [one(alert) for alert in alerts]

    return await asyncio.to_thread(measure)
