"""The list of members that Slack's analytics page exports (CSV) → when accounts were made.

Rule: two columns are read, the ID and the date; nothing else of it is looked at. Of two dates the
earlier one is right. A line that cannot be understood costs itself.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import midnight
from channelstats.identifiers import is_user_id
from channelstats.ingest.exclusions import Exclusions
from channelstats.slack.export import Problem
from channelstats.tables import Tables

ID: Final = "User ID"
CREATED: Final = "Account created"

_SPELLINGS: Final = {
    ID: ("userid", "memberid", "slackuserid", "slackuid", "uid"),
    CREATED: ("accountcreated", "accountcreatedutc", "accountcreatedon", "datecreated", "created"),
}
_SEPARATORS: Final = ",;\t"
_HEADINGS: Final = 5
"""Lines at the beginning among which the names of the columns are looked for."""

_FORMS: Final = ("%Y-%m-%d", "%b %d, %Y", "%B %d, %Y", "%d %b %Y", "%d %B %Y", "%Y/%m/%d")
_FIRST: Final = date(2000, 1, 1)
_SHOWN: Final = 10
"""Lines named for each kind of problem."""


class MalformedMembers(Exception):  # noqa: N818
    """The file is no such list. The message says what was expected."""


class Members(msgspec.Struct, frozen=True):
    """When accounts were made, in seconds by user; what is wrong with some lines."""

    created: dict[str, int]
    problems: list[Problem]


def read_members(path: Path, zone: ZoneInfo, today: date) -> Members:
    """Read a list. A date is its midnight in ``zone``; one after ``today`` is absurd.

    :raises MalformedMembers: the columns are not there
    """
    data = path.read_bytes()
    utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = data.decode("utf-16" if utf_16 else "utf-8-sig", errors="replace")
    try:
        return _members(path.name, text.splitlines(keepends=True), zone, today)
    except csv.Error as error:
        raise MalformedMembers(f"{path}: {error}") from None


async def add_members(tables: Tables, created: Mapping[str, int], out: Exclusions) -> int:
    """Store when accounts were made; return of how many nothing as early was known."""
    known = await tables.users_created.all()
    earlier = {
        uid: ts for uid, ts in created.items() if ts < known.get(uid, ts + 1) and uid not in out
    }
    await tables.users_created.add(earlier.items())
    return len(earlier)


def _members(name: str, lines: list[str], zone: ZoneInfo, today: date) -> Members:
    separator, heading, columns = _columns(name, lines)
    created: dict[str, int] = {}
    wrong: dict[str, list[int]] = defaultdict(list)
    reader = csv.reader(lines[heading + 1 :], delimiter=separator)
    for row in reader:
        if not any(map(str.strip, row)):
            continue
        line = heading + 1 + reader.line_num
        uid, text = (row[at].strip() if at < len(row) else "" for at in columns)
        day = _day(text)
        if not is_user_id(uid):
            wrong[f"{ID}: expected an ID like U012ABCDEF"].append(line)
        elif day is None:
            wrong[f"{CREATED}: expected a date like Nov 3, 2017"].append(line)
        elif not _FIRST <= day <= today:
            wrong[f"{CREATED}: before the year 2000, or in the future"].append(line)
        else:
            at = midnight(day, zone)
            created[uid] = min(at, created.get(uid, at))
    return Members(created, [Problem(f"{name} {lines_text(at)}", why) for why, at in wrong.items()])


def _columns(name: str, lines: Sequence[str]) -> tuple[str, int, tuple[int, int]]:
    """The separator, the number of the line that names the columns, and where the two are."""
    for number, line in enumerate(lines[:_HEADINGS]):
        for separator in _SEPARATORS:
            names = [_plain(found) for found in next(csv.reader([line], delimiter=separator), [])]
            at_id, at_created = _index(names, ID), _index(names, CREATED)
            if at_id is not None and at_created is not None:
                return separator, number, (at_id, at_created)
    raise MalformedMembers(
        f"{name}: expected the columns {ID!r} and {CREATED!r}, as in the list of members that "
        "Slack's analytics page exports"
    )


def _index(names: Sequence[str], column: str) -> int | None:
    return next((names.index(name) for name in _SPELLINGS[column] if name in names), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _day(text: str) -> date | None:
    """The date of a text; one that may be read in two ways is none."""
    for form in _FORMS:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    return None


def lines_text(numbers: Iterable[int]) -> str:
    *some, last = list(numbers)
    if not some:
        return f"line {last}"
    shown = ", ".join(map(str, (*some, last)[:_SHOWN]))
    rest = len(some) + 1 - _SHOWN
    return f"lines {shown}" + (f" and {rest:,} more" if rest > 0 else "")
