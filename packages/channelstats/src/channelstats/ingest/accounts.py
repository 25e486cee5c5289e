"""Slack's list of members → when accounts were made: a CSV that the analytics page exports.

Rule: IDs and dates are read; names and addresses of people are never looked at. A line that cannot
be understood costs itself.
"""

import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import midnight
from channelstats.identifiers import is_user_id
from channelstats.slack.export import Problem
from channelstats.tables import Tables
from channelstats.tables.directory import ids_of_people
from channelstats.tables.exclusion import Exclusions

_SEPARATORS: Final = ",;\t"
_HEADINGS: Final = 5
"""Lines at the beginning among which the names of the columns are looked for."""

_SHOWN: Final = 10
"""Lines named for each kind of problem."""

_FIRST: Final = date(2000, 1, 1)
_DATES: Final = (
    *("%Y-%m-%d", "%Y/%m/%d", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
    *("%d %b %Y", "%d %B %Y"),
)
_ID: Final = ("userid", "memberid", "slackuserid", "slackuid", "uid")
_CREATED: Final = (
    *("accountcreated", "accountcreatedutc", "accountcreatedon", "datecreated", "created"),
)
"""Spellings of the columns, by their letters alone."""


class MalformedList(Exception):  # noqa: N818
    """The file cannot be used. The message is one line that says what was expected."""


class Accounts(msgspec.Struct, frozen=True):
    """When accounts were made, in seconds by user; what is wrong with some lines."""

    created: dict[str, int]
    problems: list[Problem]


def read_accounts(path: Path, zone: ZoneInfo, today: date) -> Accounts:
    """Read a list of members. A date is its midnight in ``zone``; one after ``today`` is absurd;
    of two the earlier one is right.

    :raises MalformedList: the columns are not there
    """
    created: dict[str, int] = {}
    wrong = defaultdict[str, list[int]](list)
    for line, uid, text in _rows(path.name, path.read_bytes()):
        day = _day(text)
        if not is_user_id(uid):
            wrong["User ID: expected an ID like U012ABCDEF"].append(line)
        elif day is None:
            wrong["Account created: expected a date like Nov 3, 2017"].append(line)
        elif not _FIRST <= day <= today:
            wrong["Account created: before the year 2000, or in the future"].append(line)
        else:
            at = midnight(day, zone)
            created[uid] = min(at, created.get(uid, at))
    problems = [Problem(f"{path.name} {_lines_text(lines)}", why) for why, lines in wrong.items()]
    return Accounts(created, problems)


def _lines_text(numbers: Sequence[int]) -> str:
    named, rest = ", ".join(map(str, numbers[:_SHOWN])), len(numbers) - _SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"line{'s' if len(numbers) > 1 else ''} {named}{more}"


async def store_accounts(tables: Tables, created: Mapping[str, int], out: Exclusions) -> int:
    """Store when accounts were made; return of how many nothing as early was known."""
    ids = ids_of_people(await tables.users.all())
    people = ((ids.get(uid, uid), ts) for uid, ts in created.items())
    kept = [(uid, ts) for uid, ts in people if uid not in out]
    return await tables.users_created.add(kept)


def _rows(name: str, data: bytes) -> list[tuple[int, str, str]]:
    """The number of each line, with the ID and the date in it.

    :raises MalformedList: the columns are not there
    """
    utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = data.decode("utf-16" if utf_16 else "utf-8-sig", errors="replace")
    lines = text.splitlines(keepends=True)
    try:
        for heading, line in enumerate(lines[:_HEADINGS], 1):
            for separator in _SEPARATORS:
                cells = next(csv.reader([line], delimiter=separator), [])
                names = [re.sub(r"[^a-z]", "", cell.lower()) for cell in cells]
                uid = next(filter(names.__contains__, _ID), None)
                created = next(filter(names.__contains__, _CREATED), None)
                if uid is not None and created is not None:
                    rows = csv.DictReader(lines[heading:], names, "", "", delimiter=separator)
                    return [
                        (heading + rows.line_num, row[uid].strip(), row[created].strip())
                        for row in rows
                        if any("".join(cell).strip() for cell in row.values())
                    ]
    except csv.Error as error:
        raise MalformedList(f"{name}: {error}") from None
    raise MalformedList(
        f"{name}: expected the columns 'User ID' and 'Account created', as in the list of members "
        "that Slack's analytics page exports"
    )


def _day(text: str) -> date | None:
    """The date of a text; one that may be read in two ways is none."""
    for form in _DATES:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    return None
