"""What a report is made of, and how it is read from the tables.

Rule: more messages than a report needs change nothing in it; fewer would. It needs

    the messages of the period, of the one before, and of the 28 days that end with the period;
    replies to heads of the period, whenever they were written;
    every message, when first posts are not given.

A message's own time decides, so two days more are read at each end, whatever zone rows are dated
in.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from datetime import date
from typing import Final, TypeVar
from zoneinfo import ZoneInfo

import polars as pl
from msgspec.structs import replace

from channelstats.counting import Counting
from channelstats.days import DAY, date_at, midnight
from channelstats.facts.periods import MONTH, WEEK, History, Period
from channelstats.tables.columns import IS_HEAD, MESSAGES, joined, narrowed, timestamps
from channelstats.tables.configuration import Counts
from channelstats.tables.directory import Channel, FirstPost, User, bots_of
from channelstats.tables.exclusion import frame_without, resolve_channels, resolve_people
from channelstats.tables.first_posts import derived
from channelstats.tables.messages import Progress
from channelstats.tables.store import Tables

_T = TypeVar("_T")

REPLIES: Final = ("replies",)
"""Columns that tell which replies to read, and that no figure is made from."""

LARGE: Final = 2_000_000
"""More messages than this take so much memory that they should not be read beside others as many.
"""

_MARGIN: Final = 2 * DAY
_AFTER: Final = WEEK * DAY + _MARGIN
"""How far the dates of one instant may lie apart: zones reach from -12 to +14 hours."""


@dataclass(frozen=True)
class Inputs:
    """``messages`` has the columns of `channelstats.tables.columns` but `REPLIES`; ``counts`` is by
    the day they were taken; ``first_posts``, if given, were made by the way of counting of the
    report.
    """

    messages: pl.DataFrame
    users: Mapping[str, User] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    counts: Mapping[date, Counts] = field(default_factory=dict)
    first_posts: Mapping[str, FirstPost] | None = None
    history: History = field(default_factory=History)


@dataclass(frozen=True)
class Options:
    """How to count and what to merge. ``default_timezone`` is for authors without one;
    without it they are in no local time. Those who are excluded, by name or
    by ID, are in no figure. ``merge_skin_tones``: None for on pages of the dashboard alone.
    ``team``: whose figures stand apart from those of others, by name or by ID.
    """

    counting: Counting = field(default_factory=Counting)
    default_timezone: str = ""
    merge_skin_tones: bool | None = None
    excluded_users: frozenset[str] = frozenset()
    excluded_channels: frozenset[str] = frozenset()
    team: frozenset[str] = frozenset()


class TooManyMessages(Exception):  # noqa: N818 - named for what happened
    """More messages would have to be in memory at once than was allowed."""


@dataclass(frozen=True)
class ReportContext:
    """What is known beside messages, of everybody but the people and channels excluded, which are
    in no figure.
    """

    excluded_people: frozenset[str]
    excluded_channels: frozenset[str]
    users: Mapping[str, User]
    channels: Mapping[str, Channel]
    counts: Mapping[date, Counts]
    first_posts: Mapping[str, FirstPost] | None
    read_up_to: int
    """Seconds since the epoch; 0 when nothing was read yet."""


async def load_context(tables: Tables, options: Options) -> ReportContext:
    """Read everything but messages."""
    configuration = tables.configuration
    users, channels = await tables.users.all(), dict(await tables.channels.all())
    for cid in channels.keys() & await configuration.general():
        channels[cid] = replace(channels[cid], is_general=True)
    excluded_people = resolve_people(options.excluded_users, users)
    excluded_channels = resolve_channels(options.excluded_channels, channels)
    first_posts = None
    # Who first posted in a channel that is excluded has another first post.
    counting = await configuration.first_posts_counting()
    if counting == options.counting.name and not excluded_channels:
        first_posts = _without(await tables.first_posts.all(), excluded_people)
    return ReportContext(
        excluded_people=excluded_people,
        excluded_channels=excluded_channels,
        users=_without(users, excluded_people),
        channels=_without(channels, excluded_channels),
        counts=await configuration.history(),
        first_posts=first_posts,
        read_up_to=await configuration.last_run(),
    )


def history_of(first_posts: Mapping[str, FirstPost], read_up_to: int, zone: ZoneInfo) -> History:
    """From the first of all first posts to the instant up to which messages were read (0: not
    known).
    """
    begin = min((post.ts for post in first_posts.values()), default=None)
    first = None if begin is None else date_at(begin, zone)
    if not read_up_to:
        return History(first)
    day = date_at(read_up_to, zone)
    return History(first, day - DAY, day if read_up_to > midnight(day, zone) else None)


def _without(rows: Mapping[str, _T], excluded: frozenset[str]) -> Mapping[str, _T]:
    return {name: value for name, value in rows.items() if name not in excluded}


def dates_of(period: Period, reach: Period | None = None) -> tuple[date, date]:
    """The first and the last date whose messages are read, but for late replies. Beside a
    ``reach`` those after the period too, up to the end of a week that is not over.
    """
    first = min(period.previous.start, period.ending_with(MONTH).start, (reach or period).start)
    return first - _MARGIN, period.last + (_AFTER if reach else _MARGIN)


async def load_inputs(
    tables: Tables,
    period: Period,
    options: Options,
    progress: Progress | None = None,
    *,
    context: ReportContext | None = None,
    reach: Period | None = None,
    refresh: bool = False,
    most: int | None = None,
    channels: Collection[str] = (),
    unread: Collection[str] = (),
    alone: AbstractAsyncContextManager[None] | None = None,
) -> Inputs:
    """Read what the report of a period is made of, beside a ``context`` that was read before;
    with ``refresh`` from the rows of messages, whatever is kept of them. ``progress`` is called
    with the dates read, and all.

    ``reach`` are days that end with the period: their messages are read too, every reply to them,
    and what was written in the week since. With ``channels`` no message of another one is read;
    ``unread`` columns are not. What is `LARGE` is read within ``alone``.

    :raises TooManyMessages: there are more than ``most`` in these days
    """
    if context is None:
        context = await load_context(tables, options)
    messages, people = tables.messages, context.excluded_people
    followed = reach or period
    counted = options.counting.counted(bots_of(context.users))
    first, last = dates_of(period, reach)
    # Reading the lists of replies is a third of the cost: they are left out where no reply can be
    # later than the days that are read, nor by somebody who is excluded.
    with_replies = refresh or bool(people) or await messages.versions.may_follow(last)
    left_out = {*unread, *(() if with_replies else REPLIES)}
    wanted = [name for name in MESSAGES.names() if name not in left_out]
    held = Period(first + DAY, (last - first).days - 1, period.zone)
    parts = _Parts(
        counted, lambda frame: frame_without(frame, people, context.excluded_channels), most
    )
    late: list[str] = []
    only = pl.col("slack_cid").is_in(channels) if channels else None
    of_days = messages.of_days(first, last, wanted, progress=progress, refresh=refresh, only=only)
    async with AsyncExitStack() as stack:
        async for frame in of_days:
            if with_replies:
                late += await asyncio.to_thread(_later_replies, frame, followed, held)
            await asyncio.to_thread(parts.add, frame)
            if alone is not None and parts.number > LARGE:
                await stack.enter_async_context(alone)
                alone = None
        later = [frame.select(wanted) async for frame in messages.of_keys(late)]
        if later:
            await asyncio.to_thread(parts.add, joined(later))
        read = await asyncio.to_thread(parts.joined)
    first_posts = context.first_posts
    if first_posts is None:
        listed = ~pl.col("slack_cid").is_in(sorted(context.excluded_channels))
        first_posts = _without(await derived(messages, counted & listed), people)
    return Inputs(
        messages=read,
        users=context.users,
        channels=context.channels,
        counts=context.counts,
        first_posts=first_posts,
        history=history_of(first_posts, context.read_up_to, period.zone),
    )


class _Parts:
    """Messages that were read so far, without what is excluded: those that count apart from the
    others, so that a period of them is a part of a frame and not a copy.
    """

    def __init__(
        self,
        counted: pl.Expr,
        without: Callable[[pl.DataFrame], pl.DataFrame],
        most: int | None,
    ) -> None:
        self._counted, self._without, self._most = counted, without, most
        self.number = 0
        self._counting: list[pl.DataFrame] = []
        self._others: list[pl.DataFrame] = []

    def add(self, frame: pl.DataFrame) -> None:
        """:raises TooManyMessages: these are too many"""
        self.number += frame.height
        if self._most is not None and self.number > self._most:
            raise TooManyMessages
        frame = narrowed(self._without(frame).drop(REPLIES, strict=False))
        counts = frame.select(self._counted).to_series()
        self._counting.append(frame if counts.all() else frame.filter(counts))
        self._others.append(frame.filter(~counts))

    def joined(self) -> pl.DataFrame:
        """All of them: those that count by time, then the others by time."""
        some = [joined(frames) for frames in (self._counting, self._others) if frames]
        return pl.concat(some, how="vertical_relaxed") if some else joined(()).drop(REPLIES)


def _later_replies(read: pl.DataFrame, followed: Period, held: Period) -> list[str]:
    """The keys of replies to heads of the days ``followed`` that were written when messages were
    not read; those of the days ``held`` were.
    """
    later = (
        read.lazy()
        .filter(followed.covers() & IS_HEAD)
        .select("slack_cid", "replies")
        .drop_nulls("replies")
        .explode("replies")
        .select("slack_cid", ts=pl.col("replies").struct.field("replied_at"))
        .filter(~held.covers())
    )
    keys = later.select(pl.format("{}_{}", "slack_cid", timestamps("ts"))).collect()
    return keys.to_series().to_list()
