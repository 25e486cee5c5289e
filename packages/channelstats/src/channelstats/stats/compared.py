"""A period against the one before (`compared`).

Rule: what had no entry before is new; what had one and nothing in it counts as 0.
"""

from collections.abc import Mapping

import msgspec
import polars as pl

from channelstats.stats import authors, channels
from channelstats.stats.compare import BEFORE, Change, before, change, changes
from channelstats.stats.interactions import GROUPS
from channelstats.stats.json_text import (
    Json,
    Part,
    joined,
    mapping,
    mappings,
    objects,
    together,
    with_texts,
)
from channelstats.stats.measures import Measures
from channelstats.stats.quantities import ColumnQuantity, Formula
from channelstats.stats.shapes import Pair


def compared(now: Measures, then: Measures, channel_frame: pl.DataFrame) -> dict[str, Part]:
    """All comparisons of a period with the one before; of channels those in ``channel_frame``."""
    return {
        "statistics": {
            name: change(figure, then.statistics[name]) for name, figure in now.statistics.items()
        },
        "user_weekday": _weekdays(now.activity.local_days(), then.activity.local_days()),
        "channels": _channels(now, then, channel_frame),
        "users": _users(now, then),
    }


def _weekdays(now: Mapping[str, Pair], before: Mapping[str, Pair]) -> dict[str, Json]:
    every = [str(day) for day in range(7)]
    return {day: _pair(now.get(day, [0, 0]), before.get(day, [0, 0])) for day in every}


def _pair(now: Pair, before: Pair | None) -> dict[str, Change]:
    messages, words = (None, None) if before is None else before
    return {"messages": change(now[0], messages), "words": change(now[1], words)}


def _channels(now: Measures, then: Measures, channel_frame: pl.DataFrame) -> msgspec.Raw:
    key = ["slack_cid", "slack_uid"]
    people = _beside(now.channel_authors, then.channel_authors, key)
    sizes = {"messages": Formula("m"), "words": Formula("w")}
    users = mappings(people, *key, users=objects(**_changes(sizes)))
    found = _beside(channel_frame, then.channel_frame, ["slack_cid"])
    text = joined(objects(**_changes(channels.COMPARED)), users=pl.col("users"))
    return mapping(with_texts(found, "slack_cid", users), "slack_cid", *text)


def _users(now: Measures, then: Measures) -> msgspec.Raw:
    found = _beside(now.with_people, then.with_people, ["slack_uid"])
    people = {
        name: together(total=_from_zero(f"{name}_total"), people=_from_zero(f"{name}_people"))
        for name in GROUPS
    }
    text = objects(**_changes(authors.COMPARED), people=together(**people))
    return mapping(found, "slack_uid", text)


def _beside(now: pl.DataFrame, then: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Each row of now with the row of the period before, if there was one."""
    then = then.with_columns(was=pl.lit(value=True))
    return now.join(then, on=key, how="left", suffix=BEFORE, maintain_order="left").with_columns(
        pl.col("was").fill_null(value=False)
    )


def _changes(formulas: Mapping[str, Formula]) -> dict[str, pl.Expr]:
    return {
        name: changes(formula.column(), formula.column(before), pl.col("was"))
        for name, formula in formulas.items()
    }


def _from_zero(column: str) -> pl.Expr:
    """The change of a column, from zero for one without an entry before."""
    return changes(ColumnQuantity(pl.col(column)), ColumnQuantity(before(column).fill_null(0)))
