"""What Slack's own analytics count, of members and of channels, over spans of days.

Rule: only IDs and counts are stored. A span is stored as a whole, in place of what was there of the
same days.

    BulkStore       `slack <subject> <first>/<last>`: a line for each ID, `ID,count,…`; a count that
                    the file did not have is empty
    Configuration   `slack_analytics`: a column `<subject> <first>/<last>` for each of these texts,
                    with a digest of it
"""

import asyncio
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from channelstats.tables.configuration import Configuration, ListedTexts
from channelstats.tables.items import batches
from channelstats.tables.text_store import TextStore

_AT_ONCE: Final = 16
"""Texts that are read at once."""

_DIGITS: Final = 16
_DAY: Final = timedelta(1)


class Subject(StrEnum):
    """What the counts are of."""

    MEMBERS = "members"
    CHANNELS = "channels"


COUNTS: Final[Mapping[Subject, tuple[str, ...]]] = {
    Subject.MEMBERS: ("days_active", "messages", "channel_messages"),
    Subject.CHANNELS: ("viewers", "messages"),
}
"""The counts of each ID, in their order. Of members: days on which they read or posted, messages
anywhere, messages in channels. Of channels: members who viewed it, messages."""

Counts: TypeAlias = Mapping[str, Sequence[int | None]]
"""By ID, in the order of `COUNTS`; None for what is not known."""


class DateSpan(NamedTuple):
    """Days in UTC, both included."""

    first: date
    last: date

    def __str__(self) -> str:
        return f"{self.first}/{self.last}"


def tiling(spans: Iterable[DateSpan], whole: DateSpan) -> tuple[DateSpan, ...]:
    """The fewest spans that make up all days of ``whole`` and no other; else none."""
    before = whole.first - _DAY
    ending: dict[date, tuple[DateSpan, ...]] = {before: ()}
    for span in sorted(spans):
        found = ending.get(span.first - _DAY)
        if found is None or not span.first <= span.last <= whole.last:
            continue
        if span.last not in ending or len(ending[span.last]) > len(found) + 1:
            ending[span.last] = (*found, span)
    return ending.get(whole.last, ())


class SlackAnalytics:
    """See the module."""

    def __init__(self, configuration: Configuration, bulk: TextStore) -> None:
        self._texts = ListedTexts(configuration, bulk, "slack_analytics", "slack")
        self.version = self._texts.version

    async def spans(self, subject: Subject) -> list[DateSpan]:
        """The days that are stored, the earliest first."""
        return sorted(_spans(await self._texts.listed(), subject))

    async def put(self, subject: Subject, span: DateSpan, counts: Counts) -> bool:
        """Store what is counted of a span; return whether anything changed."""
        value = "".join(f"{_line(name, counts[name])}\n" for name in sorted(counts))
        if (await self._texts.listed()).get(f"{subject} {span}") == _digest(value):
            return False
        await self._store(subject, span, value)
        return True

    async def _store(self, subject: Subject, span: DateSpan, value: str) -> None:
        await self._texts.put(f"{subject} {span}", value, _digest(value))

    async def read(self, subject: Subject, spans: Sequence[DateSpan]) -> list[pl.DataFrame]:
        """The counts of each span: `id` and the columns of `COUNTS`."""
        found: list[str] = []
        for some in batches(spans, _AT_ONCE):
            reading = (self._texts.get(f"{subject} {span}") for span in some)
            found += await asyncio.gather(*reading)
        return await asyncio.to_thread(lambda: [_frame(subject, value) for value in found])

    async def remove_member(self, uid: str) -> None:
        """Remove every count of a person."""
        for span in await self.spans(Subject.MEMBERS):
            lines = (await self._texts.get(f"{Subject.MEMBERS} {span}")).splitlines()
            left = [line for line in lines if line.partition(",")[0] != uid]
            if len(left) < len(lines):  # whatever the digest says, which a killed run left behind
                value = "".join(f"{line}\n" for line in left)
                await self._store(Subject.MEMBERS, span, value)

    async def remove_before(self, first: date) -> None:
        """Remove the spans that are over before a day."""
        for subject in Subject:
            for span in await self.spans(subject):
                if span.last < first:
                    await self._texts.remove(f"{subject} {span}")


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:_DIGITS]


def _spans(columns: Iterable[str], subject: Subject) -> Iterable[DateSpan]:
    for column in columns:
        kind, _, days = column.partition(" ")
        first, _, last = days.partition("/")
        if kind == subject:
            yield DateSpan(date.fromisoformat(first), date.fromisoformat(last))


def _line(name: str, counts: Sequence[int | None]) -> str:
    return ",".join([name, *("" if count is None else str(count) for count in counts)])


def _frame(subject: Subject, value: str) -> pl.DataFrame:
    schema = {"id": pl.String, **dict.fromkeys(COUNTS[subject], pl.Int64)}
    if not value:
        return pl.DataFrame(schema=schema)
    return pl.read_csv(io.BytesIO(value.encode()), has_header=False, schema=schema)
