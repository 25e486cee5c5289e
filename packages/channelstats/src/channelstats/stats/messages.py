"""Counted messages as columns, their local times, what is inside them (reactions, mentions,
answers), and those with the most reactions and replies.

Rule: who an author is and whether a message counts is decided here, once, for every figure.

Rule: a local time is what zoneinfo says of the instant of the message. Authors without a zone are
in no figure of local time.
"""

from bisect import bisect_right
from collections.abc import Mapping
from copy import copy
from datetime import datetime
from functools import cached_property
from typing import Final, Self, cast
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.counting import JOINED, LEFT, Counting, bot_expression
from channelstats.days import zone_of
from channelstats.stats.inputs import REPLIES, Options
from channelstats.stats.period import Period
from channelstats.tables.columns import ID, IS_HEAD, IS_REPLY, rows_where
from channelstats.tables.directory import User

REACTED: Final = "reaction_count"
_SKIN_TONE: Final = "::skin-tone-[0-9](?:-[0-9])?$"

REPLIED: Final = "reply_count"

TOP_MESSAGES: Final = 10
"""How many are listed of everybody, of a channel, of an author."""


class CountedMessages:
    """The messages given to a report. ``bots`` are the users known as such."""

    def __init__(
        self, messages: pl.DataFrame, users: Mapping[str, User], counting: Counting
    ) -> None:
        self.counting = counting
        self.bots = frozenset(user.slack_uid for user in users.values() if user.is_bot)
        self.messages = messages.select(
            pl.exclude(REPLIES),
            is_bot=bot_expression(self.bots),
            is_reply=IS_REPLY,
            counts=counting.counted(self.bots),
        )
        """All, deleted ones too."""
        self._everybodys = self

    @property
    def answers(self) -> pl.DataFrame:
        """Everybody's counted replies: `slack_cid`, `thread_ts`, `replier`, `replied_at`."""
        return self._everybodys._answers

    @cached_property
    def counted(self) -> pl.DataFrame:
        """Counted messages, of whatever time."""
        return rows_where(self.messages, pl.col("counts"))

    def kept(self, period: Period) -> pl.LazyFrame:
        """Messages of a period that are not deleted, whether or not they count."""
        return self.messages.lazy().filter(period.covers() & ~pl.col("deleted"))

    def joins_before(self, period: Period) -> pl.DataFrame:
        """Messages that people joined a channel before a period, as far as they were read."""
        joined = pl.col("subtype").is_in(JOINED) & (pl.col("ts") < period.begin * 1_000_000)
        return self.messages.lazy().filter(joined).select("slack_uid", "slack_cid", "ts").collect()

    def only(self, chosen: pl.Expr) -> Self:
        """Some of the messages. Answers to them stay everybody's."""
        some = copy(self)
        some.messages, some.counted = self.messages.filter(chosen), self.counted.filter(chosen)
        return some

    @cached_property
    def _answers(self) -> pl.DataFrame:
        columns = {"replier": "slack_uid", "replied_at": "ts"}
        found = self.counted.lazy().filter("is_reply")
        return found.select("slack_cid", "thread_ts", **columns).collect()


# ── local times ──────────────────────────────────────────────────────────────────────────────────

_STEP: Final = 5 * 86_400
"""Seconds between two looks at a clock: since 2000 it was nowhere changed twice within that."""

_AT_ONCE: Final = 500_000
"""Messages whose local times are taken together, and whose answers are looked for together: either
needs several times their memory.
"""

_ZONES: Final = pl.Schema({"slack_uid": ID, "tz": ID})


def offsets(zone: ZoneInfo, first: int, last: int) -> list[tuple[int, int]]:
    """Instants, and the seconds east of UTC from each of them on; all are epoch seconds."""
    before = _offset(zone, first)
    found = [(first, before)]
    for begin in range(first, last, _STEP):
        end = min(begin + _STEP, last)
        after = _offset(zone, end)
        if after != before:
            found.append((_change(zone, begin, end, before), after))
            before = after
    return found


def _change(zone: ZoneInfo, begin: int, end: int, before: int) -> int:
    """The first instant between these whose offset is not that of the first of them."""
    while end - begin > 1:
        middle = (begin + end) // 2
        if _offset(zone, middle) == before:
            begin = middle
        else:
            end = middle
    return end


def _offset(zone: ZoneInfo, seconds: int) -> int:
    offset = datetime.fromtimestamp(seconds, zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


class LocalTimes:
    """Adds local times to messages of the instants from ``first`` to ``last`` (seconds)."""

    def __init__(self, users: Mapping[str, User], options: Options, first: int, last: int) -> None:
        names = {uid: user.tz or options.default_timezone for uid, user in users.items()}
        zones = {name: zone_of(name) for name in sorted(set(names.values()) - {""})}
        clocks = {name: offsets(zone, first, last) for name, zone in zones.items() if zone}
        people = [(uid, name) for uid, name in names.items() if name in clocks]
        self.zones = pl.DataFrame(people, _ZONES, orient="row")
        """Everybody with a zone: `slack_uid`, `tz`."""
        codes = self.zones["slack_uid"].to_physical()
        highest = cast("int | None", codes.max())
        nobody = pl.Series([None], dtype=pl.Int32).new_from_index(0, (highest or 0) + 1)
        # The few instants at which any clock changes. From each of them on, what the clock of each
        # person shows, at the number that stands for the ID in every column of IDs: to look there
        # takes a tenth of the time of a join.
        self._instants = sorted({first, *(since for of in clocks.values() for since, _ in of)})
        self._offsets: list[pl.Series] = []
        for instant in self._instants:
            shown = {clock: _shown(of, instant) for clock, of in clocks.items()}
            east = [shown[clock] for _, clock in people]
            self._offsets.append(nobody.clone().scatter(codes, east))  # which changes it in place

    def added_to(self, messages: pl.DataFrame) -> pl.DataFrame:
        """Adds `local_weekday` (Monday 0) and `local_hour`; null for authors without a zone."""
        some = messages.select("slack_uid", "ts")
        parts = list(some.iter_slices(_AT_ONCE)) or [some]
        return messages.hstack(pl.concat(map(self._steps, parts)))

    def _steps(self, messages: pl.DataFrame) -> pl.DataFrame:
        at, who = messages["ts"] // 1_000_000, messages["slack_uid"].to_physical()
        first, last = (self._place(cast("int | None", end)) for end in (at.min(), at.max()))
        east = self._offsets[first].gather(who, null_on_oob=True)
        for number in range(first + 1, last + 1):  # of messages by time hardly ever more than one
            changed = self._offsets[number].gather(who, null_on_oob=True)
            east = changed.zip_with(at >= self._instants[number], east)
        # Whole hours in half the width take less time for what follows.
        hours = ((at + east) // 3600).cast(pl.Int32)
        return pl.select(
            local_weekday=weekday(pl.lit(hours)).cast(pl.Int8),
            local_hour=hour(pl.lit(hours)).cast(pl.Int8),
        )

    def _place(self, seconds: int | None) -> int:
        """The number of the last change up to then."""
        return max(bisect_right(self._instants, seconds or 0) - 1, 0)


def _shown(clock: list[tuple[int, int]], instant: int) -> int:
    """The seconds east of UTC that a clock shows, see `offsets`."""
    return max(change for change in clock if change[0] <= instant)[1]


def weekday(hours: pl.Expr) -> pl.Expr:
    """The weekday of whole hours since the epoch. Monday is 0; 1 January 1970 was a 3."""
    return (hours // 24 + 3) % 7


def hour(hours: pl.Expr) -> pl.Expr:
    return hours % 24


# ── of one period ────────────────────────────────────────────────────────────────────────────────


class PeriodMessages:
    """Counted messages of one period, and what is inside them."""

    def __init__(
        self, source: CountedMessages, period: Period, local: LocalTimes, *, merge_skin_tones: bool
    ) -> None:
        self.source = source
        """What these are chosen from, of whatever time."""
        self.period = period
        self._merge_skin_tones = merge_skin_tones
        self._local = local
        self.zones = local.zones
        self.messages = rows_where(source.counted, period.covers())
        """Counted messages of the period."""

    @cached_property
    def with_local_times(self) -> pl.DataFrame:
        """The same, see `LocalTimes.added_to`."""
        return self._local.added_to(self.messages)

    @cached_property
    def moves(self) -> pl.DataFrame:
        """What tells that people joined or left a channel, which no counted message is."""
        kept = self.source.kept(self.period)
        return kept.filter(pl.col("subtype").is_in(JOINED | LEFT) & ~pl.col("is_bot")).collect()

    @cached_property
    def reactions(self) -> pl.DataFrame:
        """One row for each emoji, or each merged one, of each listed person: the number of the
        `row` in `messages`, `slack_cid`, `slack_uid` (the author of the message), `emoji`,
        `reactor`.
        """
        found = (
            self.messages.lazy()
            .select("slack_cid", "slack_uid", "reactions")
            .with_row_index("row")
            .drop_nulls("reactions")
            .explode("reactions")
            .unnest("reactions")
        )
        if self._merge_skin_tones:
            base = pl.col("emoji").cast(pl.String).str.replace(_SKIN_TONE, "").cast(ID)
            found = found.with_columns(base).unique(maintain_order=True)
        return found.collect()

    @cached_property
    def mentions(self) -> pl.DataFrame:
        """One row for each mention: `slack_uid` (the author), `mentioned`."""
        mentioning = self.messages.select("slack_uid", mentioned="mentions").drop_nulls()
        return mentioning.explode("mentioned")

    @cached_property
    def responses(self) -> pl.DataFrame:
        """One row for each message in another's thread: `slack_uid`, `parent`."""
        return (
            self.messages.select("slack_uid", parent="parent_user_id")
            .drop_nulls()
            .filter(pl.col("parent") != pl.col("slack_uid"))
        )

    @cached_property
    def answered(self) -> pl.DataFrame:
        """Messages, not replies, that somebody else replied to: the number of the `row` in
        `messages`, `slack_cid`, `ts`, whether it `is_head`, and the time of the first such reply,
        `replied_at`.
        """
        some = self.messages.select("slack_cid", "ts", "slack_uid", "is_reply", is_head=IS_HEAD)
        some = some.with_row_index("row")
        parts = list(some.iter_slices(_AT_ONCE)) or [some]
        return pl.concat(map(self._answered, parts))

    def _answered(self, some: pl.DataFrame) -> pl.DataFrame:
        answers = self.source.answers.lazy().rename({"slack_cid": "in_channel", "thread_ts": "ts"})
        in_time = pl.col("ts").is_between(some["ts"].min(), some["ts"].max())
        return (
            some.lazy()
            .filter(~pl.col("is_reply"))
            # Hardly two messages are of one time, so this takes less than by both.
            .join(answers.filter(in_time), on="ts")
            .filter(pl.col("in_channel") == pl.col("slack_cid"))
            .filter(pl.col("replier") != pl.col("slack_uid"))
            .group_by("row")
            .agg(pl.col("slack_cid", "ts", "is_head").first(), pl.col("replied_at").min())
            .collect()
        )


def top_messages(period_messages: PeriodMessages, count: str) -> pl.DataFrame:
    """All with any, ranked: `count`, `ts`, `slack_cid`, `slack_uid`, `thread_ts`."""
    messages = period_messages.messages.select(
        pl.col(count).cast(pl.Int64).alias("count"), "ts", "slack_cid", "slack_uid", "thread_ts"
    )
    return messages.filter(pl.col("count") > 0).sort(-pl.col("count"), "ts", "slack_cid")
