"""Pages before they have a form: tiles, charts, tables and texts, in sections.

Rule: what is said and in which order is decided here once; who shows it decides how it looks.
Every number of a chart is also in a table that stands with it.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from itertools import chain
from typing import Final, Literal, Self, TypeAlias

import msgspec

from channelstats.metrics.quantities import Change
from channelstats.metrics.table import Cell, Kind, Link, Table


class ChoiceError(Exception):
    """What was chosen cannot be shown; one line that says why."""


class Choice(msgspec.Struct, frozen=True):
    """What is looked at: the days from ``first`` to ``last``, both included, and of those one
    channel, a ``group`` of channels, one person, or everything. IDs. ``compare`` are channels to
    draw beside the chosen one; ``only`` names some of the messages, to list these.
    ``against_year``: they are compared with the same weeks a year before, and not with the days
    just before.
    """

    first: date
    last: date
    channel: str = ""
    person: str = ""
    compare: tuple[str, ...] = ()
    only: str = ""
    group: tuple[str, ...] = ()
    against_year: bool = False

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that are looked at; none for all."""
        return (self.channel,) if self.channel else self.group


class Span(msgspec.Struct, frozen=True):
    """A value in a text. ``label`` is what is counted, for one of it. A person who is not to
    ``notify`` is named in Slack without a mention.
    """

    value: Cell | Link
    kind: Kind
    label: str = ""
    notify: bool = True


Line: TypeAlias = tuple[str | Span, ...]


class Text(msgspec.Struct, frozen=True):
    """One paragraph of lines."""

    lines: tuple[Line, ...]


class Tile(msgspec.Struct, frozen=True):
    """A number against the one of as many days before; None where there is none to measure.

    ``everyone``, when a person is chosen, is the mean per poster of a count, and everybody's figure
    otherwise. ``less_is_better`` says what a change means: of waiting, the less the better.
    ``about`` says what the title means; ``listed`` is where what is counted can be seen, "" where
    that is nowhere: `view/table`, of the last days alone `view/table/days`, `messages/selection`,
    or `group/` for the people of a row's day and the column.
    """

    name: str
    title: str
    kind: Kind
    change: Change | None
    everyone: float | None = None
    less_is_better: bool = False
    about: str = ""
    listed: str = ""


class Tiles(msgspec.Struct, frozen=True):
    """Side by side, or lines of one paragraph."""

    tiles: tuple[Tile, ...]


class Series(msgspec.Struct, frozen=True):
    """One line or one set of bars. ``faint`` ones are there to compare with."""

    name: str
    title: str
    values: tuple[float | None, ...]
    faint: bool = False


class DateNote(msgspec.Struct, frozen=True):
    """What somebody noted on a date, `yyyy-mm-dd`; ``label`` is of the point that it is in."""

    label: str
    date: str
    text: str


class SeriesChart(msgspec.Struct, frozen=True):
    """Numbers over time as lines, or as bars by something in order that is no time: hours,
    weekdays, steps. ``axis`` says what a point is; the ``labels`` of lines are dates, the first of
    what a point stands for. ``series_kind`` is what the titles of series are.
    """

    drawn_as: Literal["lines", "bars"] = msgspec.field(name="chart")
    name: str
    title: str
    axis: str
    labels: tuple[str, ...]
    kind: Kind
    series: tuple[Series, ...]
    about: str = ""
    series_kind: Kind = Kind.TEXT
    notes: tuple[DateNote, ...] = ()

    @property
    def is_over_time(self) -> bool:
        return self.drawn_as == "lines"


class Heat(msgspec.Struct, frozen=True, tag="heat", tag_field="chart", omit_defaults=True):
    """Numbers by row and column; None where there is no such cell. ``row_kind`` is what rows are
    named by, ``sizes`` of how many people each row is, where that matters.
    """

    name: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    kind: Kind
    row_kind: Kind = Kind.TEXT
    about: str = ""
    sizes: tuple[int, ...] = ()


class Node(msgspec.Struct, frozen=True):
    """A person; ``weight`` is the number of their interactions with others."""

    id: str
    weight: int


class Edge(msgspec.Struct, frozen=True):
    """How often ``one`` mentioned, answered or reacted to ``other``."""

    one: str
    other: str
    weight: int


class Network(msgspec.Struct, frozen=True, tag="network", tag_field="chart"):
    """Who interacts with whom: the strongest of it, the most first."""

    name: str
    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    about: str = ""


Chart: TypeAlias = SeriesChart | Heat | Network


Part: TypeAlias = Text | Tiles | Table | Chart


class Section(msgspec.Struct, frozen=True):
    """What belongs together on a page, such as a chart and the tables of its numbers; ``empty``
    is said where there is nothing to show. Of several charts, each with the table of its name, one
    is shown at a time: by the tile of that name.
    """

    title: str
    parts: tuple[Part, ...]
    empty: str = "Nothing in this period."

    @classmethod
    def of(cls, first: Chart | Table, *others: Table, empty: str = "") -> Self:
        """Called like the first part."""
        section = cls(first.title, (first, *others))
        return msgspec.structs.replace(section, empty=empty) if empty else section

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(part for part in self.parts if isinstance(part, Chart))

    @property
    def chart(self) -> Chart | None:
        """The one that its tables have the numbers of."""
        return next(iter(self.charts), None)

    def showing(self, name: str = "") -> Self:
        """With the chart of this name, or else the first one, and its table."""
        if len(self.charts) < 2:
            return self
        chart = next((each for each in self.charts if each.name == name), self.charts[0])
        tables = tuple(each for each in self.tables if each.name == chart.name)
        return msgspec.structs.replace(self, title=chart.title, parts=(chart, *tables))

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(part for part in self.parts if isinstance(part, Table))


class Page(msgspec.Struct, frozen=True):
    """All that is shown of a choice: the dashboard, reports, mails, posts in Slack and files are
    layouts of it. ``about`` says in a sentence what it shows, ``period`` of when it is, "" for
    nothing; then come the ``lead``, section after section, and ``notes``.

    ``before`` are the first and the last of the days that are compared with; not ``compares``: this
    page has nothing of them. ``small_channels`` may not be listed, nor chosen. ``dashboard`` is the
    address of more, "" for none.
    """

    name: str
    title: Line
    choice: Choice
    before: tuple[date, date]
    about: str = ""
    period: str = ""
    lead: tuple[Part, ...] = ()
    sections: tuple[Section, ...] = ()
    notes: tuple[str, ...] = ()
    small_channels: frozenset[str] = frozenset()
    dashboard: str = ""
    compares: bool = True

    @property
    def parts(self) -> Iterator[Part]:
        """All of them, in their order."""
        return chain(self.lead, *(section.parts for section in self.sections))

    @property
    def tiles(self) -> tuple[Tile, ...]:
        tiles = (part.tiles for part in self.parts if isinstance(part, Tiles))
        return tuple(chain.from_iterable(tiles))

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(part for part in self.parts if isinstance(part, Chart))

    @property
    def tables(self) -> tuple[Table, ...]:
        return tuple(part for part in self.parts if isinstance(part, Table))


OVERVIEW: Final = "overview"
TO_DO: Final = "todo"
"""The view of what is to be done now: its weeks end with the last day that was read, not with the
last whole week."""

VIEWS: Final[Mapping[str, str]] = {
    OVERVIEW: "Overview",
    TO_DO: "To do",
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

MORE: Final = frozenset({"volume", "hours", "reactions", "network"})
"""Those that stand under *More* in the navigation."""

PERSON: Final = "person"
CHANNEL: Final = "channel"

PROFILES: Final[Mapping[str, str]] = {PERSON: "Person", CHANNEL: "Channel"}
"""Names of the views of one person or one channel, which is chosen, to their titles."""

MESSAGES: Final = "messages"
GROUP: Final = "group"
UNCOMPARED: Final = frozenset({TO_DO, MESSAGES, GROUP})
"""Those that have nothing of a year before."""

ALL_VIEWS: Final[Mapping[str, str]] = {
    **VIEWS,
    **PROFILES,
    MESSAGES: "Messages",
    GROUP: "People of a group",
}
"""And the lists of the messages and of the people that something counts."""

LISTED_IN: Final[Mapping[str, str]] = {PERSON: "people", CHANNEL: "channels", GROUP: "newcomers"}
"""The view that lists what a profile or a group is of."""
