"""The report document with types: what renderers read.

Rule: the document is read, never changed, and each part of it when it is first asked for; a part
that is absent in it is an error here and nowhere further up.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar, cast
from zoneinfo import ZoneInfo

import msgspec

from channelstats.reports.document import Document, objects
from channelstats.stats.values import Change, Json

T = TypeVar("T")

Pair: TypeAlias = tuple[int, int]
"""Messages, words."""

Numbers: TypeAlias = dict[str, int]


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A message in a list of the most reacted or replied."""

    count: int
    ts: str
    cid: str
    uid: str
    thread_ts: str | None


class Volume(msgspec.Struct, frozen=True):
    messages: Change
    words: Change


class UserStats(msgspec.Struct, frozen=True):
    count: Pair
    rank: int | None
    percent_of_words: float
    cum_percent_of_words: float
    reactions: int
    replies: int
    thread_messages: int
    rphw: float
    reactions_given: int
    posting_days: dict[str, Pair]
    posting_hours: dict[str, Pair]


class ChannelStats(msgspec.Struct, frozen=True):
    percent: float
    cpercent: float
    posters: int
    words_per_poster: float
    new: bool
    members: int | None


class EnrichedChannel(msgspec.Struct, frozen=True):
    reaction_count: int
    reactions: Numbers
    emoji_rate: dict[str, float]
    most_reacted: list[Entry]
    most_replied: list[Entry]
    posting_days: dict[str, Pair]
    posting_hours: dict[str, Pair]


class ChannelOfUser(msgspec.Struct, frozen=True):
    slack_cid: str
    rank: int
    words: int
    messages: int
    percent: float


class EnrichedUser(msgspec.Struct, frozen=True):
    reactions_from: Numbers = {}
    reacted_to: Numbers = {}
    reactions_combined: Numbers = {}
    author_thread_responded: Numbers = {}
    thread_responders: Numbers = {}
    threads_combined: Numbers = {}
    you_mentioned: Numbers = {}
    mentioned_you: Numbers = {}
    mentions_combined: Numbers = {}
    reaction_popularity: Numbers = {}
    reaction_count: int = 0
    emoji_rate: dict[str, float] = {}
    reactions: list[Entry] = []
    replies: list[Entry] = []
    enriched_channels: dict[str, ChannelOfUser] = {}


class FirstReply(msgspec.Struct, frozen=True):
    count: int
    median: int | None
    p90: int | None


class Retention(msgspec.Struct, frozen=True):
    rate: float | None
    both: int
    new: int
    returning: int
    lapsed: int


class NewStatistics(msgspec.Struct, frozen=True):
    threads_started: int
    thread_share: float
    first_reply: FirstReply
    top_level: int
    unanswered: int
    gini_of_words: float
    daily_posters: Numbers
    daily_posters_mean: float
    wau: int
    mau: int
    retention: Retention
    bot_share: float


class GroupChange(msgspec.Struct, frozen=True):
    total: Change
    people: Change


class ComparedUser(msgspec.Struct, frozen=True):
    messages: Change
    words: Change
    rphw: Change
    thread_messages: Change
    percent_of_words: Change
    cum_percent_of_words: Change
    people: dict[str, GroupChange]


class ComparedChannel(msgspec.Struct, frozen=True):
    messages: Change
    words: Change
    posters: Change
    words_per_poster: Change
    percent: Change
    cpercent: Change
    share_rounded: Change
    users: dict[str, Volume]


class Each(Mapping[str, T], Generic[T]):
    """A part of a document with an entry for each of many, read when it is asked for."""

    def __init__(self, part: Json, kind: type[T]) -> None:
        self._part = as_mapping(part)
        self._decoder = msgspec.json.Decoder(kind)

    def __getitem__(self, name: str) -> T:
        return _read(self._part, name, self._decoder)

    def __iter__(self) -> Iterator[str]:
        return iter(self._part)

    def __len__(self) -> int:
        return len(self._part)


def _read(of: Mapping[str, Json], name: str, decoder: msgspec.json.Decoder[T]) -> T:
    """A part with its type, whether or not it is in JSON yet."""
    if isinstance(of, Document):
        return decoder.decode(of.text(name))
    part = of[name]
    if isinstance(part, Document):
        return decoder.decode(part.json)
    found: T = msgspec.convert(objects(part), decoder.type)
    return found


class _Read(Generic[T]):
    """An attribute: the part of that name, read once."""

    def __init__(self, kind: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, of: "_Parts", owner: type) -> T:
        found = self._read(of.document)
        of.__dict__[self._name] = found
        return found

    def _read(self, document: Mapping[str, Json]) -> T:
        return _read(document, self._name, self._decoder)


class _ReadEach(_Read[Each[T]]):
    """The same of a part with an entry for each of many."""

    def __init__(self, kind: type[T]) -> None:
        self._entry = kind

    def _read(self, document: Mapping[str, Json]) -> Each[T]:
        return Each(document[self._name], self._entry)


class _Parts:
    def __init__(self, document: Mapping[str, Json]) -> None:
        self.document = document


class Compared(_Parts):
    statistics = _Read(dict[str, Change])
    user_weekday = _Read(dict[str, Volume])
    channels = _ReadEach(ComparedChannel)
    users = _ReadEach(ComparedUser)


class View(_Parts):
    start_date = _Read(str)
    end_date = _Read(str)
    days = _Read(int)
    report_timezone = _Read(str)
    generated_at = _Read(int)
    statistics = _Read(dict[str, float | list[str]])
    users = _Read(dict[str, Pair])
    user_stats = _ReadEach(UserStats)
    enriched_user = _ReadEach(EnrichedUser)
    channels = _Read(dict[str, Pair])
    channel_stats = _Read(dict[str, ChannelStats])
    channel_user = _ReadEach(dict[str, Pair])
    enriched_channel = _ReadEach(EnrichedChannel)
    user_weekday = _Read(dict[str, Pair])
    user_weekday_hour = _Read(dict[str, Pair])
    weekday_activity_percentage = _Read(dict[str, float])
    timezone = _Read(dict[str, Pair])
    posters_per_timezone = _Read(dict[str, Numbers])
    reaction = _Read(Numbers)
    emoji_rate = _Read(dict[str, float])
    reaction_count = _Read(list[Entry])
    reply_count = _Read(list[Entry])
    new_statistics = _Read(NewStatistics)

    @cached_property
    def edges(self) -> Each[Numbers]:
        """Those of the new statistics: as many as there are pairs of people."""
        return Each(as_mapping(self.document["new_statistics"])["edges"], Numbers)

    @cached_property
    def compared(self) -> Compared:
        return Compared(as_mapping(self.document["compared"]))

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.report_timezone)

    @property
    def authors_of_half(self) -> list[str]:
        """Those who make half of all words."""
        found = self.statistics["50percent users for words"]
        return found if isinstance(found, list) else []


def view(document: Mapping[str, Json]) -> View:
    """Read a document."""
    return View(document)


def as_mapping(value: object) -> Mapping[str, Json]:
    """A part of a document that is known to be one."""
    assert isinstance(value, Mapping)
    return cast("Mapping[str, Json]", value)
