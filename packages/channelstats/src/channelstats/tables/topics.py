"""What many people wrote about in a week, as `channelstats.ingest.topics` counts it: words and
links, and how many people used each. Nothing else of a text is stored.

Rule: of two runs that counted the same week the one that saw more messages of it is kept, and of
equal ones the later: a run that reads little replaces nothing that was counted over more.

    BulkStore       `topics <yyyymmdd>`: a line for each, `<people> <word or link>`
    Configuration   `topics`: a column `yyyy-mm-dd` for each week, by its first day: a map of
                    messages, people (that wrote any word), left_out (who was not counted)
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Final

import msgspec

from channelstats.days import DAY
from channelstats.tables.configuration import Configuration, ListedTexts
from channelstats.tables.items import struct_of
from channelstats.tables.text_store import TextStore

_WEEK: Final = 7 * DAY
_DIGITS: Final = 16

FEWEST_PEOPLE: Final = 5
"""Who use a word that is stored."""


class CountedWeek(msgspec.Struct, frozen=True):
    """Over how much a week was counted."""

    messages: int = 0
    people: int = 0
    left_out: str = ""


class WeekTopics(msgspec.Struct, frozen=True):
    """``terms`` are words, and links as `host` or `host/path`, to how many people used them."""

    messages: int
    people: int
    terms: dict[str, int]


def left_out_mark(people: Collection[str], channels: Collection[str]) -> str:
    """A text that is another one for other people and channels that are left out."""
    if not people and not channels:
        return ""
    text = msgspec.json.encode([sorted(people), sorted(channels)])
    return hashlib.sha256(text).hexdigest()[:_DIGITS]


class Topics:
    """See the module."""

    def __init__(self, configuration: Configuration, bulk: TextStore) -> None:
        self._texts = ListedTexts(configuration, bulk, "topics", "topics")
        self.version = self._texts.version

    async def weeks(self) -> dict[date, CountedWeek]:
        """What is stored, by the first day."""
        return {
            date.fromisoformat(name): struct_of(CountedWeek, value)
            for name, value in (await self._texts.listed()).items()
            if isinstance(value, Mapping)
        }

    async def put(self, found: Mapping[date, WeekTopics], left_out: str) -> None:
        """Store what a run counted, without those who are ``left_out`` (see `left_out_mark`)."""
        stored = await self.weeks()
        for week, topics in found.items():
            before = stored.get(week)
            if before is None or before.left_out != left_out or topics.messages >= before.messages:
                await self._store(week, topics, left_out)

    async def read(self, weeks: Collection[date], left_out: str) -> dict[date, WeekTopics]:
        """Those of the weeks that were counted without the same people and channels."""
        stored = await self.weeks()
        return {
            week: await self._read(week, stored[week])
            for week in weeks
            if week in stored and stored[week].left_out == left_out
        }

    async def forget_one(self, weeks: Iterable[date]) -> None:
        """Count somebody out who wrote in these weeks. Nobody knows which words were theirs, so it
        is one person less of each: what is left would be there without them.
        """
        stored = await self.weeks()
        for week in weeks:
            topics = await self._read(week, stored[week])
            left = {
                term: people - 1 for term, people in topics.terms.items() if people > FEWEST_PEOPLE
            }
            fewer = WeekTopics(topics.messages, max(topics.people - 1, 0), left)
            await self._store(week, fewer, stored[week].left_out)

    async def remove_before(self, first: date) -> None:
        """Remove the weeks that began before a day."""
        for week in await self.weeks():
            if week < first:
                await self._texts.remove(week.isoformat())

    async def _read(self, week: date, counted: CountedWeek) -> WeekTopics:
        lines = (await self._texts.get(week.isoformat())).splitlines()
        pairs = (line.partition(" ") for line in lines)
        terms = {term: int(people) for people, _, term in pairs}
        return WeekTopics(counted.messages, counted.people, terms)

    async def _store(self, week: date, topics: WeekTopics, left_out: str) -> None:
        text = "".join(f"{people} {term}\n" for term, people in topics.terms.items())
        counted = CountedWeek(topics.messages, topics.people, left_out)
        await self._texts.put(week.isoformat(), text, msgspec.structs.asdict(counted))


def weeks_of(days: Iterable[date], weeks: Collection[date]) -> set[date]:
    """The ``weeks`` that have one of the days."""
    return {week for day in set(days) for week in weeks if week <= day < week + _WEEK}
