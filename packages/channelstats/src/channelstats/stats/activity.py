"""When messages are written: by weekday and hour, by UTC and by the clocks of their authors.

Rule: hours of the authors' own clocks are those of their Monday to Friday; every author weighs the
same in the mean of shares.
"""

from collections.abc import Mapping, Sequence, Sized
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
        self._period_messages = period_messages.with_local_times.select(
            "ts", "slack_uid", "slack_cid", "local_weekday", "local_hour", "word_count"
        )
        self._zones = period_messages.zones
        self._workdays = self._period_messages.lazy().filter(_WORKDAY)

    @cached_property
    def _days(self) -> pl.DataFrame:
        found = volume_by(self._period_messages, "slack_uid", "local_weekday")
        return found.join(self._zones, on="slack_uid")

    @cached_property
    def _hours(self) -> pl.DataFrame:
        return volume_by(self._workdays, "slack_uid", "local_hour")

    def utc(self) -> dict[str, Mapping[str, Pair]]:
        """`weekday` and `hour` of everything, by UTC."""
        hours = pl.col("ts") // 3_600_000_000
        timed = self._period_messages.select("word_count", weekday=weekday(hours), hour=hour(hours))
        both = volume_by(timed, "weekday", "hour")
        return {name: pairs_by(regrouped(both, name).sort(name)) for name in ("weekday", "hour")}

    def of_each(self, key: Key, step: Step) -> pl.DataFrame:
        """Messages `m` and words `w` of each author or channel by local step, the steps in their
        order; of hours those of the authors' own Monday to Friday.
        """
        if key == "slack_uid":
            found = self._days if step == "local_weekday" else self._hours
        else:
            every = self._period_messages.lazy()
            found = volume_by(every if step == "local_weekday" else self._workdays, key, step)
        return found.sort(step)

    @cached_property
    def weekdays(self) -> pl.DataFrame:
        """Messages `m` and words `w` of every local `weekday`, Monday is 0."""
        return _of_all("weekday", WEEKDAYS, regrouped(self._days, "local_weekday"))

    @cached_property
    def workday_hours(self) -> pl.DataFrame:
        """The same of every local `hour` of the authors' Monday to Friday; `share`: percentages of
        an author's messages, as the mean over the authors.
        """
        share = pl.col("m") / pl.col("m").sum().over("slack_uid")
        each = self._hours.select("slack_uid", "local_hour", share=share)
        by_hour = dict(each.group_by("local_hour").agg("share").iter_rows())
        authors = max(each["slack_uid"].n_unique(), 1)
        shares = [100 * fsum(by_hour.get(at, ())) / authors for at in HOURS]
        found = _of_all("hour", HOURS, regrouped(self._hours, "local_hour"))
        return found.with_columns(share=pl.Series(shares))

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


def _of_all(step: str, steps: Sized, volumes: pl.DataFrame) -> pl.DataFrame:
    """The volumes of all steps, by their number."""
    every = pl.DataFrame({step: range(len(steps))}, {step: pl.Int8})
    found = every.join(volumes, left_on=step, right_on=f"local_{step}", how="left")
    return found.sort(step).fill_null(0).cast({step: pl.Int64})


def pairs_by(volumes: pl.DataFrame) -> Mapping[str, Pair]:
    """The volumes that are not empty, by the first column."""
    rows = volumes.filter(pl.col("m") > 0).select(pl.first(), "m", "w").iter_rows()
    return {str(key): [m, w] for key, m, w in rows}


def shares_of_periods(shares: Sequence[float]) -> dict[str, float]:
    """Sums of the shares of hours over thirds of the day."""
    return {name: fsum(shares[at] for at in hours) for name, hours in PERIODS.items()}
