"""Reading and writing the table Message.

Rule: rows are written in batches and read in pages; a row is replaced whole, by its key.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from datetime import date
from typing import Final

import polars as pl

from channelstats.days import DAY, Calendar
from channelstats.tables.columns import frame_of
from channelstats.tables.message_row import MessageRow, item_of, row_of
from channelstats.tables.paging import batches, everything
from tablestore import Item, Range, TableHandle

_AHEAD: Final = 4
"""Batches submitted and not answered: enough to keep the engine busy while rows are made."""

_FRAME: Final = 20_000
"""Items that become columns together: few enough that they need little memory, and enough that
columns are made seldom."""


class Messages:
    """The table Message. ``calendar`` dates what is written."""

    def __init__(self, table: TableHandle, calendar: Calendar) -> None:
        self._table = table
        self._calendar = calendar

    async def write(self, rows: Iterable[MessageRow]) -> None:
        """Store rows in place of those of the same keys. Not atomic; can be repeated."""
        submitted: deque[Awaitable[None]] = deque()
        for batch in batches(rows):
            if len(submitted) == _AHEAD:
                await submitted.popleft()
            items = [item_of(row, self._calendar) for row in batch]
            submitted.append(self._table.batch_write(puts=items))
        await asyncio.gather(*submitted)

    async def is_empty(self) -> bool:
        return not (await self._table.scan(limit=1)).items

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    async def of_channel(self, cid: str, since: str) -> dict[str, MessageRow]:
        """The rows of a channel from the timestamp ``since`` on, by their timestamps, in order."""
        found = {}
        async for items in self._index("Slack_cid", cid, Range(ge=since)):
            for item in items:
                row = row_of(item)
                found[row.ts] = row
        return found

    async def of_author(self, uid: str) -> AsyncIterator[MessageRow]:
        """The rows of an author in the order of time."""
        async for items in self._index("User_id", uid):
            for item in items:
                yield row_of(item)

    # ── columns ──────────────────────────────────────────────────────────────────────────────────

    async def of_days(self, first: date, last: date) -> AsyncIterator[pl.DataFrame]:
        """The columns of rows stored under these dates, both included."""
        day = first
        while day <= last:
            async for frame in _frames(self._index("Date", day.isoformat())):
                yield frame
            day += DAY

    async def of_keys(self, keys: Iterable[str]) -> AsyncIterator[pl.DataFrame]:
        """The columns of the rows of these keys (`<slack_cid>_<ts>`) that exist."""
        for batch in batches(keys, _FRAME):
            yield frame_of(await self._table.batch_get((key,) for key in batch))

    async def all(self) -> AsyncIterator[pl.DataFrame]:
        """The columns of every row."""
        async for frame in _frames(everything(self._table)):
            yield frame

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
            yield frame_of(gathered)
            gathered = []
    if gathered:
        yield frame_of(gathered)
