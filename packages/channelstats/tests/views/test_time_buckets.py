"""Points of time: they make up the period, and what is in them makes up the whole."""

from datetime import date, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from channelstats.stats import Period
from channelstats.views.time_buckets import (
    MOST_DAYS,
    axis,
    by_point,
    labels,
    points,
    weeks,
    with_point,
)

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
    assert axis(shown) == ("Day" if period.days <= MOST_DAYS else "Week from")
    assert [week.days for week in weeks(period)[1:]] == [7] * (-(-period.days // 7) - 1)
    assert len(labels(shown)) <= MOST_DAYS


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
    assert sum(n or 0 for n in by_point(frame, shown, pl.len())) == with_point(frame, shown).height
