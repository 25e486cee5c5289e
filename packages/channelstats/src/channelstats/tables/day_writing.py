"""The dates that a run writes messages of, from their opening to their closing.

Rule: a row is written while every date is open that it has, or had under another time zone; a date
is closed when all of its rows are written and the index by date shows them.

A run that dies leaves dates open: they are read row by row, until the next run takes them over and
closes them at its end.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import date
from secrets import token_hex
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from channelstats.days import DAY, Calendar
from channelstats.identifiers import seconds
from channelstats.tables.attributes import text
from channelstats.tables.day_marks import EVERY_ZONE, DayMarks
from channelstats.tables.message_row import MessageRow
from channelstats.tables.paging import batches
from keytables import Item, Range, TableHandle

Pause = Callable[[float], Awaitable[None]]

_PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between looks at an index that lags. One that lags longer leaves the date open."""

_TOGETHER: Final = 16


class _Written(NamedTuple):
    """What was written last to a date; without an item it was deleted."""

    cid_ts: str
    ts: str
    item: Item | None


class DayWriting:
    """The dates of one process. ``messages`` is the table, ``zone`` the one that rows are dated in
    from now on.
    """

    def __init__(
        self, marks: DayMarks, messages: TableHandle, zone: ZoneInfo, pause: Pause = asyncio.sleep
    ) -> None:
        self._marks, self._messages, self._zone, self._pause = marks, messages, zone, pause
        self._run = token_hex(8)
        self._calendars: list[Calendar] = []
        self._lock = asyncio.Lock()
        self._open: set[str] = set()
        self._busy: Counter[str] = Counter()
        self._last: dict[str, _Written] = {}
        self._gone: set[str] = set()
        self._left: dict[str, frozenset[str]] = {}

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def open(self, timestamps: Iterable[str]) -> AsyncIterator[None]:
        """Have all dates open that messages of these times may have, while they are written."""
        if not self._calendars:
            await self._learn_zones()
        days = self._days(timestamps)
        if not days <= self._open:
            async with self._lock:
                if new := days - self._open:
                    await self._marks.open(self._run, new)
                    self._open |= new
                self._busy.update(days)
        else:
            self._busy.update(days)
        yield
        # Only now: of a write that failed nobody knows what is still to come.
        self._busy.subtract(days)

    def writes(self, items: Iterable[Item]) -> None:
        """Note what is being written."""
        for day, item in {text(item, "date"): item for item in items}.items():
            self._last[day] = _Written(text(item, "cid_ts"), text(item, "ts"), item)

    def deletes(self, rows: Iterable[MessageRow]) -> None:
        """Note what is being deleted."""
        for row in rows:
            days = self._days([row.ts])
            self._last.update(dict.fromkeys(days, _Written(row.cid_ts, row.ts, None)))
            self._gone |= days

    def _days(self, timestamps: Iterable[str]) -> set[str]:
        whole = map(seconds, timestamps)
        if len(self._calendars) == 1:
            return set(map(self._calendars[0].date, whole))
        dates = ([calendar.date(second) for calendar in self._calendars] for second in whole)
        spans = {(min(some), max(some)) for some in dates}
        return {day for first, last in spans for day in _from_to(first, last)}

    async def _learn_zones(self) -> None:
        known = await self._marks.zones()
        if known is None:
            known = frozenset()
            is_empty = not (await self._messages.scan(limit=1)).items
            zones = known if is_empty else EVERY_ZONE
        else:
            zones = known
        zones |= {self._zone.key}
        if zones != known:
            await self._marks.add_zones(zones)
        self._calendars = [Calendar(ZoneInfo(name)) for name in sorted(zones)]

    # ── closing ──────────────────────────────────────────────────────────────────────────────────

    async def take_over(self) -> None:
        """Take over what is open by now: dates of runs that died. Only for whoever knows that no
        other run is alive.
        """
        async with self._lock:
            self._left = await self._marks.opened()
            self._open.clear()
            self._busy.clear()
            self._calendars.clear()  # the zones may be others by now

    async def close(self) -> set[str]:
        """Close the dates that were opened or taken over, but for those still being written to;
        return those of them that messages were deleted of.
        """
        async with self._lock:
            done = {day for day in self._open | self._left.keys() if self._busy[day] < 1}
            self._open -= done  # whoever writes to them from now on waits, and opens them again
            shown = await self._shown(done)
            own = frozenset((self._run,))
            await self._marks.close(
                {day: own | self._left.get(day, frozenset()) for day in shown},
            )
            for day in shown:
                self._left.pop(day, None)
                self._last.pop(day, None)
            self._open |= done - shown
            gone = self._gone & shown
            self._gone -= gone
            return gone

    async def _shown(self, days: set[str]) -> set[str]:
        """Those of the dates for which the index by date shows what was written last."""
        left = days
        for pause in _PAUSES:
            await self._pause(pause)
            behind = set()
            for some in batches(sorted(left), _TOGETHER):
                shows = await asyncio.gather(*map(self._shows, some))
                behind |= {day for day, shown in zip(some, shows, strict=True) if not shown}
            left = behind
            if not left:
                break
        return days - left

    async def _shows(self, day: str) -> bool:
        last = self._last.get(day)
        if last is None:
            return True
        page = await self._messages.query_index("Date", day, sort=Range(ge=last.ts, le=last.ts))
        found = [item for item in page.items if text(item, "cid_ts") == last.cid_ts]
        return found == ([] if last.item is None else [last.item])


def _from_to(first: str, last: str) -> Iterable[str]:
    day, end = date.fromisoformat(first), date.fromisoformat(last)
    while day <= end:
        yield day.isoformat()
        day += DAY
