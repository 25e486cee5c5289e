"""What a report is made of, and how it is read from the tables.

Rule: more messages than a report needs change nothing in it; fewer would. It needs

    the messages of the period, of the one before, and of the 28 days that end with the period;
    replies to heads of the period, whenever they were written;
    every message, when first posts are not given.

A message's own time decides, so two days more are read at each end, whatever zone rows are dated
in.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.counting import Counting
from channelstats.days import DAY, date_at
from channelstats.stats.period import MONTH, History, Period
from channelstats.tables.columns import IS_HEAD, joined, micros
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import Channel, User
from channelstats.tables.exclusion import frame_without, resolve_channels, resolve_people
from channelstats.tables.first_posts import FirstPost, derived
from channelstats.tables.messages import Progress
from channelstats.tables.store import Tables

_T = TypeVar("_T")

_MARGIN: Final = 2 * DAY
"""How far the dates of one instant may lie apart: zones reach from -12 to +14 hours."""


@dataclass(frozen=True)
class Inputs:
    """``messages`` has the columns of `channelstats.tables.columns`; ``counts`` is by the day they
    were taken; ``first_posts``, if given, were made by the way of counting of the report.
    """

    messages: pl.DataFrame
    users: Mapping[str, User] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    counts: Mapping[date, Counts] = field(default_factory=dict)
    first_posts: Mapping[str, FirstPost] | None = None
    history: History = field(default_factory=History)
    mark: Callable[[str], str] | None = None

    @property
    def hides_times(self) -> bool:
        """Whether of a message no more than its day may be shown."""
        return self.mark is not None


@dataclass(frozen=True)
class Options:
    """How to count and what to merge. ``default_timezone`` is for authors without one, in the
    modern profile; without it they are left out of local times. Those who are excluded, by name or
    by ID, are in no figure.
    """

    counting: Counting = field(default_factory=Counting)
    default_timezone: str = ""
    merge_skin_tones: bool = False
    excluded_users: frozenset[str] = frozenset()
    excluded_channels: frozenset[str] = frozenset()


class TooManyMessages(Exception):  # noqa: N818 - named for what happened
    """More messages would have to be in memory at once than was allowed."""


@dataclass(frozen=True)
class ExcludedIds:
    """IDs of those who are in no figure."""

    people: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()

    def off(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns of messages without them."""
        return frame_without(frame, self.people, self.channels)


@dataclass(frozen=True)
class Known:
    """What is known beside messages, of everybody but those left out. Without ``first_posts`` every
    message has to be asked.
    """

    left_out: ExcludedIds
    users: Mapping[str, User]
    channels: Mapping[str, Channel]
    counts: Mapping[date, Counts]
    first_posts: Mapping[str, FirstPost] | None
    read_up_to: int
    """Seconds since the epoch; 0 when nothing was read yet."""


async def known(tables: Tables, options: Options) -> Known:
    """Read everything but messages."""
    configuration = tables.configuration
    users, channels = await tables.users.all(), await tables.channels.all()
    left_out = ExcludedIds(
        resolve_people(options.excluded_users, users),
        resolve_channels(options.excluded_channels, channels),
    )
    first_posts = None
    # Who first posted in a channel that is left out has another first post.
    if await configuration.first_posts_counting() == options.counting.name and not (
        left_out.channels
    ):
        first_posts = _without(await tables.first_posts.all(), left_out.people)
    return Known(
        left_out=left_out,
        users=_without(users, left_out.people),
        channels=_without(channels, left_out.channels),
        counts=await configuration.history(),
        first_posts=first_posts,
        read_up_to=await configuration.last_run(),
    )


def history_of(first_posts: Mapping[str, FirstPost], read_up_to: int, zone: ZoneInfo) -> History:
    """From the first of all first posts to the date up to which messages were read."""
    begin = min((post.ts for post in first_posts.values()), default=None)
    return History(
        None if begin is None else date_at(begin, zone),
        date_at(read_up_to, zone) if read_up_to else None,
    )


async def _bounded(frames: AsyncIterator[pl.DataFrame], most: int | None) -> list[pl.DataFrame]:
    found, messages = [], 0
    async for frame in frames:
        found.append(frame)
        messages += frame.height
        if most is not None and messages > most:
            raise TooManyMessages
    return found


def _without(found: Mapping[str, _T], left_out: frozenset[str]) -> Mapping[str, _T]:
    return {name: value for name, value in found.items() if name not in left_out}


def dates_of(period: Period, reach: Period | None = None) -> tuple[date, date]:
    """The first and the last date whose messages are read, but for late replies."""
    first = min(period.previous.start, period.ending_with(MONTH).start, (reach or period).start)
    return first - _MARGIN, period.last + _MARGIN


async def gather(
    tables: Tables,
    period: Period,
    options: Options,
    progress: Progress | None = None,
    *,
    reach: Period | None = None,
    refresh: bool = False,
    most: int | None = None,
) -> Inputs:
    """Read what the report of a period is made of; with ``refresh`` from the rows of messages,
    whatever is kept of them. ``progress`` is called with the dates read, and all.

    ``reach`` are days that end with the period: what was said in them is read too, and every reply
    to it.

    :raises TooManyMessages: there are more than ``most`` in these days
    """
    about = await known(tables, options)
    return await inputs(
        tables, about, period, options, progress, reach=reach, refresh=refresh, most=most
    )


async def inputs(
    tables: Tables,
    about: Known,
    period: Period,
    options: Options,
    progress: Progress | None = None,
    *,
    reach: Period | None = None,
    refresh: bool = False,
    most: int | None = None,
) -> Inputs:
    """What is known, with the messages; with ``refresh`` from their rows, whatever is kept of them.

    :raises TooManyMessages: there are more than ``most`` in these days
    """
    messages = tables.messages
    days = messages.of_days(*dates_of(period, reach), progress=progress, refresh=refresh)
    read = await asyncio.to_thread(joined, await _bounded(days, most))
    late = await asyncio.to_thread(_later_replies, read, reach or period)
    later = [frame async for frame in messages.of_keys(late)]
    first_posts = about.first_posts
    if first_posts is None:
        bots = frozenset(user.slack_uid for user in about.users.values() if user.is_bot)
        here = ~pl.col("slack_cid").is_in(sorted(about.left_out.channels))
        counted = options.counting.counted(bots) & here
        first_posts = _without(await derived(messages, counted), about.left_out.people)
    whole = await asyncio.to_thread(joined, [read, *later]) if later else read
    return Inputs(
        messages=await asyncio.to_thread(about.left_out.off, whole),
        users=about.users,
        channels=about.channels,
        counts=about.counts,
        first_posts=first_posts,
        history=history_of(first_posts, about.read_up_to, period.zone),
    )


def _later_replies(read: pl.DataFrame, followed: Period) -> list[str]:
    """The keys of replies to heads of these days that are not among the messages read."""
    replies = pl.concat_str("replies", "bot_replies", separator=",", ignore_nulls=True)
    found = (
        read.filter(followed.covers() & IS_HEAD)
        .select("slack_cid", ts=replies.str.split(","))
        .explode("ts")
        .with_columns(text=pl.col("ts").str.extract(":([0-9.]+)$"))
        .with_columns(micros("text").alias("ts"))
        .drop_nulls()
        .join(read, on=("slack_cid", "ts"), how="anti")
    )
    return found.select(pl.format("{}_{}", "slack_cid", "text")).to_series().to_list()
