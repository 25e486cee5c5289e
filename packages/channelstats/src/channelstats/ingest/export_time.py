"""How recent an export is: up to when it has every message, and which of two was taken later. No
file of it says so; several things hint at it.

Rule: of two hints up to when it has every message that disagree, the earlier one counts. A week
that is shown too late can be asked for; one that was cut short looks like silence.

Rule: two exports are in an order only where the hints agree. What was changed in one that seems to
be older and is not would be lost.
"""

import re
from collections.abc import Mapping
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


_WRITING: Final = 3600
"""Seconds that it may take to write the files of an export."""


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
    match = _NAMED.search(PurePath(path).name)
    try:
        return datetime.strptime(match[1], "%b %d %Y").date() if match else None  # noqa: DTZ007
    except ValueError:
        return None


# ── which of two exports was taken later ─────────────────────────────────────────────────────────


class ExportAge(msgspec.Struct, frozen=True):
    """What says how recent an export is: the time of its newest ``message``, when its files were
    ``written`` (0 for not known), both in seconds, and the day that its name ends with (`named`,
    "" for none).
    """

    message: int = 0
    written: int = 0
    named: str = ""

    @classmethod
    def of(cls, message: int, written: int, path: str, now: int) -> "ExportAge":
        is_known = message <= written <= now + DAY.total_seconds()
        named = _named_day(path)
        return cls(message, written if is_known else 0, named.isoformat() if named else "")


def is_later(age: ExportAge, other: ExportAge) -> bool | None:
    """Whether an export was taken later than the other one; None where that cannot be told."""
    by_message = _sign(age.message - other.message)
    by_name = by_files = 0
    if age.written and other.written:
        apart = age.written - other.written
        by_files = _sign(apart) if not by_message or abs(apart) > _WRITING else 0
    elif age.named and other.named:
        by_name = (age.named > other.named) - (age.named < other.named)
    signs = {by_message, by_files, by_name} - {0}
    return signs == {1} if len(signs) == 1 else None


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


class AgeOrder(msgspec.Struct, frozen=True):
    """Where an export stands among others: its ``mark`` in rows (`fetched_at`), which no other one
    has; for the marks of the others what they are worth beside it; ``is_certain``: it was taken
    before or after each of them.
    """

    mark: int
    worth: Mapping[int, int] = {}
    is_certain: bool = True


def place_among(age: ExportAge, others: Mapping[int, ExportAge]) -> AgeOrder:
    """Where an export of that age stands among ``others``, by their marks: its mark is the time of
    its newest message, or the next one that is free.
    """
    mark = age.message
    while mark in others:
        mark += 1
    later = {mark_of: is_later(age, other) for mark_of, other in others.items()}
    worth = {
        mark_of: mark if is_it is None else mark - 1 if is_it else mark + 1
        for mark_of, is_it in later.items()
    }
    return AgeOrder(mark, worth, None not in later.values())
