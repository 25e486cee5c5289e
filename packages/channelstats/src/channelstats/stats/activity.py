"""When messages are written: by weekday and hour, by UTC and by the clocks of their authors.

Rule: hours of the authors' own clocks are those of their Monday to Friday; every author weighs the
same in the mean of shares.
"""

from collections.abc import Mapping
from functools import cached_property
from math import fsum
from typing import Final, Literal, TypeAlias

import polars as pl

from channelstats.stats.messages import PeriodMessages, hour, weekday
from channelstats.stats.quantities import WORDS_THEN_MESSAGES, ranked, regrouped, volume_by

HOURS: Final = range(24)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PERIODS: Final = {"0": range(8), "1": range(8, 16), "2": range(16, 24)}
"""Thirds of a day."""

Key: TypeAlias = Literal["slack_uid", "slack_cid"]
Step: TypeAlias = Literal["local_weekday", "local_hour"]

Pair: TypeAlias = list[int]
"""Messages and words, in that order."""

_WORKDAY: Final = pl.col("local_weekday") < 5


class Activity:
    """When messages of one period were written."""

    def __init__(self, period_messages: PeriodMessages) -> None:
        self._period_messages = period_messages.messages.select(
            "ts", "slack_uid", "slack_cid", "tz", "local_weekday", "local_hour", "word_count"
        )
        self._workdays = self._period_messages.filter(_WORKDAY)

    @cached_property
    def _days(self) -> pl.DataFrame:
        return volume_by(self._period_messages, "slack_uid", "tz", "local_weekday")

    @cached_property
    def _hours(self) -> pl.DataFrame:
        return volume_by(self._workdays, "slack_uid", "local_hour")

    def utc(self) -> dict[str, Mapping[str, Pair]]:
        """`weekday` and `hour` of everything, by UTC."""
        seconds = pl.col("ts") // 1_000_000
        timed = self._period_messages.select(
            "word_count", weekday=weekday(seconds), hour=hour(seconds)
        )
        both = volume_by(timed, "weekday", "hour")
        return {name: _by(both, name) for name in ("weekday", "hour")}

    def local_days(self) -> Mapping[str, Pair]:
        """`user_weekday`."""
        return _by(self._days, "local_weekday")

    def local_hours(self) -> Mapping[str, Pair]:
        """`user_weekday_hour` of their Monday to Friday."""
        return _by(self._hours, "local_hour")

    def of_each(self, key: Key, step: Step) -> pl.DataFrame:
        """Messages `m` and words `w` of each author or channel by local step, the steps in their
        order; of hours those of the authors' own Monday to Friday.
        """
        if key == "slack_uid":
            found = self._days if step == "local_weekday" else self._hours
        else:
            messages = self._period_messages if step == "local_weekday" else self._workdays
            found = volume_by(messages, key, step)
        return found.sort(step)

    def shares(self) -> dict[str, float]:
        """Percentages of authors' workday messages in each hour, as the mean over the authors."""
        share = pl.col("m") / pl.col("m").sum().over("slack_uid")
        each = self._hours.select("slack_uid", "local_hour", share=share)
        by_hour = dict(each.group_by("local_hour").agg("share").iter_rows())
        authors = each["slack_uid"].n_unique()
        return {str(at): 100 * fsum(by_hour.get(at, ())) / max(authors, 1) for at in HOURS}

    @property
    def weekdays(self) -> pl.DataFrame:
        """Messages `m` and words `w` of every `weekday`, Monday is 0."""
        return _of_all(range(7), regrouped(self._days, "local_weekday"))

    @property
    def workday_hours(self) -> pl.DataFrame:
        """The same of every `hour` of their Monday to Friday, and its `share`."""
        shares = pl.Series(self.shares().values(), dtype=pl.Float64)
        return _of_all(HOURS, regrouped(self._hours, "local_hour")).with_columns(share=shares)

    @cached_property
    def zones(self) -> pl.DataFrame:
        """Messages `m`, words `w` and `posters` by time zone `tz`, the largest first."""
        people = self._days.group_by("tz").agg(posters=pl.col("slack_uid").n_unique())
        sizes = regrouped(self._days, "tz").join(people, on="tz")
        return ranked(sizes, WORDS_THEN_MESSAGES, "tz")

    @cached_property
    def zone_posters(self) -> pl.DataFrame:
        """Everybody who posted and has a time zone: `tz`, `slack_uid`, by ID."""
        return self._days.select("tz", "slack_uid").unique().sort("slack_uid")


def _of_all(steps: range, volumes: pl.DataFrame) -> pl.DataFrame:
    """The volumes of all steps, by their first column less its `local_`."""
    step = volumes.columns[0]
    every = pl.DataFrame({step: steps}, {step: pl.Int64})
    found = every.join(volumes, on=step, how="left", maintain_order="left").fill_null(0)
    return found.rename({step: step.removeprefix("local_")})


def _by(volumes: pl.DataFrame, name: str) -> Mapping[str, Pair]:
    rows = regrouped(volumes, name).sort(name).select(name, "m", "w").iter_rows()
    return {str(key): [m, w] for key, m, w in rows}


def hour_text(hour: int) -> str:
    """0900-0959."""
    return f"{hour:02d}00-{hour:02d}59"


def shares_of_periods(by_hour: Mapping[str, float]) -> dict[str, float]:
    """Sums of the shares over thirds of the day."""
    return {name: fsum(by_hour[str(at)] for at in hours) for name, hours in PERIODS.items()}
