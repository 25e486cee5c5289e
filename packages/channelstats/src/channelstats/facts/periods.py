"""The days of a report or a view: which they are, and the points that figures are shown over.

Rule: a period is what lies between two midnights of the report's time zone; a message belongs to
the period its own time is in.

Rule: weeks are counted back from the last day, so what is over is a shorter one at the beginning,
and the newest is never cut short. A period and the one before have as many points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.days import DAY, SUNDAY, midnight, week_of
from channelstats.tables.columns import rows_where

WEEK: Final = 7
YEAR: Final = 52 * WEEK
"""A year before, weekdays are the same."""

MONTH: Final = 28
"""Days that monthly posters are counted over."""

MOST_SINGLE_DAYS: Final = 92
"""Longer periods are shown by week."""


@dataclass(frozen=True)
class Period:
    """``days`` consecutive dates from ``start`` on. They are compared with those so many days
    ``back``; with 0 with as many days just before.
    """

    start: date
    days: int
    zone: ZoneInfo
    back: int = 0

    def __post_init__(self) -> None:
        if self.days < 1:
            raise ValueError(f"days: expected 1 or more, not {self.days}")

    @property
    def last(self) -> date:
        """The last date, included."""
        return self.start + (self.days - 1) * DAY

    @property
    def dates(self) -> list[date]:
        return [self.start + number * DAY for number in range(self.days)]

    @property
    def begin(self) -> int:
        """Seconds since the epoch at which it begins."""
        return midnight(self.start, self.zone)

    @property
    def end(self) -> int:
        """Seconds since the epoch at which it is over: the midnight after its last date."""
        return midnight(self.last + DAY, self.zone)

    @property
    def previous(self) -> "Period":
        """As many days just before, or ``back``."""
        return Period(self.start - (self.back or self.days) * DAY, self.days, self.zone)

    def ending_with(self, days: int) -> "Period":
        """So many days that end with this period."""
        return Period(self.last - (days - 1) * DAY, days, self.zone)

    def covers(self) -> pl.Expr:
        """Whether the column `ts` is in it."""
        begin, end = self.begin * 1_000_000, self.end * 1_000_000
        return pl.col("ts").is_between(begin, end, closed="left")


@dataclass(frozen=True)
class History:
    """The dates that messages are known of, both included; None for a bound that is not known.
    ``last`` was read to its end; the date after it may have been read ``in_part``.
    """

    first: date | None = None
    last: date | None = None
    in_part: date | None = None

    @property
    def newest(self) -> date | None:
        """The last date of which anything was read."""
        return self.in_part or self.last

    def covers(self, period: Period) -> bool:
        """Whether messages of all of a period are known."""
        begins = self.first is None or self.first <= period.start
        return begins and (self.last is None or period.last <= self.last)

    def knows_newcomers(self, period: Period) -> bool:
        """Whether so much is known before that who posts for the first time is new."""
        return self.first is None or self.first + MONTH * DAY <= period.start


def last_complete_week(today: date, first_weekday: int = SUNDAY) -> date:
    """The day on which the last week began that is over by ``today``."""
    return week_of(today, first_weekday) - timedelta(WEEK)


@dataclass(frozen=True)
class Now:
    """What periods are counted from; Monday is 0."""

    today: date
    history: History
    first_weekday: int

    @property
    def last(self) -> date:
        """The last day of the last week that was read whole; where none was, of the week that was
        read last.
        """
        begin, read = last_complete_week(self.today, self.first_weekday), self.history.last
        if read is not None and read < begin + (WEEK - 1) * DAY:
            begin = last_complete_week(read + DAY, self.first_weekday)
            begin = max(begin, self.oldest_week)
        return begin + (WEEK - 1) * DAY

    @property
    def newest(self) -> date:
        """The last day that was read, in part perhaps."""
        return min(self.history.newest or self.last, self.today)

    @property
    def oldest_week(self) -> date:
        """The first day of the week that history begins in."""
        if self.history.first is None:
            return date.min
        return week_of(self.history.first, self.first_weekday)

    @property
    def is_behind(self) -> bool:
        """Whether the newest message is from before the last whole week."""
        return self.last < last_complete_week(self.today, self.first_weekday)


# ── points ───────────────────────────────────────────────────────────────────────────────────────


POINT: Final = pl.Int32()
"""Numbers of points: there is one for each message."""


def points(period: Period) -> list[Period]:
    """A point per day, or per week of a long period."""
    if period.days > MOST_SINGLE_DAYS:
        return weeks(period)
    return days_of(period)


def days_of(period: Period) -> list[Period]:
    return [Period(day, 1, period.zone) for day in period.dates]


def weeks(period: Period) -> list[Period]:
    """The period by seven days; the first may have fewer."""
    return blocks(period, WEEK)


def blocks(period: Period, days: int) -> list[Period]:
    """The period by so many days; the first may have fewer."""
    over = period.days % days
    begins = range(over, period.days, days)
    whole = [Period(period.start + number * DAY, days, period.zone) for number in begins]
    return [Period(period.start, over, period.zone), *whole] if over else whole


def axis(periods: Sequence[Period]) -> str:
    """What a point is."""
    return "Day" if all(point.days == 1 for point in periods) else "Week from"


def labels(periods: Sequence[Period]) -> tuple[str, ...]:
    return tuple(point.start.isoformat() for point in periods)


def with_point(frame: pl.DataFrame, periods: Sequence[Period]) -> pl.DataFrame:
    """The rows with `point`, the number of the one that `ts` is in; rows outside are left out.

    The points follow one another without a gap.
    """
    begins = pl.Series([point.begin * 1_000_000 for point in periods], dtype=pl.Int64)
    end = periods[-1].end * 1_000_000
    inside = rows_where(frame, pl.col("ts").is_between(begins[0], end, closed="left"))
    number = begins[1:].search_sorted(inside["ts"], side="right").cast(POINT)
    if inside["ts"].is_sorted():  # as that of messages is: points are grouped in half the time
        number = number.set_sorted()
    return inside.with_columns(number.alias("point"))
