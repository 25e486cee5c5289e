"""What a report needs, from the tables.

Rule: what is read is enough for the report (see `inputs`) and no more than its days ask for; a
message's own time decides, so two days more are read at each end, whatever zone rows are dated in.
"""

from typing import Final

import polars as pl

from channelstats.days import DAY
from channelstats.stats.inputs import Inputs, Options
from channelstats.stats.period import Period
from channelstats.stats.talk import IS_HEAD
from channelstats.tables.columns import joined, micros
from channelstats.tables.first_posts import FirstPost, derived
from channelstats.tables.store import Tables

_MONTH: Final = 28
"""Days that monthly posters are counted over."""

_MARGIN: Final = 2 * DAY
"""How far the dates of one instant may lie apart: zones reach from -12 to +14 hours."""


async def gather(tables: Tables, period: Period, options: Options) -> Inputs:
    """Read what the report of a period is made of."""
    users = await tables.users.all()
    first = min(period.previous.start, period.ending_with(_MONTH).start)
    days = (first - _MARGIN, period.last + _MARGIN)
    frames = [frame async for frame in tables.messages.of_days(*days)]
    read = joined(frames)
    later = [frame async for frame in tables.messages.of_keys(_later_replies(read, period))]
    bots = frozenset(user.slack_uid for user in users.values() if user.is_bot)
    return Inputs(
        messages=joined([read, *later]),
        users=users,
        channels=await tables.channels.all(),
        counts=await tables.configuration.history(),
        first_posts=await _first_posts(tables, options, bots),
    )


def _later_replies(read: pl.DataFrame, period: Period) -> list[str]:
    """The keys of replies to heads of the period that are not among the messages read."""
    replies = pl.concat_str("replies", "bot_replies", separator=",", ignore_nulls=True)
    found = (
        read.filter(period.covers() & IS_HEAD)
        .select("slack_cid", ts=replies.str.split(","))
        .explode("ts")
        .with_columns(text=pl.col("ts").str.extract(":([0-9.]+)$"))
        .with_columns(micros("text").alias("ts"))
        .drop_nulls()
        .join(read, on=("slack_cid", "ts"), how="anti")
    )
    return found.select(pl.format("{}_{}", "slack_cid", "text")).to_series().to_list()


async def _first_posts(
    tables: Tables, options: Options, bots: frozenset[str]
) -> dict[str, FirstPost]:
    """The table FirstPost where it was made by this way of counting, else what messages say."""
    if await tables.configuration.first_posts_counting() == options.counting.name:
        return await tables.first_posts.all()
    return await derived(tables.messages, options.counting.counted(bots))
