"""Local times of messages.

Rule: compat adds the offset stored with the user, right or wrong; modern asks zoneinfo for the
instant of the message. Authors without a zone are in no figure of local time.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.counting import Profile
from channelstats.days import zone_of
from channelstats.stats.inputs import Options
from channelstats.tables.directory import User

_STEP: Final = 86_400
"""Seconds between two looks at a clock: nowhere was it changed twice within a day."""

_CLOCKS: Final = pl.Schema({"clock": pl.String, "since": pl.Int64, "offset": pl.Int64})
_USERS: Final = pl.Schema({"slack_uid": pl.String, "tz": pl.String, "clock": pl.String})


def offsets(zone: ZoneInfo, first: int, last: int) -> list[tuple[int, int]]:
    """Instants, and the seconds east of UTC from each of them on, in order.

    All in seconds since the epoch, from ``first`` to ``last``.
    """
    before = _offset(zone, first)
    found = [(first, before)]
    for begin in range(first, last, _STEP):
        end = min(begin + _STEP, last)
        after = _offset(zone, end)
        if after != before:
            found.append((_change(zone, begin, end, before), after))
            before = after
    return found


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
    """Adds local times to messages of the instants from ``first`` to ``last`` (seconds).

    ``unknown`` are the zones of users that zoneinfo does not know.
    """

    def __init__(self, users: Mapping[str, User], options: Options, first: int, last: int) -> None:
        self.unknown: list[str] = []
        if options.counting.profile is Profile.COMPAT:
            known = [user for user in users.values() if user.tz and user.tz_offset is not None]
            people = [(user.slack_uid, user.tz, user.slack_uid) for user in known]
            clocks = [(user.slack_uid, first, user.tz_offset) for user in known]
        else:
            default = options.default_timezone
            zones = {uid: user.tz or default for uid, user in users.items()}
            clocks = list(self._clocks({tz for tz in zones.values() if tz}, first, last))
            people = [(uid, tz, tz) for uid, tz in zones.items() if tz not in ("", *self.unknown)]
        self._people = pl.DataFrame(people, _USERS, orient="row")
        self._clock_frame = pl.DataFrame(clocks, _CLOCKS, orient="row").sort("since")

    def _clocks(self, names: set[str], first: int, last: int) -> Iterator[tuple[str, int, int]]:
        for name in sorted(names):
            zone = zone_of(name)
            if zone is None:
                self.unknown.append(name)
                continue
            for since, offset in offsets(zone, first, last):
                yield name, since, offset

    def added_to(self, messages: pl.DataFrame) -> pl.DataFrame:
        """The messages with columns `tz`, `local_weekday` (Monday 0) and `local_hour`; null for
        authors without a zone.
        """
        local = pl.col("at") + pl.col("offset")
        found = (
            messages.select(
                pl.int_range(pl.len()).alias("row"), "slack_uid", at=pl.col("ts") // 1_000_000
            )
            .join(self._people, on="slack_uid", how="left")
            .sort("at")
            .join_asof(
                self._clock_frame,
                left_on="at",
                right_on="since",
                by="clock",
                check_sortedness=False,
            )
            .select("row", "tz", local_weekday=weekday(local), local_hour=hour(local))
            .sort("row")
        )
        return messages.hstack(found.drop("row"))


def weekday(seconds: pl.Expr) -> pl.Expr:
    """The weekday of seconds since the epoch; Monday is 0, the first of January 1970 was a 3."""
    return (seconds // 86_400 + 3) % 7


def hour(seconds: pl.Expr) -> pl.Expr:
    return seconds % 86_400 // 3600
