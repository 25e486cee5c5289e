"""The messages of a range of dates as columns.

Rule: what is read is what the table holds. A block is read in place of the rows of a date where its
mark says that it is the same; where there is none one is made of the rows, unless the date is open.

A block is of the mark that the date had before its rows were read. Where they changed meanwhile the
date has another mark by now, or will have, and the block is not used: a mark never comes again.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import date
from typing import Final

import polars as pl

from channelstats.tables.columns import MESSAGES
from channelstats.tables.day_blocks import DayBlocks
from channelstats.tables.day_marks import DayMarks
from channelstats.tables.paging import batches

Progress = Callable[[int, int], None]
"""Is told how many dates are read, and how many there are."""

_TOGETHER: Final = 16
"""Blocks read at once: in memory before the first of them is used."""


class DayReading:
    """``rows_of`` reads the columns of the rows stored under a date."""

    def __init__(
        self,
        marks: DayMarks,
        blocks: DayBlocks,
        rows_of: Callable[[str], AsyncIterator[pl.DataFrame]],
    ) -> None:
        self._marks, self._blocks, self._rows_of = marks, blocks, rows_of

    async def read(
        self,
        first: date,
        last: date,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
        *,
        anew: bool = False,
    ) -> AsyncIterator[pl.DataFrame]:
        """The messages stored under these dates, both included, in about the order of time; of each
        no more than ``columns``. ``anew``: from the rows, whatever is kept of them.
        """
        marks = await self._marks.of(first, last)
        async for messages in self._read(marks, columns, progress, anew=anew):
            yield messages

    async def read_every(self, columns: Sequence[str] | None) -> AsyncIterator[pl.DataFrame] | None:
        """All messages; None where it is not known which dates they have."""
        marks = await self._marks.every()
        return None if marks is None else self._read(dict(sorted(marks.items())), columns)

    async def _read(
        self,
        marks: Mapping[str, str | None],
        columns: Sequence[str] | None,
        progress: Progress | None = None,
        *,
        anew: bool = False,
    ) -> AsyncIterator[pl.DataFrame]:
        wanted = list(columns or MESSAGES.names())
        done = 0
        for some in batches(marks.items(), _TOGETHER):
            closed = {} if anew else {day: mark for day, mark in some if mark is not None}
            kept, messages = await self._blocks.get(closed, wanted)
            yield messages
            for number, (day, mark) in enumerate(some, done + 1):
                if day not in kept:
                    yield (await self._anew(day, mark)).select(wanted)
                    if progress is not None:
                        progress(number, len(marks))
            done += len(some)
            if progress is not None:
                progress(done, len(marks))

    async def _anew(self, day: str, mark: str | None) -> pl.DataFrame:
        """The messages of a date from its rows, which are kept as a block."""
        frames = [frame async for frame in self._rows_of(day)]
        messages = pl.concat([MESSAGES.to_frame(), *frames])
        # A date that nothing was ever written to needs no block: there are too many of them.
        if mark is not None and (mark or len(messages)):
            await self._blocks.put(day, mark, messages)
        return messages
