"""A report before it has a form: sections with facts, tables, histograms and charts.

Rule: what a report says and in which order is decided here once; a renderer decides how it looks.
People, channels and emoji are IDs until a renderer names them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from channelstats.stats.values import Change


class Person(msgspec.Struct, frozen=True):
    uid: str


class Place(msgspec.Struct, frozen=True):
    """A channel."""

    cid: str


class Emoji(msgspec.Struct, frozen=True):
    name: str


class Link(msgspec.Struct, frozen=True):
    """A text; a link where its address is known."""

    url: str
    text: str


class Figure(msgspec.Struct, frozen=True):
    """A number against the one before. ``label`` is for one; it is shown in running text only."""

    change: Change
    label: str = ""
    percentage: bool = False


Span: TypeAlias = str | Person | Place | Emoji | Link | Figure
Line: TypeAlias = tuple[Span, ...]


def plain(number: float) -> Change:
    """A number that is compared with nothing."""
    return {"cur": number, "prev": number, "diff_pct": None, "state": "same"}


class Layout(StrEnum):
    """How a table looks where there are no tables."""

    LINES = "lines"
    """Each row a paragraph."""
    LIST = "list"
    """All rows one paragraph."""
    FIELDS = "fields"
    """Two to a row: words on the left, numbers on the right."""


class Column(msgspec.Struct, frozen=True):
    """``phrase`` is what a cell becomes in a line of text: `, {}w`."""

    title: str
    phrase: str = " {}"
    numeric: bool = True
    bar: bool = False
    """Whether the numbers are also drawn as bars."""


class Text(msgspec.Struct, frozen=True):
    """One paragraph of lines."""

    lines: tuple[Line, ...]


class Fact(msgspec.Struct, frozen=True):
    name: str
    value: Line


class Facts(msgspec.Struct, frozen=True):
    """Key figures, one paragraph where there are no tiles."""

    facts: tuple[Fact, ...]


class Table(msgspec.Struct, frozen=True):
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Line, ...], ...]
    layout: Layout


class Bar(msgspec.Struct, frozen=True):
    """``words`` are shown where they are known."""

    label: str
    percent: float
    messages: int
    words: int | None = None


class Histogram(msgspec.Struct, frozen=True):
    caption: str
    label: str
    bars: tuple[Bar, ...]


class Columns(msgspec.Struct, frozen=True):
    """A picture of numbers that a table of the same section has: now, and before."""

    caption: str
    labels: tuple[str, ...]
    now: tuple[float, ...]
    before: tuple[float, ...] = ()


class HeatMap(msgspec.Struct, frozen=True):
    """Numbers by row and column."""

    caption: str
    corner: str
    rows: tuple[Line, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]


Block: TypeAlias = Text | Facts | Table | Histogram | Columns | HeatMap


class Section(msgspec.Struct, frozen=True):
    """``note`` belongs to the title. ``silent``: where space is short, without its title;
    ``beyond``: left out there altogether. The two rules are lines drawn between sections.
    """

    title: str
    blocks: tuple[Block, ...]
    silent: bool = False
    beyond: bool = False
    rule_before: bool = False
    rule_after: bool = False
    note: str = ""


class Report(msgspec.Struct, frozen=True):
    """``name`` is what its file is called."""

    name: str
    title: Line
    period: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]


WEEKDAYS: Final[Mapping[str, str]] = {
    "0": "Monday",
    "1": "Tuesday",
    "2": "Wednesday",
    "3": "Thursday",
    "4": "Friday",
    "5": "Saturday",
    "6": "Sunday",
}
