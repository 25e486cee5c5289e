"""Files of Slack's analytics → when accounts were made; counts of members and of channels, by days.

    CSV      what the analytics pages export of members and of channels. The days that counts are of
             are in its name, `… Prior 30 Days - Apr 17, 2024.csv` or `… Mar 1, 2024 - Mar 31,
             2024.csv`, or are given. Channels have names in it and no IDs.
    ND-JSON  a file of `admin.analytics.getFile`, as it comes (gzip) or unpacked: an object a line,
             with the day it is of.

Rule: IDs, dates and a few counts are read; names and addresses of people are never looked at. A
line that cannot be understood costs itself.
"""

import csv
import gzip
import io
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import msgspec
import orjson

from channelstats.days import midnight
from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.slack.export import Problem
from channelstats.tables import Tables
from channelstats.tables.directory import ids_of_people
from channelstats.tables.exclusion import Exclusions, resolve_channels
from channelstats.tables.slack_analytics import Counts, DateSpan, Subject

_Row = TypeVar("_Row")
_Meaning = TypeVar("_Meaning")

MAX_BYTES: Final = 1 << 30
"""Of a file, unpacked."""

MAX_DAYS: Final = 400
"""Of a span; "all time" says nothing on any period."""

_GZIP: Final = b"\x1f\x8b"
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


class _Form(NamedTuple):
    """Columns of a CSV by their spellings, and fields of an object that say the same. The first two
    are necessary. Of counts: an ID, then the order of `channelstats.tables.slack_analytics.COUNTS`.
    """

    subject: Subject
    columns: tuple[tuple[str, ...], ...]
    fields: tuple[str, ...] = ()


_ID: Final = ("User ID", "Member ID", "slackuserid", "slackuid", "uid")
_CREATED: Final = (
    *("Account created", "accountcreatedutc", "accountcreatedon", "datecreated", "created"),
)
_ACCOUNTS: Final = _Form(Subject.MEMBERS, (_ID, _CREATED))
_COUNTS: Final = (
    _Form(
        Subject.MEMBERS,
        (_ID[:1], ("Days active",), ("Messages posted",), ("Messages posted in channels",)),
        ("user_id", "is_active", "messages_posted_count", "channel_messages_posted_count"),
    ),
    _Form(
        Subject.CHANNELS,
        (("Channel ID", "Name"), ("Members who viewed",), ("Messages posted",)),
        ("channel_id", "members_who_viewed_count", "messages_posted_count"),
    ),
)

_EXPECTED_ACCOUNTS: Final = (
    "expected the columns 'User ID' and 'Account created', as in the list of members that Slack's "
    "analytics page exports"
)
_EXPECTED_COUNTS: Final = (
    "not a file of Slack's analytics: expected the column 'Days active' (members) or 'Members who "
    "viewed' (channels)"
)

_DATE: Final = r"([A-Z][a-z]{2,8} \d{1,2} \d{4})"
_PRIOR: Final = re.compile(rf"\bPrior (\d{{1,3}}) Days {_DATE}", re.IGNORECASE)
_FROM_TO: Final = re.compile(rf"\b{_DATE} {_DATE}", re.IGNORECASE)


class MalformedAnalytics(Exception):  # noqa: N818
    """The file cannot be used. The message is one line that says what was expected."""


def _understood(
    name: str, rows: Iterable[tuple[int, _Row]], understand: Callable[[_Row], _Meaning]
) -> tuple[list[_Meaning], list[Problem]]:
    """What the lines of a file mean, and which of them cannot be understood."""
    found, wrong = [], defaultdict[str, list[int]](list)
    for line, row in rows:
        try:
            found.append(understand(row))
        except ValueError as error:
            wrong[str(error)].append(line)
    return found, [Problem(f"{name} {_lines_text(at)}", why) for why, at in wrong.items()]


def _lines_text(numbers: Sequence[int]) -> str:
    shown, rest = ", ".join(map(str, numbers[:_SHOWN])), len(numbers) - _SHOWN
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"


# ── when accounts were made ──────────────────────────────────────────────────────────────────────


class Accounts(msgspec.Struct, frozen=True):
    """When accounts were made, in seconds by user; what is wrong with some lines."""

    created: dict[str, int]
    problems: list[Problem]


def read_accounts(path: Path, zone: ZoneInfo, today: date) -> Accounts:
    """Read a list of members. A date is its midnight in ``zone``; one after ``today`` is absurd;
    of two the earlier one is right.

    :raises MalformedAnalytics: the columns are not there
    """

    def understand(cells: Sequence[str]) -> tuple[str, int]:
        uid, text = cells
        day = _day(text)
        if not is_user_id(uid):
            raise ValueError(f"{_ID[0]}: expected an ID like U012ABCDEF")
        if day is None:
            raise ValueError(f"{_CREATED[0]}: expected a date like Nov 3, 2017")
        if not _FIRST <= day <= today:
            raise ValueError(f"{_CREATED[0]}: before the year 2000, or in the future")
        return uid, midnight(day, zone)

    _, rows = _csv_rows(path.name, path.read_bytes(), (_ACCOUNTS,), _EXPECTED_ACCOUNTS)
    found, problems = _understood(path.name, rows, understand)
    created: dict[str, int] = {}
    for uid, at in found:
        created[uid] = min(at, created.get(uid, at))
    return Accounts(created, problems)


async def store_accounts(tables: Tables, created: Mapping[str, int], out: Exclusions) -> int:
    """Store when accounts were made; return of how many nothing as early was known."""
    ids = ids_of_people(await tables.users.all())
    people = ((ids.get(uid, uid), ts) for uid, ts in created.items())
    kept = [(uid, ts) for uid, ts in people if uid not in out]
    return await tables.users_created.add(kept)


# ── counts ───────────────────────────────────────────────────────────────────────────────────────


class AnalyticsFile(msgspec.Struct, frozen=True):
    """What a file counts, by the days that it is of; what is wrong with some lines. Channels of
    a CSV are named by their names.
    """

    counts: Mapping[tuple[Subject, DateSpan], Counts]
    problems: list[Problem]


class _Line(NamedTuple):
    """What a line counts, of a member or a channel."""

    subject: Subject
    span: DateSpan
    name: str
    counts: Sequence[int | None]


class StoredAnalytics(msgspec.Struct, frozen=True):
    """How many members and channels of a file were stored, in how many spans of days that were not
    there or are different now; and how many channels nothing is known of.
    """

    members: int = 0
    channels: int = 0
    changed: int = 0
    unknown: int = 0


def read_analytics(path: Path, span: DateSpan | None = None) -> AnalyticsFile:
    """Read a file; ``span`` are the days that a CSV is of, where its name does not say.

    :raises MalformedAnalytics: it is no such file
    """
    name, data = path.name, _unpacked(path)
    if data.lstrip()[:1] == b"{":
        lines = ((at, line) for at, line in enumerate(io.BytesIO(data), 1) if line.strip())
        found, problems = _understood(name, lines, _of_object)
    else:
        form, rows = _csv_rows(name, data, _COUNTS, _EXPECTED_COUNTS)
        if (days := span or _span_of(path.stem)) is None:
            raise MalformedAnalytics(
                f"{name}: the name of the file does not say which days it is of: give them by "
                "--from and --to"
            )
        found, problems = _understood(name, rows, partial(_of_cells, form, days))
    if not found:
        why = problems[0].reason if problems else "there is nothing in it"
        raise MalformedAnalytics(f"{name}: no line can be used: {why}")
    counts: dict[tuple[Subject, DateSpan], dict[str, Sequence[int | None]]] = defaultdict(dict)
    for one in found:
        counts[one.subject, one.span][one.name] = one.counts
    return AnalyticsFile(dict(counts), problems)


async def store_analytics(
    tables: Tables, found: AnalyticsFile, out: Exclusions, excluded_channels: Iterable[str] = ()
) -> StoredAnalytics:
    """Store what a file counts, without those who are left out; the same again changes nothing."""
    channels, people = await tables.channels.all(), ids_of_people(await tables.users.all())
    ids = {channel.friendly_name: cid for cid, channel in channels.items()}
    hidden = resolve_channels(frozenset(excluded_channels), channels)
    seen: dict[Subject, set[str]] = {subject: set() for subject in Subject}
    changed, unknown = 0, set[str]()
    for (subject, span), counts in found.counts.items():
        if subject is Subject.MEMBERS:  # nothing is to be said of those who did nothing
            them = {people.get(uid, uid): of for uid, of in counts.items() if any(of)}
            kept = {uid: of for uid, of in them.items() if uid not in out}
        else:
            cids = {name: name if is_channel_id(name) else ids.get(name, "") for name in counts}
            unknown |= {name for name, cid in cids.items() if not cid}
            kept = {cid: counts[name] for name, cid in cids.items() if cid and cid not in hidden}
        seen[subject] |= kept.keys()
        changed += await tables.slack_analytics.put(subject, span, kept)
    members, listed = (len(seen[subject]) for subject in (Subject.MEMBERS, Subject.CHANNELS))
    return StoredAnalytics(members, listed, changed, len(unknown))


def _unpacked(path: Path) -> bytes:
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == _GZIP
            raw.seek(0)
            data = (gzip.GzipFile(fileobj=raw) if is_packed else raw).read(MAX_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise MalformedAnalytics(f"{path.name}: the file is not whole: get it again") from None
    if len(data) > MAX_BYTES:
        raise MalformedAnalytics(f"{path.name}: it is larger than any file of Slack's analytics")
    return data


def _of_object(line: bytes) -> _Line:
    """What a line of ND-JSON counts."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        row = None
    if not isinstance(row, dict):
        raise ValueError("expected a JSON object")  # noqa: TRY004 - the line is wrong, not the type
    form = next((form for form in _COUNTS if form.fields[0] in row), None)
    if form is None:
        raise ValueError("expected the field user_id or channel_id")
    key, *values = (row.get(field) for field in form.fields)
    is_id = is_user_id if form.subject is Subject.MEMBERS else is_channel_id
    if not is_id(key):
        raise ValueError(f"{form.fields[0]}: expected an ID")
    day = _day(str(row.get("date")))
    if day is None:
        raise ValueError("date: expected a date like 2024-03-10")
    return _line(form.subject, DateSpan(day, day), key, values, form.fields[1])


def _of_cells(form: _Form, span: DateSpan, cells: Sequence[str]) -> _Line:
    """What a line of a CSV counts."""
    key, *values = cells
    if form.subject is Subject.MEMBERS and not is_user_id(key):
        raise ValueError(f"{_ID[0]}: expected an ID like U012ABCDEF")
    if not (name := key.removeprefix("#")):
        raise ValueError("expected the name of a channel")
    return _line(form.subject, span, name, values, form.columns[1][0])


def _line(
    subject: Subject, span: DateSpan, name: str, values: Iterable[object], necessary: str
) -> _Line:
    """:raises ValueError: the first of the values, which is ``necessary``, is no count"""
    counts = tuple(map(_count, values))
    if counts[0] is None:
        raise ValueError(f"{necessary}: expected a count")
    return _Line(subject, span, name, counts)


def _count(value: object) -> int | None:
    """A count, as a number or in digits; true is one."""
    if isinstance(value, str):
        plain = value.replace(",", "")
        value = int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 16 else None
    return int(value) if isinstance(value, int) and 0 <= value < 1 << 53 else None


# ── CSV and dates ────────────────────────────────────────────────────────────────────────────────


def _csv_rows(
    name: str, data: bytes, forms: Sequence[_Form], expected: str
) -> tuple[_Form, list[tuple[int, list[str]]]]:
    """Which of the ``forms`` a CSV has, and the number of each line with the cells of its columns.

    :raises MalformedAnalytics: it has none of them, and what was ``expected``
    """
    utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = data.decode("utf-16" if utf_16 else "utf-8-sig", errors="replace")
    lines = text.splitlines(keepends=True)
    near = ""
    try:
        for heading, line in enumerate(lines[:_HEADINGS], 1):
            for separator in _SEPARATORS:
                names = list(map(_plain, next(csv.reader([line], delimiter=separator), [])))
                for form in forms:
                    at = [_place(names, spellings) for spellings in form.columns]
                    if at[0] is not None and at[1] is not None:
                        rows = csv.reader(lines[heading:], delimiter=separator)
                        return form, [
                            (heading + rows.line_num, [_cell(row, place) for place in at])
                            for row in rows
                            if any(map(str.strip, row))
                        ]
                    if at[1] is not None:
                        near = " or ".join(map(repr, form.columns[0][:2]))
    except csv.Error as error:
        raise MalformedAnalytics(f"{name}: {error}") from None
    if near:
        raise MalformedAnalytics(
            f"{name}: the column {near} is missing: add it in Slack and export again"
        )
    raise MalformedAnalytics(f"{name}: {expected}")


def _place(names: Sequence[str], spellings: Iterable[str]) -> int | None:
    return next((names.index(one) for one in map(_plain, spellings) if one in names), None)


def _cell(row: Sequence[str], place: int | None) -> str:
    return row[place].strip() if place is not None and place < len(row) else ""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _span_of(stem: str) -> DateSpan | None:
    """The days that the name of an export says; those before a day end with it."""
    words = re.sub(r"[^A-Za-z0-9]+", " ", stem)
    first = last = None
    if found := _PRIOR.search(words):
        last = _day(found[2])
        first = last and last - timedelta(max(int(found[1]), 1) - 1)
    elif found := _FROM_TO.search(words):
        first, last = _day(found[1]), _day(found[2])
    if first is None or last is None or not 0 <= (last - first).days < MAX_DAYS:
        return None
    return DateSpan(first, last)


def _day(text: str) -> date | None:
    """The date of a text; one that may be read in two ways is none."""
    for form in _DATES:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    return None
