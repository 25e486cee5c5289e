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


def read_up_to(
    newest: int,
    now: int,
    zone: ZoneInfo,
    *,
    day_file: date | None = None,
    written: int = 0,
    path: str = "",
    last_day: date | None = None,
) -> ReadUpTo:
    """Up to when an export has every message; never a time after ``now``. Its hints: the time of
    the ``newest`` message, the newest date that a file is called by, when its files were
    ``written`` (0: not known), its ``path``; and its ``last_day``, where somebody says it who
    knows.
    """
    if last_day is not None:
        return ReadUpTo(min(_end(last_day, zone), now), Evidence.GIVEN)
    newest_day = date_at(newest, zone)
    if day_file is not None and day_file - newest_day <= _LONGEST_SILENCE:
        newest_day = max(newest_day, day_file)
    named = _named_day(path)
    end = now if named is None else min(now, _end(named, zone))
    if _is_possible(newest, written, now) and (
        named or written - newest <= _LONGEST_SILENCE.total_seconds()
    ):
        evidence = Evidence.NAMED if end < min(written, now) else Evidence.WRITTEN
        return ReadUpTo(max(min(written, end), newest), evidence)
    if named and named >= newest_day:
        return ReadUpTo(end, Evidence.NAMED)
    return ReadUpTo(min(_end(newest_day, zone), now), Evidence.NEWEST)


def _is_possible(newest: int, written: int, now: int) -> bool:
    """Whether files may have been written then. The time zone of a zip is not known, so they may
    seem to be of tomorrow.
    """
    return newest <= written <= now + DAY.total_seconds()


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
        written = written if _is_possible(message, written, now) else 0
        return cls(message, written, str(_named_day(path) or ""))


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
    later = {other: is_later(age, its_age) for other, its_age in others.items()}
    worth = {other: mark + {True: -1, False: 1, None: 0}[late] for other, late in later.items()}
    return AgeOrder(mark, worth, None not in later.values())
