"""Numbers, dates and times as words.

Rule: one way to write each of them, in every format.
"""

import unicodedata
from datetime import UTC, date, datetime
from typing import Final
from zoneinfo import ZoneInfo

from channelstats.identifiers import seconds
from channelstats.stats.values import Change

_TEENS: Final = (11, 12, 13)
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 11th, 21st, 111th."""
    ending = "th" if number % 100 in _TEENS else _ENDINGS.get(number % 10, "th")
    return f"{number:,}{ending}"


def plural(number: float, word: str) -> str:
    """message, messages; reply, replies; anything but 1 is many."""
    if number == 1:
        return word
    return f"{word[:-1]}ies" if word[-2:] == "ly" else f"{word}s"


def number_text(number: float, *, percentage: bool = False) -> str:
    """Whole numbers whole, others and percentages with one decimal."""
    if percentage:
        return f"{number:,.1f}%"
    return f"{number:,.0f}" if number == int(number) else f"{number:,.1f}"


def change_text(change: Change) -> str:
    """How it changed: `+60%`, `-4%`, `new`, `from 0`; nothing when it did not."""
    if change["state"] == "new":
        return "new"
    if change["state"] == "from_zero":
        return "from 0"
    if change["state"] in ("same", "not_compared"):
        return ""
    return f"{change['diff_pct'] or 0:+,.0f}%"


def points_text(difference: float) -> str:
    """The difference of two percentages, in points: `+3.2 points`."""
    return f"{difference:+,.1f} {plural(abs(round(difference, 1)), 'point')}"


def day_text(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


def period_text(start: str, end: str) -> str:
    """Sunday 10 March 2024 to Saturday 16 March 2024."""
    first, last = date.fromisoformat(start), date.fromisoformat(end)
    return day_text(first) if first == last else f"{day_text(first)} to {day_text(last)}"


def local(at: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(zone)


def minute_text(ts: str, zone: ZoneInfo) -> str:
    """When a message was written: 2024-03-16 23:15."""
    return f"{local(seconds(ts), zone):%Y-%m-%d %H:%M}"


def ago_text(at: int, now: int, zone: ZoneInfo) -> str:
    """A date and how long it is past: 2024-03-03, 18 days ago."""
    day = local(at, zone).date()
    days = (local(now, zone).date() - day).days
    return f"{day.isoformat()}, {days:,} {plural(days, 'day')} ago"


def hour_text(hour: int) -> str:
    """The hour from 9 on: 0900-0959."""
    return f"{hour:02d}00-{hour:02d}59"


def duration_text(of: int | None) -> str:
    """About how long so many seconds are: 45 s, 20 min, 3.5 h, 2.1 days."""
    if of is None:
        return "none"
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if of >= size:
            shown = number_text(round(of / size, 1))
            return f"{shown} {unit}" if (shown, unit) != ("1", "days") else "1 day"
    return f"{of} s"


def printable(name: str) -> str:
    """A name without characters that would steer a terminal or turn the text around."""
    if not name.isprintable():
        name = "".join(char for char in name if char.isprintable())
    return name.strip()


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
