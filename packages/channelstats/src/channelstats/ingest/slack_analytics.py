"""Files of Slack's own analytics → counts of members and of channels, by days.

Two forms, told apart by what is in them:

    CSV      what the analytics dashboard exports of members and of channels. The days that it is of
             are in its name, `… Prior 30 Days - Apr 17, 2024.csv` or `… Mar 1, 2024 - Mar 31,
             2024.csv`, or are given. Channels have names in it and no IDs.
    ND-JSON  a file of `admin.analytics.getFile`, as it comes (gzip) or unpacked: an object a line,
             with the day it is of.

Rule: IDs and a few counts are read; names and addresses of people are never looked at. A line that
cannot be understood costs itself.
"""

import csv
import gzip
import io
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import orjson

from channelstats.identifiers import is_channel_id, is_user_id
from channelstats.ingest.exclusions import Exclusions
from channelstats.ingest.members_csv import lines_text
from channelstats.slack.export import Problem
from channelstats.tables import Tables
from channelstats.tables.exclusion import resolve_channels
from channelstats.tables.slack_analytics import Counts, DateSpan, Subject

MAX_BYTES: Final = 1 << 30
"""Of a file, unpacked."""

MAX_DAYS: Final = 400
"""Of a span; "all time" says nothing on any period."""

_GZIP: Final = b"\x1f\x8b"
_SEPARATORS: Final = ",;\t"
_HEADINGS: Final = 5
"""Lines at the beginning among which the names of the columns are looked for."""

_ID_COLUMNS: Final[Mapping[Subject, tuple[str, ...]]] = {
    Subject.MEMBERS: ("User ID",),
    Subject.CHANNELS: ("Channel ID", "Name"),
}
"""Either of these is necessary, as is the first count."""

_COLUMNS: Final[Mapping[Subject, tuple[str, ...]]] = {
    Subject.MEMBERS: ("Days active", "Messages posted", "Messages posted in channels"),
    Subject.CHANNELS: ("Members who viewed", "Messages posted"),
}
_FIELDS: Final[Mapping[Subject, tuple[str, ...]]] = {
    Subject.MEMBERS: ("is_active", "messages_posted_count", "channel_messages_posted_count"),
    Subject.CHANNELS: ("members_who_viewed_count", "messages_posted_count"),
}
"""Columns and fields in the order of `channelstats.tables.slack_analytics.COUNTS`."""

_ID_FIELDS: Final = {"user_id": Subject.MEMBERS, "channel_id": Subject.CHANNELS}

_DATE: Final = r"([A-Z][a-z]{2,8} \d{1,2} \d{4})"
_PRIOR: Final = re.compile(rf"\bPrior (\d{{1,3}}) Days {_DATE}", re.IGNORECASE)
_FROM_TO: Final = re.compile(rf"\b{_DATE} {_DATE}", re.IGNORECASE)


class MalformedAnalytics(Exception):  # noqa: N818
    """The file cannot be used. The message is one line that says what was expected."""


class AnalyticsFile(msgspec.Struct, frozen=True):
    """What a file counts, by the days that it is of; what is wrong with some lines. Channels of
    a CSV are named by their names.
    """

    counts: Mapping[tuple[Subject, DateSpan], Counts]
    problems: list[Problem]


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
    with path.open("rb") as raw:
        is_packed = raw.read(2) == _GZIP
        raw.seek(0)
        try:
            data = _bounded(gzip.GzipFile(fileobj=raw) if is_packed else raw)
            if data.lstrip()[:1] == b"{":
                return _Lines(path.name).of_json(data)
            days = span or _span_of(path.stem)
            return _of_csv(path.name, data, days)
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise MalformedAnalytics(f"{path.name}: the file is not whole: get it again") from None
        except csv.Error as error:
            raise MalformedAnalytics(f"{path.name}: {error}") from None
        except MalformedAnalytics as error:
            raise MalformedAnalytics(f"{path.name}: {error}") from None


async def store_analytics(
    tables: Tables,
    found: AnalyticsFile,
    out: Exclusions,
    excluded_channels: Iterable[str] = (),
) -> StoredAnalytics:
    """Store what a file counts, without those who are left out; the same again changes nothing."""
    channels = await tables.channels.all()
    ids = {channel.friendly_name: cid for cid, channel in channels.items()}
    hidden = resolve_channels(frozenset(excluded_channels), channels)
    seen: dict[Subject, set[str]] = {subject: set() for subject in Subject}
    changed, unknown = 0, set[str]()
    for (subject, span), counts in found.counts.items():
        kept: dict[str, Sequence[int | None]] = {}
        for name, of in counts.items():
            if subject is Subject.MEMBERS:
                if name not in out and any(of):  # nothing is to be said of the others
                    kept[name] = of
                continue
            cid = name if is_channel_id(name) else ids.get(name)
            if cid is None:
                unknown.add(name)
            elif cid not in hidden:
                kept[cid] = of
        seen[subject] |= kept.keys()
        changed += await tables.slack_analytics.put(subject, span, kept)
    members, listed = (len(seen[subject]) for subject in (Subject.MEMBERS, Subject.CHANNELS))
    return StoredAnalytics(members, listed, changed, len(unknown))


def _bounded(file: BinaryIO | gzip.GzipFile) -> bytes:
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise MalformedAnalytics("it is larger than any file of Slack's analytics")
    return data


# ── what both forms have ─────────────────────────────────────────────────────────────────────────


class _Lines:
    """Collects what lines say, and which cannot be understood."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: dict[tuple[Subject, DateSpan], dict[str, tuple[int | None, ...]]] = (
            defaultdict(dict)
        )
        self._wrong: dict[str, list[int]] = defaultdict(list)

    def add(
        self, subject: Subject, span: DateSpan, name: str, counts: Iterable[int | None]
    ) -> None:
        self._counts[subject, span][name] = tuple(counts)

    def refuse(self, line: int, why: str) -> None:
        self._wrong[why].append(line)

    def result(self) -> AnalyticsFile:
        """:raises MalformedAnalytics: no line could be understood"""
        problems = [
            Problem(f"{self._name} {lines_text(at)}", why) for why, at in self._wrong.items()
        ]
        if not self._counts:
            why = next(iter(self._wrong), "there is nothing in it")
            raise MalformedAnalytics(f"no line can be used: {why}")
        return AnalyticsFile(dict(self._counts), problems)

    # ── ND-JSON ──────────────────────────────────────────────────────────────────────────────────

    def of_json(self, data: bytes) -> AnalyticsFile:
        for number, line in enumerate(io.BytesIO(data), 1):
            if line.strip():
                self._add_object(number, line)
        return self.result()

    def _add_object(self, number: int, line: bytes) -> None:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if not isinstance(row, dict):
            self.refuse(number, "expected a JSON object")
            return
        field = next((field for field in _ID_FIELDS if field in row), None)
        if field is None:
            self.refuse(number, f"expected the field {' or '.join(_ID_FIELDS)}")
            return
        subject, name = _ID_FIELDS[field], row[field]
        fields = _FIELDS[subject]
        if missing := [field for field in ("date", fields[0]) if field not in row]:
            self.refuse(number, f"expected the field {' and '.join(missing)}")
            return
        day = _iso_day(row["date"])
        counts = [_json_count(row.get(field)) for field in fields]
        if not (is_user_id(name) if subject is Subject.MEMBERS else is_channel_id(name)):
            self.refuse(number, f"{field}: expected an ID")
        elif day is None:
            self.refuse(number, "date: expected a date like 2024-03-10")
        elif counts[0] is None:
            self.refuse(number, f"{fields[0]}: expected a count")
        else:
            self.add(subject, DateSpan(day, day), name, counts)


def _json_count(value: object) -> int | None:
    """A count; true is one."""
    return int(value) if isinstance(value, int) and 0 <= value < 1 << 53 else None


def _iso_day(text: object) -> date | None:
    try:
        return date.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────────


def _of_csv(name: str, data: bytes, span: DateSpan | None) -> AnalyticsFile:
    utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = data.decode("utf-16" if utf_16 else "utf-8-sig", errors="replace")
    lines = text.splitlines(keepends=True)
    subject, separator, heading, columns = _columns_of(lines)
    if span is None:
        raise MalformedAnalytics(
            "the name of the file does not say which days it is of: give them by --from and --to"
        )
    found = _Lines(name)
    reader = csv.reader(lines[heading + 1 :], delimiter=separator)
    for row in reader:
        if not any(map(str.strip, row)):
            continue
        line = heading + 1 + reader.line_num
        key, *texts = _cells(row, columns)
        counts = [_csv_count(text) for text in texts]
        key = (key or "").removeprefix("#")
        if subject is Subject.MEMBERS and not is_user_id(key):
            found.refuse(line, f"{_ID_COLUMNS[subject][0]}: expected an ID like U012ABCDEF")
        elif not key:
            found.refuse(line, "expected the name of a channel")
        elif counts[0] is None:
            found.refuse(line, f"{_COLUMNS[subject][0]}: expected a count")
        else:
            found.add(subject, span, key, counts)
    return found.result()


def _cells(row: list[str], columns: Iterable[int | None]) -> Iterator[str | None]:
    for at in columns:
        yield row[at].strip() if at is not None and at < len(row) else None


def _csv_count(text: str | None) -> int | None:
    plain = (text or "").replace(",", "")
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 16 else None


def _columns_of(lines: list[str]) -> tuple[Subject, str, int, list[int | None]]:
    """What the counts are of, the separator, the number of the line that names the columns, and
    where the ID and each count are.
    """
    near = ""
    for number, line in enumerate(lines[:_HEADINGS]):
        for separator in _SEPARATORS:
            names = [_plain(found) for found in next(csv.reader([line], delimiter=separator), [])]
            for subject in Subject:
                key, *counts = _places(names, subject)
                if key is not None and counts[0] is not None:
                    return subject, separator, number, [key, *counts]
                if key is None and counts[0] is not None:
                    near = " or ".join(map(repr, _ID_COLUMNS[subject]))
    if near:
        raise MalformedAnalytics(f"the column {near} is missing: add it in Slack and export again")
    first = (f"{_COLUMNS[subject][0]!r} ({subject})" for subject in Subject)
    raise MalformedAnalytics(
        f"not a file of Slack's analytics: expected the column {' or '.join(first)}"
    )


def _places(names: list[str], subject: Subject) -> Iterator[int | None]:
    """Where the ID and each count are."""
    at = {name: place for place, name in reversed(list(enumerate(names)))}
    ids = [at.get(_plain(column)) for column in _ID_COLUMNS[subject]]
    yield next((place for place in ids if place is not None), None)
    yield from (at.get(_plain(column)) for column in _COLUMNS[subject])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _span_of(stem: str) -> DateSpan | None:
    """The days that the name of an export says; those before a day end with it."""
    words = re.sub(r"[^A-Za-z0-9]+", " ", stem)
    if found := _PRIOR.search(words):
        last, days = _day(found[2]), int(found[1])
        return _checked(last and last - timedelta(max(days, 1) - 1), last)
    if found := _FROM_TO.search(words):
        return _checked(_day(found[1]), _day(found[2]))
    return None


def _checked(first: date | None, last: date | None) -> DateSpan | None:
    if first is None or last is None or not 0 <= (last - first).days < MAX_DAYS:
        return None
    return DateSpan(first, last)


def _day(text: str) -> date | None:
    for form in ("%b %d %Y", "%B %d %Y"):
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a date has no zone
        except ValueError:
            continue
    return None
