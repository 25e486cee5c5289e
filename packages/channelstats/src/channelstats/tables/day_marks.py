"""Which state of a date's messages is the present one: marks, in the table Configuration.

Rule: no mark ever stands for two states. A date is open, durably, before the first of its rows is
written; when the run that opened it has written all, it gets a mark that never was before. So what
was made of the rows under a mark is right as long as the date has that mark and is not open.

    days             zones: those that rows may be dated in; months: those that have a row below
    days <yyyy-mm>   <yyyy-mm-dd>: the mark; open <yyyy-mm-dd>: the runs that write to that date

A date that was never opened has the mark "": its rows, if there are any, are older than all marks,
and none of them was touched since.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from secrets import token_hex
from typing import Final

from channelstats.days import DAY
from channelstats.tables.attributes import text
from keytables import Item, Param, TableHandle, Update, Value

_ABOUT: Final = "days"
_OPEN: Final = "open "
_MONTH: Final = len("2024-03")
_ADD_ZONES: Final = Update(add_to=("zones",))
_ADD_MONTHS: Final = Update(add_to=("months",))

EVERY_ZONE: Final = frozenset(("Etc/GMT+12", "Etc/GMT-14"))
"""The zones whose dates are the earliest and the latest anywhere: rows that are older than marks
may be dated in any between.
"""

Runs = Mapping[str, frozenset[str]]
"""Runs by the dates that they opened."""


class DayMarks:
    """Dates are texts, `yyyy-mm-dd`. ``table`` is Configuration."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    async def of(self, first: date, last: date) -> dict[str, str | None]:
        """The marks of these dates, both included, in order; None for one that is open."""
        length = (last - first).days + 1
        days = [(first + number * DAY).isoformat() for number in range(length)]
        known = _marks(await self._rows({day[:_MONTH] for day in days}))
        return {day: known.get(day, "") for day in days}

    async def since(self, first: date) -> str | None:
        """What tells the present state of all messages of ``first`` and later dates from every
        other one; None while one of these dates is open.
        """
        begin = first.isoformat()
        months = {month for month in await self._months() if month >= begin[:_MONTH]}
        marks = _marks(await self._rows(months))
        known = {day: mark for day, mark in marks.items() if day >= begin}
        if None in known.values():
            return None
        state = "\n".join(sorted(f"{day} {mark}" for day, mark in known.items()))
        return hashlib.sha256(state.encode()).hexdigest()

    async def all(self) -> dict[str, str | None]:
        """The marks of every date that ever was opened."""
        return _marks(await self._rows(await self._months()))

    async def opened(self) -> dict[str, frozenset[str]]:
        """The dates that are open, and the runs that opened them."""
        rows = await self._rows(await self._months())
        return {day: runs for row in rows for day, runs in _runs(row).items()}

    async def zones(self) -> frozenset[str] | None:
        """The zones that rows may be dated in; None where that was not kept from the beginning."""
        return _texts((await self._table.get((_ABOUT,)) or {}).get("zones"))

    async def every(self) -> dict[str, str | None] | None:
        """The marks of all dates that have rows; None where rows may be older than marks."""
        zones = await self.zones()
        return None if zones is None or zones >= EVERY_ZONE else await self.all()

    async def _months(self) -> frozenset[str]:
        about = await self._table.get((_ABOUT,)) or {}
        return _texts(about.get("months")) or frozenset()

    async def _rows(self, months: Collection[str]) -> list[Item]:
        return await self._table.batch_get((_key(month),) for month in months)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    async def add_zones(self, zones: frozenset[str]) -> None:
        await self._table.update((_ABOUT,), _ADD_ZONES, {"zones": zones})

    async def open(self, run: str, days: Iterable[str]) -> None:
        """Open dates for a run. When this returns they are open for everybody."""
        by_month = _by_month(days)
        await self._table.update((_ABOUT,), _ADD_MONTHS, {"months": frozenset(by_month)})
        opening = {"run": frozenset((run,))}
        await asyncio.gather(
            *(
                self._table.update(
                    (_key(month),),
                    Update(add_to={f"{_OPEN}{day}": Param("run") for day in some}),
                    opening,
                )
                for month, some in by_month.items()
            )
        )

    async def close(self, runs: Runs) -> None:
        """Give dates a fresh mark, and take them back from these runs: a date of which no other run
        is left is closed.
        """
        mark = token_hex(8)
        await asyncio.gather(
            *(
                self._table.update(
                    (_key(month),),
                    Update(
                        set=dict.fromkeys(some, mark),
                        take_from={f"{_OPEN}{day}": Param(day) for day in some},
                    ),
                    {day: runs[day] for day in some},
                )
                for month, some in _by_month(runs).items()
            )
        )


def _key(month: str) -> str:
    return f"{_ABOUT} {month}"


def _by_month(days: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for day in sorted(days):
        found[day[:_MONTH]].append(day)
    return found


def _marks(rows: Iterable[Item]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for row in rows:
        found |= {name: text(row, name) for name in row if name[:1].isdecimal()}
        found |= dict.fromkeys(_runs(row), None)
    return found


def _runs(row: Item) -> dict[str, frozenset[str]]:
    found = {name: _texts(value) for name, value in row.items() if name.startswith(_OPEN)}
    return {name.removeprefix(_OPEN): runs for name, runs in found.items() if runs}


def _texts(value: Value) -> frozenset[str] | None:
    return frozenset(map(str, value)) if isinstance(value, frozenset) else None
