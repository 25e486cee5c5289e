"""The days of a report.

Rule: a period is what lies between two midnights of the report's time zone; a message belongs to
the period its own time is in.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from channelstats.days import DAY, midnight

SUNDAY: Final = 6
"""Monday is 0."""

WEEK: Final = 7
MONTH: Final = 28
"""Days that monthly posters are counted over."""


@dataclass(frozen=True)
class Period:
    """``days`` consecutive dates from ``start`` on."""

    start: date
    days: int
    zone: ZoneInfo

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
        """As many days just before."""
        return Period(self.start - self.days * DAY, self.days, self.zone)

    def ending_with(self, days: int) -> "Period":
        """So many days that end with this period."""
        return Period(self.last - (days - 1) * DAY, days, self.zone)

    def covers(self) -> pl.Expr:
        """Whether the column `ts` is in it."""
        begin, end = self.begin * 1_000_000, self.end * 1_000_000
        return pl.col("ts").is_between(begin, end, closed="left")


@dataclass(frozen=True)
class History:
    """The dates that messages are known of, both included; None for a bound that is not known."""

    first: date | None = None
    last: date | None = None

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


def week_of(day: date, first_weekday: int = SUNDAY) -> date:
    """The day on which the week of ``day`` began."""
    return day - (day.weekday() - first_weekday) % WEEK * DAY
