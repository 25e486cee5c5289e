"""Threads, first replies, unanswered questions, evenness, comings and goings (`new_statistics`).

Rule: what starts must lie in the period; what follows (a reply, a reaction) may come at any time.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Any, Final

import polars as pl

from channelstats.counting import BOT_MESSAGE, HUDDLE, HUDDLES
from channelstats.stats.measures import Measures
from channelstats.stats.period import MONTH, WEEK, Period, by_point, days_of
from channelstats.stats.quantities import percent, ratio, shown

STARTS_THREAD: Final = pl.col("reply_count") > 0

_ROOM: Final = pl.Struct(
    {"participant_history": pl.List(pl.String), "date_start": pl.Int64, "date_end": pl.Int64}
)


def conversation(now: Measures, then: Measures) -> dict[str, Any]:
    """Those of people's messages as numbers: who interacts with whom is not among them."""
    messages, period = now.messages, now.period
    replies, daily = how_many(messages, pl.col("is_reply")), daily_posters(now)
    posters, before = (set(of.messages["slack_uid"].unique()) for of in (now, then))
    first = dict(now.first_posts.select("slack_uid", "ts").iter_rows())
    return {
        "threads_started": how_many(messages, STARTS_THREAD),
        "thread_share": shown(ratio(replies, messages.height)),
        "first_reply": {"count": now.waits.height, "median": now.wait(50), "p90": now.wait(90)},
        "top_level": messages.height - replies,
        "unanswered": now.unanswered.height,
        "gini_of_words": shown(gini(now.volume.words_each)),
        "daily_posters": daily,
        "daily_posters_mean": shown(mean(daily.values())),
        "wau": now.posted(period.ending_with(WEEK)).len(),
        "mau": now.posted(period.ending_with(MONTH)).len(),
        "retention": comings(posters, before, first, period),
    }


def how_many(messages: pl.DataFrame | pl.LazyFrame, which: pl.Expr) -> int:
    return int(messages.lazy().select(which.sum()).collect().item())


def gini(values: Sequence[int]) -> Fraction:
    """How unevenly a sum is spread: 0 when everybody has the same."""
    n, total = len(values), sum(values)
    weighted = sum((2 * i - n - 1) * value for i, value in enumerate(sorted(values), 1))
    return ratio(weighted, n * total)


def daily_posters(of: Measures) -> dict[str, int]:
    """How many people posted on each date of the period."""
    found = by_point(of.messages, days_of(of.period), pl.col("slack_uid").n_unique())
    dates = (day.isoformat() for day in of.period.dates)
    return {day: int(posters or 0) for day, posters in zip(dates, found, strict=True)}


def mean(values: Collection[int]) -> Fraction:
    return ratio(sum(values), len(values))


def comers(
    now: AbstractSet[str], then: AbstractSet[str], first: Mapping[str, int], period: Period
) -> dict[str, AbstractSet[str]]:
    """Who stayed, came, went and came back: of the posters of a period and of the one before;
    ``first`` posts are in microseconds.
    """
    begin, end = period.begin * 1_000_000, period.end * 1_000_000
    return {
        "both": now & then,
        "new": {uid for uid in now if uid in first and begin <= first[uid] < end},
        "lapsed": then - now,
        "returning": {uid for uid in now - then if uid in first and first[uid] < begin},
    }


def comings(
    now: AbstractSet[str], then: AbstractSet[str], first: Mapping[str, int], period: Period
) -> dict[str, float | None]:
    """How many `comers` there are of each kind; ``rate`` is the percentage of those before who
    stayed.
    """
    numbers = {kind: len(who) for kind, who in comers(now, then, first, period).items()}
    return {"rate": shown(percent(numbers["both"], len(then))) if then else None, **numbers}


def huddles(of: Measures) -> dict[str, int]:
    """How many there were, of how many people, and for how long in all."""
    is_huddle = pl.col("subtype") == HUDDLE
    is_huddle |= pl.col("subtype").is_in(HUDDLES) & pl.col("room").is_not_null()
    kept = of.period_messages.source.kept(of.period).filter(is_huddle)
    told = kept.select("slack_cid", "subtype", "room").collect()
    room = told["room"].str.json_decode(_ROOM).struct.unnest()
    every = told.select("slack_cid", is_newer=pl.col("subtype") == HUDDLE).hstack(room)
    begun = pl.col("date_start").fill_null(0) > 0
    twice = every.filter(begun & "is_newer").select("slack_cid", "date_start")
    older = every.filter(~pl.col("is_newer")).join(twice, on=twice.columns, how="anti")
    found = pl.concat([every.filter("is_newer"), older])
    over = found.filter(begun & (pl.col("date_end") >= pl.col("date_start")))
    return {
        "count": found.height,
        "participants": found["participant_history"].explode().drop_nulls().n_unique(),
        "seconds": int((over["date_end"] - over["date_start"]).sum()),
    }


def bot_share(of: Measures) -> Fraction:
    """The part of bots' messages in all of bots and people."""
    source, subtype = of.period_messages.source, pl.col("subtype")
    talking = subtype.is_null() | subtype.is_in(sorted(source.counting.people_subtypes))
    by_bots = ((subtype == BOT_MESSAGE).fill_null(value=False)) | (pl.col("is_bot") & talking)
    bots = how_many(source.kept(of.period), by_bots)
    people = how_many(source.counted, of.period.covers() & ~by_bots)
    return ratio(bots, bots + people)
