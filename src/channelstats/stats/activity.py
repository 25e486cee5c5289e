"""When things are said: by weekday and hour, of the clock in Greenwich and of the authors' own.

Rule: hours of the authors' own clocks are those of their Monday to Friday; every author weighs the
same in the mean of shares.
"""

from collections.abc import Mapping
from math import fsum
from typing import Final

import polars as pl

from channelstats.stats.quantities import WORDS_THEN_MESSAGES, ranked, volume
from channelstats.stats.shapes import Pair, nested_pairs, pairs
from channelstats.stats.talk import Said
from channelstats.stats.values import Json
from channelstats.stats.zones import hour, weekday

HOURS: Final = range(24)
PERIODS: Final = {"0": range(8), "1": range(8, 16), "2": range(16, 24)}
"""Thirds of a day."""

WORKDAY: Final = pl.col("local_weekday") < 5


def utc(said: Said) -> dict[str, Mapping[str, Pair]]:
    """`weekday` and `hour` of everything, by UTC."""
    seconds = pl.col("ts") // 1_000_000
    timed = said.messages.with_columns(weekday=weekday(seconds), hour=hour(seconds))
    return {name: pairs(volume(timed, name).sort(name), name) for name in ("weekday", "hour")}


def local(said: Said) -> dict[str, Mapping[str, Pair]]:
    """`user_weekday`, and `user_weekday_hour` of their Monday to Friday."""
    return {
        "user_weekday": pairs(
            volume(said.messages, "local_weekday").sort("local_weekday"), "local_weekday"
        ),
        "user_weekday_hour": pairs(
            volume(said.messages.filter(WORKDAY), "local_hour").sort("local_hour"), "local_hour"
        ),
    }


def posting(said: Said, whose: str) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
    """`posting_days` and `posting_hours` for each value of a column."""
    days = volume(said.messages, whose, "local_weekday").sort(whose, "local_weekday")
    hours = volume(said.messages.filter(WORKDAY), whose, "local_hour").sort(whose, "local_hour")
    return nested_pairs(days, whose, "local_weekday"), nested_pairs(hours, whose, "local_hour")


def shares(said: Said) -> dict[str, float]:
    """The percentage of an author's workday messages in each hour, as the mean over the authors."""
    messages = said.messages.filter(WORKDAY)
    each = messages.group_by("slack_uid", "local_hour").agg(n=pl.len())
    share = pl.col("n") / pl.col("n").sum().over("slack_uid")
    by_hour: dict[int, list[float]] = {hour: [] for hour in HOURS}
    for at, part in each.select("local_hour", share).sort("local_hour", "n").iter_rows():
        by_hour[at].append(part)
    authors = messages["slack_uid"].n_unique()
    return {
        str(at): 100 * fsum(found) / authors if authors else 0.0 for at, found in by_hour.items()
    }


def shares_of_periods(by_hour: Mapping[str, float]) -> dict[str, float]:
    """Sums of the shares over thirds of the day."""
    return {name: fsum(by_hour[str(at)] for at in hours) for name, hours in PERIODS.items()}


def timezones(said: Said) -> dict[str, Mapping[str, Json]]:
    """`timezone`, the largest first, and `posters_per_timezone`."""
    sizes = pairs(ranked(volume(said.messages, "tz"), WORDS_THEN_MESSAGES, "tz"), "tz")
    people = said.messages.select("tz", "slack_uid").drop_nulls().unique().sort("slack_uid")
    posters: dict[str, dict[str, int]] = {tz: {} for tz in sizes}
    for tz, uid in people.iter_rows():
        posters[tz][uid] = 1
    return {"timezone": sizes, "posters_per_timezone": posters}
