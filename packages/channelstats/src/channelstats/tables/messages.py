"""Reading and writing the table Message.

Rule: rows are written in batches and read in pages; a row is replaced whole, by its key. Whoever
writes closes the days it wrote to at its end, see `channelstats.tables.day_writing`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.days import Calendar
from channelstats.tables.columns import frame_of
from channelstats.tables.day_blocks import DayBlocks
from channelstats.tables.day_marks import DayMarks
from channelstats.tables.day_reading import DayReading, Progress
from channelstats.tables.day_writing import DayWriting
from channelstats.tables.message_row import MessageRow, item_of, row_of
from channelstats.tables.paging import batches, everything
from keytables import Item, Range, TableHandle

_AHEAD: Final = 16
"""Batches submitted and not answered: enough to keep the engine busy while rows are made, and to
make large transactions, which write each page of an index less often.
"""

_FRAME: Final = 20_000
"""Items that become columns together: few enough that they need little memory, and enough that
columns are made seldom."""


class Messages:
    """The table Message; ``zone`` dates what is written. ``marks``, ``blocks``: of its days."""

    def __init__(
        self, table: TableHandle, zone: ZoneInfo, marks: DayMarks, blocks: DayBlocks
    ) -> None:
        self._table = table
        self._calendar = Calendar(zone)
        self._marks, self._blocks = marks, blocks
        self._writing = DayWriting(marks, table, zone)
        self._reading = DayReading(marks, blocks, self._of_day)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def write(self, rows: Iterable[MessageRow]) -> None:
        """Store rows in place of those of the same keys. Not atomic; can be repeated."""
        rows = list(rows)
        if not rows:
            return
        submitted: deque[Awaitable[None]] = deque()
        async with self._writing.open(row.ts for row in rows):
            for batch in batches(rows):
                if len(submitted) == _AHEAD:
                    await submitted.popleft()
                items = [item_of(row, self._calendar) for row in batch]
                self._writing.writes(items)
                submitted.append(self._table.batch_write(puts=items))
            await asyncio.gather(*submitted)

    def loading(self) -> AbstractAsyncContextManager[None]:
        """A context in which an empty table is filled at less cost; what asks by date, channel or
        author takes longer in it.
        """
        return self._table.loading()

    async def delete(self, rows: Iterable[MessageRow]) -> None:
        rows = list(rows)
        if not rows:
            return
        async with self._writing.open(row.ts for row in rows):
            self._writing.deletes(rows)
            for batch in batches(rows):
                await self._table.batch_write(deletes=[(row.cid_ts,) for row in batch])

    async def empty_day(self, day: str) -> int:
        """Delete every row that is stored under a date, and what is kept of them; return how many
        there were.
        """
        number = 0
        async for items in self._index("Date", day):
            await self.delete(map(row_of, items))
            number += len(items)
        if number:
            await self._blocks.drop_others(day, None)
        return number

    async def take_over_days(self) -> None:
        """At the beginning of a run, when no other one is alive: close what dead ones left open as
        well, when it comes to its end.
        """
        await self._writing.take_over()

    async def close_days(self) -> None:
        """At the end of a run: what is written is whole. What was deleted is kept nowhere."""
        for day in await self._writing.close():
            await self._blocks.delete(day)

    async def drop_old_blocks(self) -> None:
        """Delete what is kept of rows as they were: it may hold what they hold no more."""
        for day, mark in (await self._marks.all()).items():
            await self._blocks.drop_others(day, mark)

    async def is_empty(self) -> bool:
        return not (await self._table.scan(limit=1)).items

    async def has_channel(self, cid: str) -> bool:
        """Whether there is any row of a channel."""
        return bool((await self._table.query_index("Slack_cid", cid, limit=1)).items)

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    async def of_channel(self, cid: str, since: str) -> dict[str, MessageRow]:
        """The rows of a channel from the timestamp ``since`` on, by their timestamps, in order."""
        found = {}
        async for items in self._index("Slack_cid", cid, Range(ge=since)):
            for item in items:
                row = row_of(item)
                found[row.ts] = row
        return found

    async def known(self, keys: Iterable[str]) -> dict[str, MessageRow]:
        """The rows of these keys (`<slack_cid>_<ts>`) that exist, by key."""
        items = await self._table.batch_get((key,) for key in keys)
        return {row.cid_ts: row for row in map(row_of, items)}

    async def of_author(self, uid: str) -> AsyncIterator[MessageRow]:
        """The rows of an author in the order of time."""
        async for items in self._index("User_id", uid):
            for item in items:
                yield row_of(item)

    async def pages(self) -> AsyncIterator[list[MessageRow]]:
        """Every row, a page at a time."""
        async for items in everything(self._table):
            yield [row_of(item) for item in items]

    # ── columns ──────────────────────────────────────────────────────────────────────────────────

    def of_days(
        self,
        first: date,
        last: date,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
        *,
        anew: bool = False,
    ) -> AsyncIterator[pl.DataFrame]:
        """The columns of rows stored under these dates, both included: ``columns`` of them, or all.

        ``progress`` is told how many dates are read and how many there are: where blocks have to be
        made first that takes a while. ``anew`` makes them all, for rows that something else than
        this changed.
        """
        return self._reading.read(first, last, columns, progress, anew=anew)

    async def days(self) -> dict[str, bool]:
        """Every date that rows were ever written under, and whether it is open."""
        return {day: mark is None for day, mark in (await self._marks.all()).items()}

    async def state_since(self, first: date) -> str | None:
        """What tells the rows of ``first`` and later dates from what they were at any other time;
        None while they are being written.
        """
        return await self._marks.since(first)

    async def of_keys(self, keys: Iterable[str]) -> AsyncIterator[pl.DataFrame]:
        """The columns of the rows of these keys (`<slack_cid>_<ts>`) that exist."""
        for batch in batches(keys, _FRAME):
            items = await self._table.batch_get((key,) for key in batch)
            yield await asyncio.to_thread(frame_of, items)

    async def all(self, columns: Sequence[str] | None = None) -> AsyncIterator[pl.DataFrame]:
        """The columns of every row: ``columns`` of them, or all."""
        days = await self._reading.read_every(columns)
        async for frame in days or _frames(everything(self._table)):
            yield frame.select(columns) if columns else frame

    def _of_day(self, day: str) -> AsyncIterator[pl.DataFrame]:
        return _frames(self._index("Date", day))

    async def _index(
        self, name: str, partition: str, sort: Range | None = None
    ) -> AsyncIterator[Sequence[Item]]:
        page = await self._table.query_index(name, partition, sort=sort)
        yield page.items
        while page.cursor is not None:
            page = await self._table.query_index(name, partition, sort=sort, after=page.cursor)
            yield page.items


async def _frames(pages: AsyncIterator[Sequence[Item]]) -> AsyncIterator[pl.DataFrame]:
    gathered: list[Item] = []
    async for items in pages:
        gathered.extend(items)
        if len(gathered) >= _FRAME:
            yield await asyncio.to_thread(frame_of, gathered)
            gathered = []
    if gathered:
        yield await asyncio.to_thread(frame_of, gathered)
