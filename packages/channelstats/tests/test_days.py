"""Dates and midnights, also where a day has no midnight, or two."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.days import DAY, Calendar, date_at, midnight, minute_text, period_text, zone_of

ZONES = ("UTC", "America/Los_Angeles", "America/Havana", "America/Sao_Paulo", "Pacific/Apia")
SECONDS = st.integers(946_684_800, 1_893_456_000)


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "America", "a" * 999]
)
def test_a_zone_that_does_not_exist_is_none(name: str) -> None:
    assert zone_of(name) is None


def test_a_day_of_a_clock_change_is_shorter_or_longer() -> None:
    zone = ZoneInfo("America/Los_Angeles")
    lengths = [
        midnight(day + DAY, zone) - midnight(day, zone)
        for day in (date(2024, 3, 9), date(2024, 3, 10), date(2024, 11, 3))
    ]
    assert [length // 3600 for length in lengths] == [24, 23, 25]


@pytest.mark.parametrize(
    ("zone", "day"),
    [("America/Sao_Paulo", date(2018, 11, 4)), ("America/Havana", date(2023, 11, 5))],
)
def test_where_midnight_is_missing_or_comes_twice_the_day_begins_with_its_first_instant(
    zone: str, day: date
) -> None:
    begin = midnight(day, ZoneInfo(zone))
    assert date_at(begin, ZoneInfo(zone)) == day
    assert date_at(begin - 1, ZoneInfo(zone)) == day - DAY


@given(st.sampled_from(ZONES), SECONDS)
def test_every_instant_lies_between_the_midnights_of_its_date(name: str, seconds: int) -> None:
    zone = ZoneInfo(name)
    day = date_at(seconds, zone)
    assert midnight(day, zone) <= seconds < midnight(day + DAY, zone)


@given(st.sampled_from(ZONES), st.lists(SECONDS, min_size=1))
def test_a_calendar_remembers_nothing_wrong(name: str, instants: list[int]) -> None:
    zone = ZoneInfo(name)
    calendar = Calendar(zone)
    for seconds in instants:
        expected = datetime.fromtimestamp(seconds, UTC).astimezone(zone).date().isoformat()
        assert calendar.date(seconds) == expected


def test_periods_in_words() -> None:
    day = date(2024, 3, 10)
    assert period_text(day, day) == "Sunday 10 March 2024"
    assert period_text(day, day + DAY) == "Sunday 10 March 2024 to Monday 11 March 2024"


def test_times_in_words_are_those_of_the_zone() -> None:
    assert minute_text(1710028800, ZoneInfo("UTC")) == "2024-03-10 00:00"
    assert minute_text(1710028800, ZoneInfo("America/Los_Angeles")) == "2024-03-09 16:00"
