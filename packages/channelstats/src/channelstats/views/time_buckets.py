"""The days or weeks that a figure is shown over.

Rule: weeks are counted back from the last day, so what is over is a shorter one at the beginning,
and the newest is never cut short. A period and the one before have as many points.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from channelstats.days import DAY
from channelstats.stats.period import WEEK, Period

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MOST_DAYS: Final = 92
"""Longer periods are shown by week."""


def hour_text(hour: int) -> str:
    """0900-0959."""
    return f"{hour:02d}00-{hour:02d}59"


def points(period: Period) -> list[Period]:
    """A point per day, or per week of a long period."""
    if period.days > MOST_DAYS:
        return weeks(period)
    return [Period(day, 1, period.zone) for day in period.dates]


def weeks(period: Period) -> list[Period]:
    """The period by seven days; the first may have fewer."""
    over = period.days % WEEK
    begins = range(over, period.days, WEEK)
    found = [Period(period.start + number * DAY, WEEK, period.zone) for number in begins]
    return [Period(period.start, over, period.zone), *found] if over else found


def axis(shown: Sequence[Period]) -> str:
    """What a point is."""
    return "Day" if all(point.days == 1 for point in shown) else "Week from"


def labels(shown: Sequence[Period]) -> tuple[str, ...]:
    return tuple(point.start.isoformat() for point in shown)


def with_point(frame: pl.DataFrame, shown: Sequence[Period]) -> pl.DataFrame:
    """The rows with `point`, the number of the one that `ts` is in; rows outside are left out.

    The points follow one another without a gap.
    """
    begins = pl.Series([point.begin * 1_000_000 for point in shown], dtype=pl.Int64)
    end = shown[-1].end * 1_000_000
    inside = frame.filter(pl.col("ts").is_between(begins[0], end, closed="left"))
    number = begins.search_sorted(inside["ts"], side="right").cast(pl.Int64) - 1
    return inside.with_columns(number.alias("point"))


def by_point(
    frame: pl.DataFrame, shown: Sequence[Period], figure: pl.Expr, absent: float | None = 0
) -> list[float | None]:
    """A figure of each point; ``absent`` where there are no rows."""
    found = dict(with_point(frame, shown).group_by("point").agg(figure.alias("n")).iter_rows())
    return [found.get(number, absent) for number in range(len(shown))]
