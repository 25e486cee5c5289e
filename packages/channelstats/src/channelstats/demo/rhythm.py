"""When somebody writes: hours and weekdays of their own zone, in a workspace that grows.

Rule: a moment is drawn from habits in local time and only then turned into an instant, so night is
night wherever somebody lives. Instants are whole microseconds.
"""

import random
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import accumulate
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

SECOND: Final = 1_000_000
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR

_GROWTH: Final = 0.6
"""How much more is written on the last day than on the first."""

_CALM: Final = 0.12
"""How much days of one kind differ."""

_TRIES: Final = 4


class Habit(NamedTuple):
    """Weights of the days of a week, from Monday on, and of the hours of a day."""

    weekdays: tuple[float, ...]
    hours: tuple[float, ...]


def _hours(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split()))


HABITS: Final = (
    Habit(  # at an office
        (1.0, 1.1, 1.1, 1.0, 0.8, 0.06, 0.05),
        _hours("0 0 0 0 0 0 .5 2 6 10 11 10 6 8 10 10 9 6 3 2 2 1.5 1 .3"),
    ),
    Habit(  # early in the day
        (1.0, 1.0, 1.1, 1.0, 0.9, 0.15, 0.1),
        _hours("0 0 0 0 .2 2 5 8 10 9 8 7 5 6 5 4 3 2 1 1 .6 .4 .1 0"),
    ),
    Habit(  # after work
        (0.8, 0.8, 0.8, 0.8, 0.7, 0.9, 1.0),
        _hours("1.5 .4 .1 0 0 0 .2 .8 1.5 1.5 1.5 2 2.5 2 1.5 1.5 2 4 6 8 10 10 8 4"),
    ),
    Habit(  # all over the day, and late
        (1.0, 1.0, 1.0, 1.0, 1.0, 0.6, 0.6),
        _hours("3 2 1 .3 .1 0 0 .3 1 3 5 6 6 6 6 6 6 6 5 5 6 6 6 5"),
    ),
)
MACHINE: Final = len(HABITS)
"""The habit of machines: any time."""


class Rhythm:
    """The days of one workspace. ``begin`` and ``end`` are its first instant and the one after its
    last.
    """

    def __init__(self, last_day: date, days: int, rng: random.Random) -> None:
        self.days = days
        first = last_day - timedelta(days=days - 1)
        self._first = first
        self.begin = int(datetime.combine(first, time(), UTC).timestamp()) * SECOND
        self.end = self.begin + days * DAY
        moods = [rng.lognormvariate(0, _CALM) for _ in range(days)]
        growth = [(1 + _GROWTH * day / days) * mood for day, mood in enumerate(moods)]
        week = [(first + timedelta(days=day)).weekday() for day in range(days)]
        tables = [
            [weight * habit.weekdays[weekday] for weight, weekday in zip(growth, week, strict=True)]
            for habit in HABITS
        ]
        self._days = [_cumulated(table) for table in (*tables, [1.0] * days)]
        self._hours = [_cumulated(hours) for hours in (*(h.hours for h in HABITS), [1.0] * 24)]
        self._awake = [_awake(habit) for habit in HABITS]
        self._offsets: dict[str, list[int]] = {}

    def offsets(self, zone: str) -> list[int]:
        """Microseconds east of UTC on each day."""
        found = self._offsets.get(zone)
        if found is None:
            found = []
            noon = datetime.combine(self._first, time(12), ZoneInfo(zone))
            for day in range(self.days):
                offset = (noon + timedelta(days=day)).utcoffset() or timedelta()
                found.append(int(offset.total_seconds()) * SECOND)
            self._offsets[zone] = found
        return found

    def weight(self, habit: int, first: int, last: int) -> float:
        """How much of all that is written falls on these days, both included."""
        days = self._days[habit]
        return (days[last + 1] - days[first]) / days[-1]

    def moment(
        self, rng: random.Random, habit: int, offsets: Sequence[int], first: int, last: int
    ) -> int:
        """An instant at which somebody of this habit writes, on one of these local days."""
        days, hours, draw = self._days[habit], self._hours[habit], rng.random
        low, begin, end = days[first], self.begin, self.end
        room = days[last + 1] - low
        for _ in range(_TRIES):
            day = min(bisect_right(days, low + draw() * room) - 1, last)
            hour = min(bisect_right(hours, draw() * hours[-1]) - 1, 23)
            at = begin + day * DAY + hour * HOUR + int(draw() * HOUR) - offsets[day]
            if begin <= at < end:
                return at
        return begin + first * DAY + int(draw() * DAY * (last - first + 1))

    def is_awake(self, rng: random.Random, habit: int, offsets: Sequence[int], at: int) -> bool:
        """Whether somebody happens to look at Slack now."""
        local = at - self.begin + offsets[min((at - self.begin) // DAY, self.days - 1)]
        day, hour = divmod(local // HOUR, 24)
        weekday = (self._first.weekday() + day) % 7
        return rng.random() < self._awake[habit][weekday][hour]

    def next_morning(self, rng: random.Random, offsets: Sequence[int], at: int) -> int:
        """When somebody who was asleep may answer."""
        offset = offsets[min((at - self.begin) // DAY, self.days - 1)]
        local = at - self.begin + offset
        morning = local // DAY * DAY + int((8.5 + 2 * rng.random()) * HOUR)
        return self.begin - offset + (morning if morning > local else morning + DAY)


def _cumulated(weights: Sequence[float]) -> list[float]:
    return [0.0, *accumulate(weights)]


def _awake(habit: Habit) -> tuple[tuple[float, ...], ...]:
    """By weekday and hour, how likely somebody is there, 1 at most."""
    most = max(habit.hours) * max(habit.weekdays)
    return tuple(
        tuple(min(1.0, 1.6 * day * hour / most) for hour in habit.hours) for day in habit.weekdays
    )
