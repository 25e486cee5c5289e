"""Up to when an export has every message. No file of it says so; several things hint at it.

Rule: of two hints that disagree the earlier one counts. A week that is shown too late can be asked
for; one that was cut short looks like silence.
"""

import re
from datetime import date, datetime, timedelta
from enum import StrEnum
from pathlib import PurePath
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import DAY, date_at, midnight

_LONGEST_SILENCE: Final = timedelta(days=7)
"""After so many days without a message, an export more likely ends where its dates were chosen to
end than when its files were written."""

_NAMED: Final = re.compile(r" - ([A-Z][a-z]{2} \d{1,2} \d{4})(?: ?\(\d+\))?(?:\.zip)?$")
"""How the names end that Slack gives to exports: `Acme Slack export Jan 1 2024 - Nov 4 2024.zip`;
browsers append ` (1)`."""


class Evidence(StrEnum):
    """What says up to when an export has every message."""

    GIVEN = "as --until says"
    NAMED = "as its name says"
    WRITTEN = "when its files were written"
    NEWEST = "the day of its newest message; if it was taken later, say so with --until DATE"


class ReadUpTo(msgspec.Struct, frozen=True):
    """Seconds since the epoch up to which everything was read, and what says so."""

    at: int
    evidence: Evidence


class Hints(msgspec.Struct, frozen=True):
    """``newest`` is the time of the newest message, ``newest_day`` the date of the newest file of a
    day, ``written`` the time of the newest file, 0 where that is not known; ``given`` is the last
    day that the export covers, as somebody says who knows.
    """

    newest: int
    newest_day: date | None = None
    written: int = 0
    name: str = ""
    given: date | None = None


def read_up_to(hints: Hints, now: int, zone: ZoneInfo) -> ReadUpTo:
    """Up to when an export has every message; never a time after ``now``."""
    if hints.given is not None:
        return ReadUpTo(min(_end(hints.given, zone), now), Evidence.GIVEN)
    newest_day = date_at(hints.newest, zone)
    if hints.newest_day is not None and hints.newest_day - newest_day <= _LONGEST_SILENCE:
        newest_day = max(newest_day, hints.newest_day)
    named = _named_day(hints.name)
    end = now if named is None else min(now, _end(named, zone))
    # The time zone of a zip is not known, so its files may seem to be of tomorrow.
    is_known = hints.newest <= hints.written <= now + DAY.total_seconds()
    if is_known and (named or hints.written - hints.newest <= _LONGEST_SILENCE.total_seconds()):
        said = Evidence.NAMED if end < min(hints.written, now) else Evidence.WRITTEN
        return ReadUpTo(max(min(hints.written, end), hints.newest), said)
    if named and named >= newest_day:
        return ReadUpTo(end, Evidence.NAMED)
    return ReadUpTo(min(_end(newest_day, zone), now), Evidence.NEWEST)


def _end(day: date, zone: ZoneInfo) -> int:
    return midnight(day + DAY, zone)


def _named_day(path: str) -> date | None:
    found = _NAMED.search(PurePath(path).name)
    try:
        return datetime.strptime(found[1], "%b %d %Y").date() if found else None  # noqa: DTZ007
    except ValueError:
        return None
