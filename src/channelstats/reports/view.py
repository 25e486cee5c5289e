"""The report document with types: what renderers read.

Rule: the document is read, never changed; a part that is absent in it is an error here and nowhere
further up.
"""

from collections.abc import Mapping
from typing import TypeAlias, cast
from zoneinfo import ZoneInfo

import msgspec

from channelstats.stats.values import Change, Json

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
    edges: dict[str, Numbers]
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


class Compared(msgspec.Struct, frozen=True):
    statistics: dict[str, Change]
    user_weekday: dict[str, Volume]
    channels: dict[str, ComparedChannel]
    users: dict[str, ComparedUser]


class View(msgspec.Struct, frozen=True):
    start_date: str
    end_date: str
    days: int
    report_timezone: str
    generated_at: int
    statistics: dict[str, float | list[str]]
    users: dict[str, Pair]
    user_stats: dict[str, UserStats]
    enriched_user: dict[str, EnrichedUser]
    channels: dict[str, Pair]
    channel_stats: dict[str, ChannelStats]
    channel_user: dict[str, dict[str, Pair]]
    enriched_channel: dict[str, EnrichedChannel]
    user_weekday: dict[str, Pair]
    user_weekday_hour: dict[str, Pair]
    weekday_activity_percentage: dict[str, float]
    timezone: dict[str, Pair]
    posters_per_timezone: dict[str, Numbers]
    reaction: Numbers
    emoji_rate: dict[str, float]
    reaction_count: list[Entry]
    reply_count: list[Entry]
    new_statistics: NewStatistics
    compared: Compared

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
    return msgspec.convert(document, View)


def as_mapping(value: object) -> Mapping[str, Json]:
    """A part of a document that is known to be one."""
    assert isinstance(value, Mapping)
    return cast("Mapping[str, Json]", value)
