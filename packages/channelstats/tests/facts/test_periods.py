"""The days of a report: weeks, midnights, the days before; points, which make up a period."""

from datetime import date, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from channelstats.days import week_of
from channelstats.facts.periods import (
    MOST_SINGLE_DAYS,
    YEAR,
    Period,
    axis,
    labels,
    last_complete_week,
    points,
    weeks,
    with_point,
)

UTC = ZoneInfo("UTC")
DAYS = st.dates(date(2010, 1, 1), date(2035, 1, 1))


def test_a_period_is_compared_with_the_days_before_or_with_the_same_weekdays_a_year_before() -> (
    None
):
    week = Period(date(2024, 3, 10), 7, UTC)
    assert week.previous == Period(date(2024, 3, 3), 7, UTC)
    before = Period(date(2024, 3, 10), 7, UTC, back=YEAR).previous
    assert before == Period(date(2023, 3, 12), 7, UTC)
    assert before.start.weekday() == week.start.weekday()


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


# ── points ───────────────────────────────────────────────────────────────────────────────────────

PERIODS = st.builds(
    Period,
    st.dates(date(2023, 1, 1), date(2025, 1, 1)),
    st.integers(1, 400),
    st.sampled_from([ZoneInfo("UTC"), ZoneInfo("America/Havana"), ZoneInfo("Asia/Kolkata")]),
)


@given(PERIODS)
def test_points_follow_one_another_and_make_up_the_period(period: Period) -> None:
    for shown in (points(period), weeks(period)):
        assert shown[0].start == period.start
        assert shown[-1].last == period.last
        for one, other in pairwise(shown):
            assert other.start == one.last + timedelta(days=1)
            assert one.end == other.begin


@given(PERIODS)
def test_the_days_before_have_as_many_points(period: Period) -> None:
    shown, before = points(period), points(period.previous)
    assert [point.days for point in shown] == [point.days for point in before]


@given(PERIODS)
def test_long_periods_are_shown_by_weeks_of_which_the_first_may_be_short(period: Period) -> None:
    shown = points(period)
    assert axis(shown) == ("Day" if period.days <= MOST_SINGLE_DAYS else "Week from")
    assert [week.days for week in weeks(period)[1:]] == [7] * (-(-period.days // 7) - 1)
    assert len(labels(shown)) <= MOST_SINGLE_DAYS


@given(PERIODS, st.lists(st.integers(-100_000, 40_000_000)))
def test_every_instant_is_in_the_point_that_covers_it(period: Period, after: list[int]) -> None:
    edges = [point.begin for point in points(period)] + [period.end]
    seconds = [period.begin + number for number in after] + edges + [edge - 1 for edge in edges]
    frame = pl.DataFrame({"ts": [number * 1_000_000 for number in seconds]})
    shown = points(period)
    placed = dict(with_point(frame, shown).select("ts", "point").iter_rows())
    for ts in frame["ts"]:
        inside = [
            number
            for number, point in enumerate(shown)
            if point.begin * 1_000_000 <= ts < point.end * 1_000_000
        ]
        assert ([placed[ts]] if ts in placed else []) == inside
