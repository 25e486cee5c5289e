"""Rows of a table that stay in a frame until somebody looks at them.

A page shows fifty of 150,000 rows, so tuples are made of those alone; whoever writes all of them
goes through a few thousand at a time.
"""

from collections.abc import Iterator, Sequence
from typing import Final, overload

import polars as pl

from channelstats.views.model import Cell, Row

_AT_ONCE: Final = 4_096


class FrameRows(Sequence[Row]):
    """A frame as the rows of a table; its columns are in the order of the table's."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __len__(self) -> int:
        return self._frame.height

    def __iter__(self) -> Iterator[Row]:
        return self._frame.iter_rows(buffer_size=_AT_ONCE)

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        if isinstance(place, int):
            return self._frame.row(place)
        return self._frame[place].rows()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def column(self, place: int) -> list[Cell]:
        """The cells of one column."""
        return self._frame.to_series(place).to_list()

    def without(self, places: Sequence[int]) -> "FrameRows":
        """The rows without these columns."""
        kept = [name for at, name in enumerate(self._frame.columns) if at not in places]
        return FrameRows(self._frame.select(kept))

    def most(self, place: int) -> float:
        """The largest number of a column; 0 without any."""
        found = self._frame.to_series(place).max()
        return found if isinstance(found, int | float) else 0


def column_of(rows: Sequence[Row], place: int) -> list[Cell]:
    """The cells of one column of a table's rows."""
    if isinstance(rows, FrameRows):
        return rows.column(place)
    return [row[place] for row in rows]
