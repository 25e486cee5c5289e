"""A table of values, which a query answers with. A value has a kind, which says how it is written;
people, channels and emoji are IDs.
"""

from enum import StrEnum
from typing import Final, TypeAlias, TypedDict, final

import msgspec
import polars as pl

from channelstats.metrics.quantities import Change


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
    ITEM = "item"
    """The key of something to be done, by which it is marked as done."""
    CHANGE = "change"
    """How a number changed, of a `Change`; the number itself stands beside it."""


NUMERIC: Final = frozenset({Kind.COUNT, Kind.NUMBER, Kind.PERCENT, Kind.SECONDS})


@final
class Link(TypedDict):
    """A text that leads to a message where its address is known: `CID/ts/thread_ts`. In a report
    it takes the place of a cell of kind MESSAGE.
    """

    message: str
    text: str


Cell: TypeAlias = int | float | str | Change | None
"""A `Change` of a numeric kind is the number with how it changed. None is shown as nothing: there
is no such figure."""


class Column(msgspec.Struct, frozen=True):
    """``name`` is the key in JSON and CSV; ``bar``: the numbers are also drawn as bars. ``about``
    says what the title means, "" where it says so itself. For ``listed`` see `Tile`.
    """

    name: str
    title: str
    kind: Kind
    bar: bool = False
    about: str = ""
    listed: str = ""


class Table(msgspec.Struct, frozen=True):
    """All rows, ranked; what is in a column has its name. ``whole`` names the view that has every
    row, where these are the first ones. ``about`` says which rows they are, "" where the title says
    so.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: pl.DataFrame
    whole: str = ""
    about: str = ""

    def without(self, *names: str) -> "Table":
        """The table without the columns of these names."""
        columns = tuple(column for column in self.columns if column.name not in names)
        rows = self.rows.select(column.name for column in columns)
        return msgspec.structs.replace(self, columns=columns, rows=rows)
