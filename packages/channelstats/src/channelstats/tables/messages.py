"""Reading and writing the table Message.

Rule: rows are written in batches and read in pages; a row is replaced whole, by its key. A run
closes the days that it has written to at its end, see `channelstats.tables.day_versions`.

Columns are read from the files of dates where their versions say that they are the same as the
rows. Where there is none one is made of the rows, unless the date is open, for the version that it
had before they were read: where they changed meanwhile the date has another one by now, or will
have, and the file is not used.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.days import Calendar
from channelstats.tables.columns import MESSAGES, DayFiles, Versions, frame_of
from channelstats.tables.day_versions import DayVersions, DayWriter
from channelstats.tables.items import batches, everything, write_all
from channelstats.tables.message_row import MessageRow, item_of, row_of
from keytables import Item, Range, TableHandle

_AHEAD: Final = 16
"""Batches submitted and not answered: enough to keep the engine busy while rows are made, and to
make large transactions, which write each page of an index less often.
"""

_FRAME: Final = 20_000
"""Items that become columns together: few enough that they need little memory, and enough that
columns are made seldom."""

_FILES: Final = 16
"""Files of dates read at once: in memory before the first of them is used."""

_MONTH: Final = len("2024-03")

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Called with how many dates are read, and how many there are."""


class Messages:
    """The table Message; ``zone`` dates what is written, ``files`` are those of its dates."""

    def __init__(
        self, table: TableHandle, zone: ZoneInfo, versions: DayVersions, files: DayFiles
    ) -> None:
        self._table = table
        self._calendar = Calendar(zone)
        self.versions, self._files = versions, files
        self._writer = DayWriter(versions, table, zone)
        self._has_swept = False
        self._making: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def write(self, rows: Iterable[MessageRow]) -> None:
        """Store rows in place of those of the same keys. Not atomic; can be repeated."""
        rows = list(rows)
        if not rows:
            return
        submitted: deque[Awaitable[None]] = deque()
        async with self._writer.open(row.ts for row in rows):
            for batch in batches(rows):
                if len(submitted) == _AHEAD:
                    await submitted.popleft()
                items = [item_of(row, self._calendar) for row in batch]
                self._writer.writes(items)
                submitted.append(self._table.batch_write(puts=items))
            await asyncio.gather(*submitted)

    def loading(self) -> AbstractAsyncContextManager[None]:
        """A context in which an empty table is filled at less cost, and indexes answer slower."""
        return self._table.loading()

    async def delete(self, rows: Iterable[MessageRow]) -> None:
        rows = list(rows)
        if not rows:
            return
        async with self._writer.open(row.ts for row in rows) as days:
            await self._files.drop(days)
            for row in rows:
                self._writer.deletes(row.cid_ts, row.ts)
            await write_all(self._table, deletes=(row.cid_ts for row in rows))

    async def empty_day(self, day: str) -> int:
        """Delete every row that is stored under a date; return how many there were."""
        number = 0
        async for items in self._index("Date", day):
            await self.delete(map(row_of, items))
            number += len(items)
        return number

    async def take_over_days(self) -> None:
        """At the beginning of a run, when no other one is alive: see `DayWriter.take_over`."""
        await self._writer.take_over()

    async def close_days(self) -> list[Path]:
        """At the end of a run: what is written is whole. Nothing is kept of rows as they were, but
        for the files that are returned: they can neither be overwritten nor removed.
        """
        await self._writer.close()
        return await self._sweep()

    async def _sweep(self) -> list[Path]:
        self._has_swept = True
        return await self._files.keep_only(await self.versions.all())

    async def is_empty(self) -> bool:
        return not (await self._table.scan(limit=1)).items

    async def has_channel(self, cid: str) -> bool:
        """Whether there is any row of a channel."""
        return bool((await self._table.query_index("Slack_cid", cid, limit=1)).items)

    async def newest_day(self, first: date = date.min, last: date = date.max) -> date | None:
        """The newest date with a message, of those from ``first`` to ``last``. Dates whose messages
        are all gone are known too, so several are asked for at once.
        """
        known = sorted(await self.days(), reverse=True)
        for days in batches((day for day in known if str(first) <= day <= str(last)), _AHEAD):
            asked = (self._table.query_index("Date", day, limit=1) for day in days)
            for day, page in zip(days, await asyncio.gather(*asked), strict=True):
                if page.items:
                    return date.fromisoformat(day)
        return None

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    async def of_channel(self, cid: str, since: str) -> dict[str, MessageRow]:
        """The rows of a channel from the timestamp ``since`` on, by their timestamps, in order."""
        rows = {}
        async for items in self._index("Slack_cid", cid, sort=Range(ge=since)):
            for item in items:
                row = row_of(item)
                rows[row.ts] = row
        return rows

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

    async def of_days(
        self,
        first: date,
        last: date,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
        *,
        refresh: bool = False,
        only: pl.Expr | None = None,
    ) -> AsyncIterator[pl.DataFrame]:
        """The columns of rows stored under these dates, both included, in about the order of time:
        ``columns`` of them, or all; ``only`` some of the rows.

        ``progress`` is called with how many dates are read and how many there are: where files have
        to be made first that takes a while. ``refresh`` makes them all, for rows that something
        else than this changed.
        """
        if not self._has_swept:
            await self._sweep()
        versions = await self.versions.of(first, last, every=refresh)
        reading = self._of_versions(versions, columns, progress, refresh=refresh, only=only)
        async for frame in reading:
            yield frame

    async def _of_versions(
        self,
        versions: Versions,
        columns: Sequence[str] | None = None,
        progress: Progress | None = None,
        *,
        refresh: bool = False,
        only: pl.Expr | None = None,
    ) -> AsyncIterator[pl.DataFrame]:
        names = list(columns or MESSAGES.names())
        files = {} if refresh else await self._files.find(versions)
        done = 0
        for days in batches(versions, _FILES):
            undamaged, messages = await self._files.read(_only(days, files), names, only)
            yield messages
            missing = (day for day in days if day not in undamaged)
            for month, some in groupby(missing, lambda day: day[:_MONTH]):
                # One reader at a time makes the files of a month; whoever waited for it reads them.
                async with self._making[month]:
                    made = await self._made(list(some), versions, refresh=refresh)
                for frame in made:
                    yield (frame if only is None else frame.filter(only)).select(names)
            done += len(days)
            if progress is not None:
                progress(done, len(versions))

    async def _made(
        self, days: Sequence[str], versions: Versions, *, refresh: bool
    ) -> list[pl.DataFrame]:
        """The columns of dates without a file, from their rows."""
        files = {} if refresh else await self._files.find(_only(days, versions))
        undamaged, messages = await self._files.read(files, MESSAGES.names())
        made = await self._of_rows([day for day in days if day not in undamaged])
        if made:
            await self._files.put(made, versions)
            # Only now: a run that ended a version meanwhile may have looked for files already, and
            # any later one will see these.
            still = await self.versions.all()
            await self._files.drop({day for day in made if still.get(day) != versions[day]})
        return [messages, *made.values()]

    async def _of_rows(self, days: Sequence[str]) -> Mapping[str, pl.DataFrame]:
        """The columns of dates, from their rows: of many dates at once, which may have few each."""
        frames_of = {day: [MESSAGES.to_frame()] for day in days}
        async for frame in _frames(self._index("Date", *days), "date"):
            parts = frame.partition_by("date", as_dict=True, include_key=False)
            for (day,), part in parts.items():
                frames_of[day].append(part)
        return {day: pl.concat(frames) for day, frames in frames_of.items()}

    async def keep_days(self) -> None:
        """Write missing day files, the latest first."""
        versions = {
            day: version for day, version in sorted((await self.versions.all()).items()) if version
        }
        async for _ in self._of_versions(dict(reversed(versions.items())), ["ts"]):
            pass

    async def days(self) -> dict[str, bool]:
        """Every date that rows were ever written under, and whether it is open."""
        return {day: version is None for day, version in (await self.versions.all()).items()}

    async def of_keys(self, keys: Iterable[str]) -> AsyncIterator[pl.DataFrame]:
        """The columns of the rows of these keys (`<slack_cid>_<ts>`) that exist."""
        for batch in batches(keys, _FRAME):
            items = await self._table.batch_get((key,) for key in batch)
            yield await asyncio.to_thread(frame_of, items)

    async def all(self, columns: Sequence[str] | None = None) -> AsyncIterator[pl.DataFrame]:
        """The columns of every row: ``columns`` of them, or all."""
        versions = await self.versions.of_all_rows()
        async for frame in (
            _frames(everything(self._table))
            if versions is None
            else self._of_versions(versions, columns)
        ):
            yield frame.select(columns) if columns else frame

    async def _index(
        self, name: str, *partitions: str, sort: Range | None = None
    ) -> AsyncIterator[Sequence[Item]]:
        for partition in partitions:
            page = await self._table.query_index(name, partition, sort=sort)
            yield page.items
            while page.cursor is not None:
                page = await self._table.query_index(name, partition, sort=sort, after=page.cursor)
                yield page.items


def _only(days: Iterable[str], known: Mapping[str, T]) -> dict[str, T]:
    """What is known of these dates."""
    return {day: known[day] for day in days if day in known}


async def _frames(pages: AsyncIterator[Sequence[Item]], *more: str) -> AsyncIterator[pl.DataFrame]:
    gathered: list[Item] = []
    async for items in pages:
        gathered.extend(items)
        if len(gathered) >= _FRAME:
            yield await asyncio.to_thread(frame_of, gathered, *more)
            gathered = []
    if gathered:
        yield await asyncio.to_thread(frame_of, gathered, *more)
