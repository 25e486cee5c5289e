"""Dates and midnights in a time zone.

Rule: a day is what lies between two midnights of its zone, however many hours that is.
"""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SUNDAY = 6
"""Monday is 0."""

_WEEK = 7


def zone_of(name: str) -> ZoneInfo | None:
    """The time zone of that name; None for one that zoneinfo does not know."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):  # unknown; not a path; a folder or too long
        return None


def midnight(day: date, zone: ZoneInfo) -> int:
    """Seconds since the epoch at which a day begins.

    Where the clock jumps over midnight it begins at the jump; where midnight comes twice, at the
    first.
    """
    return int(datetime.combine(day, time(), zone).timestamp())


def date_at(seconds: int, zone: ZoneInfo) -> date:
    """The date of an instant."""
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone).date()


def day_text(day: date) -> str:
    """Sunday 10 March 2024."""
    return f"{day:%A} {day.day} {day:%B %Y}"


def period_text(first: date, last: date) -> str:
    """Sunday 10 March 2024 to Saturday 16 March 2024."""
    return day_text(first) if first == last else f"{day_text(first)} to {day_text(last)}"


def minute_text(seconds: int, zone: ZoneInfo) -> str:
    """2024-03-16 23:15."""
    return f"{datetime.fromtimestamp(seconds, UTC).astimezone(zone):%Y-%m-%d %H:%M}"


def week_of(day: date, first_weekday: int = SUNDAY) -> date:
    """The day on which the week of ``day`` began."""
    return day - (day.weekday() - first_weekday) % _WEEK * DAY


class Calendar:
    """Dates of many instants as `yyyy-mm-dd`; fast where they come in order."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self._text = ""
        self._begin = self._end = 0

    def date(self, seconds: int) -> str:
        if not self._begin <= seconds < self._end:
            day = date_at(seconds, self.zone)
            self._text = day.isoformat()
            self._begin, self._end = midnight(day, self.zone), midnight(day + DAY, self.zone)
        return self._text
