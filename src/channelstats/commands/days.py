"""The days of a report, as they are asked for: `--week`, `--from`, `--to`, `--days`."""

import argparse
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import msgspec

from channelstats.commands.call import Call, Failure
from channelstats.stats import Period
from channelstats.stats.period import WEEK, last_complete_week, week_of


class Days(msgspec.Struct, frozen=True):
    """The week of a date, or dates, or by default the last whole week. ``first_weekday``: Monday is
    0.
    """

    first_weekday: int
    week: date | None = None
    first: date | None = None
    last: date | None = None
    days: int | None = None

    def period(self, today: date, zone: ZoneInfo) -> Period:
        if self.first is not None and self.last is not None:
            if self.last < self.first:
                raise Failure(f"--to {self.last} is before --from {self.first}")
            return Period(self.first, (self.last - self.first).days + 1, zone)
        if self.first is not None:
            return Period(self.first, self.days or WEEK, zone)
        if self.last is not None:
            days = self.days or WEEK
            return Period(self.last - timedelta(days - 1), days, zone)
        if self.week is not None:
            return Period(week_of(self.week, self.first_weekday), WEEK, zone)
        if self.days is not None:  # those that end with yesterday
            return Period(today - timedelta(self.days), self.days, zone)
        return Period(last_complete_week(today, self.first_weekday), WEEK, zone)


def add_days(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--week", type=date.fromisoformat, metavar="DATE", help="week of a date")
    parser.add_argument("--from", dest="first", type=date.fromisoformat, metavar="DATE")
    parser.add_argument("--to", dest="last", type=date.fromisoformat, metavar="DATE")
    parser.add_argument("--days", type=_days, metavar="NUMBER")


def days_of(call: Call) -> Days:
    given = call.given
    if given.week and (given.first or given.last or given.days):
        call.wrong("--week is a whole week: give it without --from, --to and --days")
    if given.first and given.last and given.days:
        call.wrong("of --from, --to and --days two are enough")
    return Days(call.settings.first_weekday, given.week, given.first, given.last, given.days)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 3660):
        raise argparse.ArgumentTypeError("expected a number of days from 1 to 3660")
    return int(text)
