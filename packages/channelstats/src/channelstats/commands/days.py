"""The days of a report, as they are asked for: `--week`, `--from`, `--to`, `--days`."""

import argparse
from datetime import date, timedelta
from zoneinfo import ZoneInfo

import msgspec

from channelstats.commands.call import Call
from channelstats.stats import Period
from channelstats.stats.period import WEEK, last_complete_week, week_of

_FIRST, _LAST = date(2000, 1, 1), date(2099, 12, 31)
"""Nothing was said in Slack before."""


class Days(msgspec.Struct, frozen=True):
    """The week of a date, or dates, or by default the last whole week. ``first_weekday``: Monday is
    0.
    """

    first_weekday: int
    week: date | None = None
    first: date | None = None
    last: date | None = None
    days: int | None = None

    @property
    def is_usual(self) -> bool:
        """Whether no days were asked for."""
        return not (self.week or self.first or self.last or self.days)

    def period(self, today: date, zone: ZoneInfo) -> Period:
        if self.first is not None and self.last is not None:
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
    parser.add_argument(
        "--week", type=a_date, metavar="DATE", help="week of a date, else the last one"
    )
    parser.add_argument(
        "--from", dest="first", type=a_date, metavar="DATE", help="first day, in place of a week"
    )
    parser.add_argument(
        "--to", dest="last", type=a_date, metavar="DATE", help="last day, which belongs to it"
    )
    parser.add_argument(
        "--days", type=_days, metavar="NUMBER", help="how many days; alone: up to yesterday"
    )


def days_of(call: Call) -> Days:
    given = call.given
    if given.week and (given.first or given.last or given.days):
        call.wrong("--week is a whole week: give it without --from, --to and --days")
    if given.first and given.last and given.days:
        call.wrong("of --from, --to and --days two are enough")
    if given.first and given.last and given.last < given.first:
        call.wrong(f"--to {given.last} is before --from {given.first}")
    return Days(call.settings.first_weekday, given.week, given.first, given.last, given.days)


def a_date(text: str) -> date:
    """The date that an argument is."""
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.min
    if not _FIRST <= found <= _LAST:
        raise argparse.ArgumentTypeError(
            f"expected a date from {_FIRST} to {_LAST}, as in 2024-03-10"
        )
    return found


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 3660):
        raise argparse.ArgumentTypeError("expected a number of days from 1 to 3660")
    return int(text)
