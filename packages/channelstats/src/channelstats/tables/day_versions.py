"""The current version of each day, in the table Configuration.

Rule: no version ever stands for two states. A date is open, durably, before the first of its rows
is written; it gets a version that never was before when all of them are written and the index by
date shows them. So what was made of the rows under a version is right as long as the date has it.

    days             zones: those that rows may be dated in; months: those that have a row below
    days <yyyy-mm>   <yyyy-mm-dd>: the version; open <yyyy-mm-dd>: the runs that write to that date

A run that dies leaves dates open: they are read row by row, until the next run takes them over and
closes them at its end. A date that was never opened has the version "": its rows, if there are any,
are older than all versions.
"""

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import date
from secrets import token_hex
from typing import Final
from zoneinfo import ZoneInfo

from channelstats.days import DAY, Calendar
from channelstats.identifiers import seconds
from channelstats.tables.items import text
from keytables import Item, Param, Range, TableHandle, Update, Value

_ABOUT: Final = "days"
_OPEN: Final = "open "
_MONTH: Final = len("2024-03")
_ADD_ZONES: Final = Update(add_to=("zones",))
_ADD_MONTHS: Final = Update(add_to=("months",))

EVERY_ZONE: Final = frozenset(("Etc/GMT+12", "Etc/GMT-14"))
"""The zones whose dates are the earliest and the latest anywhere: rows that are older than versions
may be dated in any between.
"""

_PAUSES: Final = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between looks at an index that lags. One that lags longer leaves the date open."""

Pause = Callable[[float], Awaitable[None]]
Runs = Mapping[str, frozenset[str]]
"""Runs by the dates that they opened."""


class DayVersions:
    """Dates are texts, `yyyy-mm-dd`. ``table`` is Configuration."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> dict[str, str | None]:
        """The versions of every date that ever was opened; None for one that is open."""
        versions: dict[str, str | None] = {}
        for row in await self._rows():
            versions |= {name: text(row, name) for name in row if name[:1].isdecimal()}
            versions |= dict.fromkeys(_runs(row), None)
        return versions

    async def of(self, first: date, last: date, *, every: bool = False) -> dict[str, str | None]:
        """The versions of these dates, both included, in order; "" for one never opened, which is
        left out unless there may be rows of it, or ``every`` one is asked for.
        """
        known, all_known = await self.all(), await self._has_all_rows()
        days = _from_to(first, last)
        return {day: known.get(day, "") for day in days if every or day in known or not all_known}

    async def since(self, first: date) -> str | None:
        """What tells the present state of all messages of ``first`` and later dates from every
        other one; None while one of these dates is open.
        """
        begin = first.isoformat()
        known = sorted((day, state) for day, state in (await self.all()).items() if day >= begin)
        if any(version is None for _, version in known):
            return None
        return hashlib.sha256(str(known).encode()).hexdigest()

    async def of_all_rows(self) -> dict[str, str | None] | None:
        """Those of every date, in order; None where rows may be older than versions."""
        return dict(sorted((await self.all()).items())) if await self._has_all_rows() else None

    async def may_follow(self, last: date) -> bool:
        """Whether there may be rows of later dates."""
        known = await self.of_all_rows()
        return known is None or any(day > last.isoformat() for day in known)

    async def opened(self) -> dict[str, frozenset[str]]:
        """The dates that are open, and the runs that opened them."""
        return {day: runs for row in await self._rows() for day, runs in _runs(row).items()}

    async def zones(self) -> frozenset[str] | None:
        """The zones that rows may be dated in; None where that was not kept from the beginning."""
        return _texts((await self._table.get((_ABOUT,)) or {}).get("zones"))

    async def add_zones(self, zones: frozenset[str]) -> None:
        await self._table.update((_ABOUT,), _ADD_ZONES, {"zones": zones})

    async def open(self, run: str, days: Iterable[str]) -> None:
        """Open dates for a run. When this returns they are open for everybody."""
        by_month = _by_month(days)
        await self._table.update((_ABOUT,), _ADD_MONTHS, {"months": frozenset(by_month)})
        for month, some in by_month.items():
            opening = Update(add_to={f"{_OPEN}{day}": Param("run") for day in some})
            await self._table.update(_key(month), opening, {"run": frozenset((run,))})

    async def close(self, runs: Runs) -> None:
        """Give dates a new version, and take them back from these runs: a date of which no other
        run is left is closed.
        """
        version = token_hex(8)
        for month, some in _by_month(runs).items():
            taken = {f"{_OPEN}{day}": Param(day) for day in some}
            closing = Update(set=dict.fromkeys(some, version), take_from=taken)
            await self._table.update(_key(month), closing, {day: runs[day] for day in some})

    async def _has_all_rows(self) -> bool:
        """Whether every row was written under versions."""
        zones = await self.zones()
        return zones is not None and not zones >= EVERY_ZONE

    async def _rows(self) -> list[Item]:
        about = await self._table.get((_ABOUT,)) or {}
        return await self._table.batch_get(map(_key, _texts(about.get("months")) or ()))


class DayWriter:
    """The dates that one process writes messages of, from their opening to their closing.

    ``messages`` is the table, ``zone`` the one that rows are dated in from now on. A row that is
    written again may have had another date, so every date is open that it has in any zone of rows.
    """

    def __init__(
        self,
        versions: DayVersions,
        messages: TableHandle,
        zone: ZoneInfo,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._versions, self._messages = versions, messages
        self._zone, self._pause = zone, pause
        self._run = token_hex(8)
        self._calendars: list[Calendar] = []
        self._lock = asyncio.Lock()
        self._open: set[str] = set()
        self._busy: Counter[str] = Counter()
        self._left: dict[str, frozenset[str]] = {}
        self._last: dict[str, tuple[str, Item | None]] = {}
        """By date the key of what was written last, and what it is now."""

    @asynccontextmanager
    async def open(self, timestamps: Iterable[str]) -> AsyncIterator[set[str]]:
        """Have all dates open, while they are written, that messages of these times may have."""
        async with self._lock:
            if not self._calendars:
                await self._learn_zones()
            days = self._days(timestamps)
            if new := days - self._open:
                await self._versions.open(self._run, new)
                self._open |= new
            self._busy.update(days)
        yield days
        # Only now: of a write that failed nobody knows what is still to come.
        self._busy.subtract(days)

    def writes(self, items: Iterable[Item]) -> None:
        """Note what is being written."""
        for day, item in {text(item, "date"): item for item in items}.items():
            self._last[day] = text(item, "cid_ts"), item

    def deletes(self, cid_ts: str, ts: str) -> None:
        """Note what is being deleted."""
        self._last.update(dict.fromkeys(self._days([ts]), (cid_ts, None)))

    def _days(self, timestamps: Iterable[str]) -> set[str]:
        times = map(seconds, timestamps)
        if len(self._calendars) == 1:
            return set(map(self._calendars[0].date, times))
        dates = ([calendar.date(time) for calendar in self._calendars] for time in times)
        spans = {(min(some), max(some)) for some in dates}
        return {day for span in spans for day in _from_to(*map(date.fromisoformat, span))}

    async def _learn_zones(self) -> None:
        known = await self._versions.zones()
        zones = known or frozenset()
        if known is None and (await self._messages.scan(limit=1)).items:
            zones = EVERY_ZONE
        if (zones := zones | {self._zone.key}) != known:
            await self._versions.add_zones(zones)
        self._calendars = [Calendar(ZoneInfo(name)) for name in sorted(zones)]

    async def take_over(self) -> None:
        """Take over what dead runs left open. Only for whoever knows that no other run is alive."""
        async with self._lock:
            self._left = await self._versions.opened()
            self._open.clear()
            self._busy.clear()
            self._calendars.clear()  # the zones may be others by now

    async def close(self) -> None:
        """Close the dates that were opened or taken over, but for those still being written to, and
        those of which the index by date does not show what was written last.
        """
        async with self._lock:
            days = {day for day in self._open | self._left.keys() if self._busy[day] < 1}
            behind = days
            for pause in _PAUSES:
                await self._pause(pause)
                behind = {day for day in behind if not await self._shows(day)}
                if not behind:
                    break
            days -= behind
            own = frozenset((self._run,))
            # First: some dates may have a version by now also where this fails half-way.
            self._open -= days
            await self._versions.close({day: own | self._left.pop(day, own) for day in days})
            for day in days:
                self._last.pop(day, None)

    async def _shows(self, day: str) -> bool:
        if day not in self._last:
            return True
        cid_ts, item = self._last[day]
        ts = cid_ts.partition("_")[2]
        page = await self._messages.query_index("Date", day, sort=Range(ge=ts, le=ts))
        items = [entry for entry in page.items if text(entry, "cid_ts") == cid_ts]
        return items == ([] if item is None else [item])


def _by_month(days: Iterable[str]) -> dict[str, list[str]]:
    months: dict[str, list[str]] = defaultdict(list)
    for day in sorted(days):
        months[day[:_MONTH]].append(day)
    return months


def _key(month: str) -> tuple[str]:
    return (f"{_ABOUT} {month}",)


def _runs(row: Item) -> dict[str, frozenset[str]]:
    runs_by_name = {name: _texts(value) for name, value in row.items() if name.startswith(_OPEN)}
    return {name.removeprefix(_OPEN): runs for name, runs in runs_by_name.items() if runs}


def _texts(value: Value) -> frozenset[str] | None:
    return frozenset(map(str, value)) if isinstance(value, frozenset) else None


def _from_to(day: date, last: date) -> Iterator[str]:
    while day <= last:
        yield day.isoformat()
        day += DAY
