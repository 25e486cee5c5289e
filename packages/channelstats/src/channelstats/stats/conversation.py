"""Threads, first replies, unanswered questions, evenness, comings and goings (`new_statistics`).

Rule: what starts must lie in the period; what follows (a reply, a reaction) may come at any time.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import polars as pl

from channelstats.counting import BOT_MESSAGE, HUDDLE
from channelstats.days import midnight
from channelstats.stats.messages import CountedMessages, PeriodMessages
from channelstats.stats.period import Period
from channelstats.stats.quantities import percent, ratio, shown

STARTS_THREAD: Final = pl.col("reply_count") > 0

_ROOM: Final = pl.Struct(
    {"participant_history": pl.List(pl.String), "date_start": pl.Int64, "date_end": pl.Int64}
)


def conversation(
    period_messages: PeriodMessages, before: PeriodMessages, first_posts: pl.DataFrame
) -> dict[str, Any]:
    """Those of people's messages as numbers: who interacts with whom is not among them."""
    messages, period = period_messages.messages, period_messages.period
    replies = _how_many(messages, pl.col("is_reply"))
    daily = daily_posters(messages, period)
    return {
        "threads_started": _how_many(messages, STARTS_THREAD),
        "thread_share": shown(ratio(replies, messages.height)),
        "first_reply": first_reply(period_messages),
        "top_level": messages.height - replies,
        "unanswered": unanswered(period_messages).height,
        "gini_of_words": gini(
            messages.group_by("slack_uid").agg(pl.col("word_count").sum())["word_count"].to_list()
        ),
        "daily_posters": daily,
        "daily_posters_mean": shown(ratio(sum(daily.values()), len(daily))),
        "wau": posters(period_messages.source, period.ending_with(7)),
        "mau": posters(period_messages.source, period.ending_with(28)),
        "retention": retention(period_messages, before, first_posts),
    }


def _how_many(messages: pl.DataFrame, which: pl.Expr) -> int:
    return int(messages.select(which.sum()).item())


def waits(period_messages: PeriodMessages) -> pl.DataFrame:
    """Whole `seconds` that heads (`slack_cid`, `ts`) waited for a reply by somebody else."""
    return period_messages.answered.filter("is_head").select(
        "slack_cid", "ts", seconds=(pl.col("replied_at") - pl.col("ts")) // 1_000_000
    )


def first_reply(period_messages: PeriodMessages) -> dict[str, int | None]:
    """How many heads were answered, and how long they waited."""
    seconds = waits(period_messages)["seconds"].sort().to_list()
    return {
        "count": len(seconds),
        "median": nearest_rank(seconds, 50),
        "p90": nearest_rank(seconds, 90),
    }


def nearest_rank(rising: Sequence[int], percentile: int) -> int | None:
    """The smallest number that at least so many per cent are no larger than; None without any."""
    return rising[-(-percentile * len(rising) // 100) - 1] if rising else None


def unanswered(period_messages: PeriodMessages) -> pl.DataFrame:
    """Messages, not replies, that drew neither a reply nor a reaction by somebody else."""
    top = period_messages.messages.filter(~pl.col("is_reply"))
    reacted = period_messages.reactions.filter(pl.col("reactor") != pl.col("slack_uid"))
    key = ["slack_cid", "ts"]
    return top.join(period_messages.answered, on=key, how="anti").join(reacted, on=key, how="anti")


def gini(values: Sequence[int]) -> float:
    """How unevenly a sum is spread: 0 when everybody has the same."""
    n, total = len(values), sum(values)
    weighted = sum((2 * i - n - 1) * value for i, value in enumerate(sorted(values), 1))
    return float(shown(ratio(weighted, n * total)))


def daily_posters(messages: pl.DataFrame, period: Period) -> dict[str, int]:
    """How many people posted on each date of the period."""
    begins = [midnight(day, period.zone) * 1_000_000 for day in period.dates]
    days = pl.DataFrame({"begin": begins, "date": [day.isoformat() for day in period.dates]})
    found = dict(
        messages.select("ts", "slack_uid")
        .sort("ts")
        .join_asof(days, left_on="ts", right_on="begin")
        .group_by("date")
        .agg(pl.col("slack_uid").n_unique())
        .iter_rows()
    )
    return {day.isoformat(): found.get(day.isoformat(), 0) for day in period.dates}


def posters(counted_messages: CountedMessages, period: Period) -> int:
    """How many people posted in a period."""
    return (
        counted_messages.counted.select("ts", "slack_uid")
        .filter(period.covers())["slack_uid"]
        .n_unique()
    )


def retention(
    period_messages: PeriodMessages, before: PeriodMessages, first_posts: pl.DataFrame
) -> dict[str, float | None]:
    """Who stayed, came, came back and went."""
    now, then = (set(of.messages["slack_uid"].unique()) for of in (period_messages, before))
    first = dict(first_posts.select("slack_uid", "ts").iter_rows())
    found = comings(now, then, first, period_messages.period)
    rate = shown(percent(len(now & then), len(then))) if then else None
    return {"rate": rate, **found}


def comings(
    now: AbstractSet[str], then: AbstractSet[str], first: Mapping[str, int], period: Period
) -> dict[str, int]:
    """Posters of a period and of the one before; ``first`` posts are in microseconds."""
    begin, end = period.begin * 1_000_000, period.end * 1_000_000
    return {
        "both": len(now & then),
        "new": sum(uid in first and begin <= first[uid] < end for uid in now),
        "lapsed": len(then - now),
        "returning": sum(uid in first and first[uid] < begin for uid in now - then),
    }


def huddles(counted_messages: CountedMessages, period: Period) -> dict[str, int]:
    """How many there were, of how many people, and for how long in all."""
    rooms = counted_messages.kept(period).filter(pl.col("subtype") == HUDDLE)["room"]
    room = rooms.str.json_decode(_ROOM).struct.unnest()
    over = room.filter((pl.col("date_start") > 0) & (pl.col("date_end") > 0))
    return {
        "count": len(rooms),
        "participants": room["participant_history"].explode().drop_nulls().n_unique(),
        "seconds": int((over["date_end"] - over["date_start"]).sum()),
    }


def bot_share(counted_messages: CountedMessages, period: Period) -> float:
    """The part of bots' messages in all of bots and people."""
    subtype = pl.col("subtype")
    talking = subtype.is_null() | subtype.is_in(sorted(counted_messages.counting.people_subtypes))
    by_bots = ((subtype == BOT_MESSAGE).fill_null(value=False)) | (pl.col("is_bot") & talking)
    bots = _how_many(counted_messages.kept(period), by_bots)
    people = _how_many(counted_messages.counted, period.covers() & ~by_bots)
    return float(shown(ratio(bots, bots + people)))
