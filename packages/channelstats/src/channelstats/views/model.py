"""A view before it has a form: tiles, charts and tables.

Rule: what a view says and in which order is decided here once; who shows it decides how it looks.
People, channels and emoji are IDs. Every number of a chart is also in a table of the same view.
"""

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from channelstats.stats.values import Change


class ChoiceError(Exception):
    """What was chosen cannot be shown; one line that says why."""


class Choice(msgspec.Struct, frozen=True):
    """What is looked at: the days from ``first`` to ``last``, both included, and of those one
    channel, one person, or everything. IDs.
    """

    first: date
    last: date
    channel: str = ""
    person: str = ""


class Kind(StrEnum):
    """What a number or a cell is, and so how it is written."""

    COUNT = "count"
    """A whole number."""
    NUMBER = "number"
    PERCENT = "percent"
    """0 to 100."""
    SECONDS = "seconds"
    """How long something took."""
    DATE = "date"
    """`yyyy-mm-dd`."""
    TEXT = "text"
    PERSON = "person"
    CHANNEL = "channel"
    EMOJI = "emoji"
    MESSAGE = "message"
    """`CID/ts/thread_ts`; nothing after the last stroke for a message outside threads."""
    CHANGE = "change"
    """A `Change`: a number beside the one before."""


Cell: TypeAlias = int | float | str | Change | None
"""None is shown as nothing: there is no such figure."""


class Column(msgspec.Struct, frozen=True):
    """``name`` is the key in twins; ``bar``: the numbers are also drawn as bars."""

    name: str
    title: str
    kind: Kind
    bar: bool = False


class Table(msgspec.Struct, frozen=True):
    """All rows, ranked. ``chart`` names the chart whose numbers these are, and nothing else: such a
    table can be folded away below it.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    chart: str = ""


class Tile(msgspec.Struct, frozen=True):
    """A number against the one of as many days before; None where there is none to measure.

    ``everyone``, when a person is chosen, is the mean per poster of a count, and everybody's figure
    otherwise. ``less_is_better`` says what a change means: of waiting, the less the better.
    """

    name: str
    title: str
    kind: Kind
    change: Change | None
    everyone: float | None = None
    less_is_better: bool = False


class Series(msgspec.Struct, frozen=True):
    """One line or one set of bars. ``faint`` ones are there to compare with."""

    name: str
    title: str
    values: tuple[float | None, ...]
    faint: bool = False


class Lines(msgspec.Struct, frozen=True, tag="lines", tag_field="chart"):
    """Numbers over time. ``labels`` are dates, the first of what a point stands for; ``axis`` says
    what a point is.
    """

    name: str
    title: str
    axis: str
    labels: tuple[str, ...]
    kind: Kind
    series: tuple[Series, ...]


class Bars(msgspec.Struct, frozen=True, tag="bars", tag_field="chart"):
    """Numbers by something in order that is no time: hours, weekdays, steps."""

    name: str
    title: str
    axis: str
    labels: tuple[str, ...]
    kind: Kind
    series: tuple[Series, ...]


class Heat(msgspec.Struct, frozen=True, tag="heat", tag_field="chart"):
    """Numbers by row and column; None where there is no such cell."""

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    kind: Kind


class Node(msgspec.Struct, frozen=True):
    """A person; ``weight`` is how often they dealt with others in all."""

    id: str
    weight: int


class Edge(msgspec.Struct, frozen=True):
    """How often ``one`` mentioned, answered or reacted to ``other``."""

    one: str
    other: str
    weight: int


class Network(msgspec.Struct, frozen=True, tag="network", tag_field="chart"):
    """Who deals with whom: the strongest of it, the most first."""

    name: str
    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


Chart: TypeAlias = Lines | Bars | Heat | Network


class View(msgspec.Struct, frozen=True):
    """``lead`` says in a sentence what this shows. ``before`` are the first and the last of the
    days that are compared with.
    """

    name: str
    title: str
    lead: str
    choice: Choice
    before: tuple[date, date]
    tiles: tuple[Tile, ...]
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


VIEWS: Final[Mapping[str, str]] = {
    "overview": "Overview",
    "todo": "To do",
    "volume": "Volume",
    "hours": "Hours",
    "channels": "Channels",
    "people": "People",
    "threads": "Threads",
    "reactions": "Reactions",
    "network": "Network",
    "newcomers": "Newcomers",
}
"""Names of the views in their order, to their titles."""
