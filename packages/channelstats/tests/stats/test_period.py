"""The days of a report: weeks, midnights, the days before."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.stats.period import Period, last_complete_week, week_of

UTC = ZoneInfo("UTC")
DAYS = st.dates(date(2010, 1, 1), date(2035, 1, 1))


@pytest.mark.parametrize(
    ("today", "start"),
    [
        ("2024-03-09", "2024-02-25"),
        ("2024-03-10", "2024-03-03"),
        ("2024-03-11", "2024-03-03"),
        ("2024-03-16", "2024-03-03"),
        ("2024-03-17", "2024-03-10"),
    ],
)
def test_the_last_complete_week(today: str, start: str) -> None:
    assert last_complete_week(date.fromisoformat(today)) == date.fromisoformat(start)


@given(DAYS, st.integers(0, 6))
def test_a_week_begins_on_its_first_weekday_and_holds_its_day(day: date, first: int) -> None:
    start = week_of(day, first)
    assert start.weekday() == first
    assert start <= day < start + timedelta(7)
    assert last_complete_week(day, first) + timedelta(7) <= day


def test_a_period_knows_its_days() -> None:
    period = Period(date(2024, 3, 3), 7, UTC)
    assert period.last == date(2024, 3, 9)
    assert (period.begin, period.end) == (1709424000, 1710028800)
    assert len(period.dates) == 7
    assert period.previous == Period(date(2024, 2, 25), 7, UTC)
    assert period.ending_with(28) == Period(date(2024, 2, 11), 28, UTC)


def test_a_week_in_which_clocks_change_is_an_hour_shorter() -> None:
    period = Period(date(2024, 3, 10), 7, ZoneInfo("America/Los_Angeles"))
    assert period.end - period.begin == 7 * 86_400 - 3600


def test_its_first_instant_is_in_it_and_the_first_after_it_is_not() -> None:
    period = Period(date(2024, 3, 3), 7, UTC)
    begin, end = period.begin * 1_000_000, period.end * 1_000_000
    frame = pl.DataFrame({"ts": [begin - 1, begin, end - 1, end]})
    assert frame.select(period.covers()).to_series().to_list() == [False, True, True, False]


@given(DAYS, st.integers(1, 40), st.sampled_from(["UTC", "America/Havana", "Pacific/Apia"]))
def test_the_previous_period_ends_where_this_one_begins(day: date, days: int, zone: str) -> None:
    period = Period(day, days, ZoneInfo(zone))
    assert period.previous.end == period.begin


@pytest.mark.parametrize("days", [0, -1])
def test_a_period_has_a_day_at_least(days: int) -> None:
    with pytest.raises(ValueError, match="days: expected 1 or more"):
        Period(date(2024, 3, 3), days, UTC)
