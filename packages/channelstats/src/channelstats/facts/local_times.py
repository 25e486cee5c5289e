"""When messages were written by the clocks of their authors.

Rule: a local time is what zoneinfo says of the instant of the message. Authors without a zone are
in no figure of local time.
"""

from bisect import bisect_right
from collections.abc import Mapping
from datetime import datetime
from typing import Final, cast
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.days import zone_of
from channelstats.facts.reading import Options
from channelstats.tables.columns import ID
from channelstats.tables.directory import User

_STEP: Final = 5 * 86_400
"""Seconds between two looks at a clock: since 2000 it was nowhere changed twice within that."""

_AT_ONCE: Final = 500_000
"""Messages whose local times are taken together, which needs several times their memory."""

_ZONES: Final = pl.Schema({"slack_uid": ID, "tz": ID})


def offsets(zone: ZoneInfo, first: int, last: int) -> list[tuple[int, int]]:
    """Instants, and the seconds east of UTC from each of them on; all are epoch seconds."""
    before = _offset(zone, first)
    changes = [(first, before)]
    for begin in range(first, last, _STEP):
        end = min(begin + _STEP, last)
        after = _offset(zone, end)
        if after != before:
            changes.append((_change(zone, begin, end, before), after))
            before = after
    return changes


def _change(zone: ZoneInfo, begin: int, end: int, before: int) -> int:
    """The first instant between these whose offset is not that of the first of them."""
    while end - begin > 1:
        middle = (begin + end) // 2
        if _offset(zone, middle) == before:
            begin = middle
        else:
            end = middle
    return end


def _offset(zone: ZoneInfo, seconds: int) -> int:
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


class LocalTimes:
    """Adds local times to messages of the instants from ``first`` to ``last`` (seconds)."""

    def __init__(self, users: Mapping[str, User], options: Options, first: int, last: int) -> None:
        names = {uid: user.tz or options.default_timezone for uid, user in users.items()}
        zones = {name: zone_of(name) for name in sorted(set(names.values()) - {""})}
        clocks = {name: offsets(zone, first, last) for name, zone in zones.items() if zone}
        known = {uid: name for uid, name in names.items() if name in clocks}
        self.zones = pl.DataFrame({"slack_uid": list(known), "tz": list(known.values())}, _ZONES)
        """Everybody with a zone: `slack_uid`, `tz`."""
        clock_of = self.zones["tz"].cast(pl.Enum(list(clocks))).to_physical()
        codes = self.zones["slack_uid"].to_physical()
        highest = cast("int | None", codes.max())
        nobody = pl.Series([None], dtype=pl.Int32).new_from_index(0, (highest or 0) + 1)
        # The few instants at which any clock changes. From each of them on, what the clock of each
        # person shows, at the number that stands for the ID in every column of IDs: to look there
        # takes a tenth of the time of a join.
        self._instants = sorted(
            {first, *(since for clock_changes in clocks.values() for since, _ in clock_changes)}
        )
        self._offsets: list[pl.Series] = []
        for instant in self._instants:
            shown = pl.Series([_shown(clock, instant) for clock in clocks.values()], dtype=pl.Int32)
            east = shown.gather(clock_of)
            self._offsets.append(nobody.clone().scatter(codes, east))  # which changes it in place

    def added_to(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Adds `local_weekday` (Monday 0) and `local_hour`; null for authors without a zone."""
        some = messages.select("slack_uid", "ts")
        parts = list(some.iter_slices(_AT_ONCE)) or [some]
        return messages.hstack(pl.concat(map(self._steps, parts)))

    def _steps(self, messages: pl.DataFrame) -> pl.DataFrame:
        at, who = messages["ts"] // 1_000_000, messages["slack_uid"].to_physical()
        first, last = (self._place(cast("int | None", end)) for end in (at.min(), at.max()))
        east = self._offsets[first].gather(who, null_on_oob=True)
        for number in range(first + 1, last + 1):  # of messages by time hardly ever more than one
            changed = self._offsets[number].gather(who, null_on_oob=True)
            east = changed.zip_with(at >= self._instants[number], east)
        # Whole hours in half the width take less time for what follows.
        hours = ((at + east) // 3600).cast(pl.Int32)
        return pl.select(
            local_weekday=weekday(pl.lit(hours)).cast(pl.Int8),
            local_hour=hour(pl.lit(hours)).cast(pl.Int8),
        )

    def _place(self, seconds: int | None) -> int:
        """The number of the last change up to then."""
        return max(bisect_right(self._instants, seconds or 0) - 1, 0)


def _shown(clock: list[tuple[int, int]], instant: int) -> int:
    """The seconds east of UTC that a clock shows, see `offsets`."""
    return max(change for change in clock if change[0] <= instant)[1]


def weekday(hours: pl.Expr) -> pl.Expr:
    """The weekday of whole hours since the epoch. Monday is 0; 1 January 1970 was a 3."""
    return (hours // 24 + 3) % 7


def hour(hours: pl.Expr) -> pl.Expr:
    return hours % 24
