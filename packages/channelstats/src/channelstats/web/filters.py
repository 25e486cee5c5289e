"""The query of an address: which days, which channel, which person, and what some views ask beside.

Rule: nothing is guessed: what cannot be understood is refused by its name. Periods are whole weeks
that end with the last whole week that was read, or with the last day for a list of what is to be
done; what is before the first message is left out of them.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from difflib import get_close_matches
from typing import Final
from urllib.parse import urlencode

import msgspec

from channelstats.facts.periods import WEEK, Now
from channelstats.lookup import is_group_of_channels
from channelstats.pages.channel import MOST_COMPARED
from channelstats.pages.loading import MOST_DAYS
from channelstats.pages.messages import selection
from channelstats.pages.model import Choice
from channelstats.pages.newcomers import is_group

PRESETS: Final[Mapping[int, str]] = {1: "Last week", 4: "4 weeks", 12: "12 weeks", 52: "A year"}
USUAL: Final = 4
"""Weeks that are shown when none are asked for."""

NAMES: Final = ("from", "to", "weeks", "channel", "person", "against")
COMPARE: Final = "compare"
"""A channel to draw beside the chosen one; there may be several."""

ONLY: Final = "only"
"""A selection of messages, or a group of people, to list."""

_YEAR: Final = "year"
"""Compare with the same weeks a year before."""

_LONGEST_NAME: Final = 200
_YEARS: Final = range(2000, 2101)


class BadQuery(Exception):  # noqa: N818 - named for what happened
    """A query that means nothing; one line that names the parameter and what was expected."""


class Query(msgspec.Struct, frozen=True):
    """What is asked for: a ``choice``, first of names as they were typed, then of the IDs of
    those; ``group`` is what was typed for several channels. ``weeks`` is 0 for days that are no
    preset.
    """

    choice: Choice
    weeks: int
    group: str = ""

    @property
    def days(self) -> int:
        return (self.choice.last - self.choice.first).days + 1

    @property
    def is_shortened(self) -> bool:
        """Whether these are fewer weeks than were asked for, as messages are known of no more."""
        return self.days < self.weeks * WEEK

    def query(self, **changed: str | Sequence[str]) -> str:
        """The shortest query that asks for the same, or for the same with changes; with its `?`."""
        choice = self.choice
        span = {"from": choice.first.isoformat(), "to": choice.last.isoformat()}
        if self.weeks:
            span = {"weeks": str(self.weeks)}
        if "weeks" in changed:
            span = {}
        channel = self.group or choice.channel
        chosen = {"channel": channel, "person": choice.person, COMPARE: choice.compare}
        chosen["against"] = _YEAR if choice.against_year else ""
        fields = {**span, **chosen, ONLY: choice.only, **changed}
        if fields.get("weeks") == str(USUAL):
            del fields["weeks"]
        filled = {name: text for name, text in fields.items() if text}
        return f"?{urlencode(filled, doseq=True)}" if filled else ""


def asked(
    query: Sequence[tuple[str, str]],
    now: Now,
    also: Sequence[str] = (),
    *,
    to_newest: bool = False,
) -> Query:
    """Understand a query; ``also`` are further parameters, which somebody else reads. Weeks end
    with the last whole one; with ``to_newest`` with the last day that was read.

    :raises BadQuery: it means nothing
    """
    given: dict[str, str] = {}
    compare: list[str] = []
    known = (*NAMES, *also)
    for name, text in query:
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise BadQuery(f"{name[:_LONGEST_NAME]}: there is no such parameter{meant}")
        if name in given:
            raise BadQuery(f"{name}: expected once")
        if len(text) > _LONGEST_NAME:
            raise BadQuery(f"{name}: expected at most {_LONGEST_NAME} characters")
        if name == COMPARE:
            compare += [text.strip()] if text.strip() else []
        else:
            given[name] = text.strip()
    if len(compare) > MOST_COMPARED:
        raise BadQuery(f"{COMPARE}: expected at most {MOST_COMPARED} channels")
    first, last, weeks = _days(given, now, now.newest if to_newest else now.last)
    channel, person, only = (given.get(name, "") for name in ("channel", "person", ONLY))
    if selection(only) is None and not is_group(only):
        raise BadQuery(f"{ONLY}: expected a selection, like threads, reacted or monday-09-00")
    if (against := given.get("against", "")) not in ("", _YEAR):
        raise BadQuery(f"against: expected {_YEAR}, or nothing for the days just before")
    group = channel if is_group_of_channels(channel) else ""
    choice = Choice(
        first,
        last,
        "" if group else channel,
        person,
        tuple(compare),
        only,
        against_year=against == _YEAR,
    )
    return Query(choice, weeks, group)


def whole_number(name: str, text: str, most: int = 9_999_999) -> int:
    """:raises BadQuery: it is no number from 1 to ``most``"""
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 1 <= number <= most:
        raise BadQuery(f"{name}: expected a number from 1 to {most:,}")
    return number


def _days(given: Mapping[str, str], now: Now, newest: date) -> tuple[date, date, int]:
    """The first day, the last day, and how many weeks up to ``newest`` were asked for; 0 for other
    days.
    """
    weeks, begin, end = (given.get(name, "") for name in ("weeks", "from", "to"))
    if weeks and (begin or end):
        raise BadQuery("weeks: expected without from and to")
    if not (begin or end):
        number = whole_number("weeks", weeks, MOST_DAYS // WEEK) if weeks else USUAL
        asked_first = newest - timedelta(number * WEEK - 1)
        return max(asked_first, min(now.oldest_week, newest)), newest, number
    last = _date("to", end) if end else newest
    first = _date("from", begin) if begin else last - timedelta(USUAL * WEEK - 1)
    first = max(first, date(_YEARS[0], 1, 1))
    last = last if end else max(first, last)
    if last < first:
        raise BadQuery(f"to: expected {first} or later, not {last}")
    if (last - first).days >= MOST_DAYS:
        raise BadQuery(f"from: expected at most {MOST_DAYS} days up to {last}")
    # Days that a preset shows are that preset.
    number, rest = divmod((last - first).days + 1, WEEK)
    return first, last, number if last == newest and not rest else 0


def _date(name: str, text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise BadQuery(f"{name}: expected a date like 2024-03-17") from None
    if day.year not in _YEARS:
        raise BadQuery(f"{name}: expected a year from {_YEARS[0]} to {_YEARS[-1]}")
    return day
