"""Who stayed, came, went and came back; and what of a workspace no metric has: huddles, bots."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Final

import polars as pl

from channelstats.counting import BOT_MESSAGE, HUDDLE, HUDDLES
from channelstats.facts.facts import Slice
from channelstats.facts.periods import Period
from channelstats.metrics.quantities import percent, ratio, shown

_ROOM: Final = pl.Struct(
    {"participant_history": pl.List(pl.String), "date_start": pl.Int64, "date_end": pl.Int64}
)


def turnover(
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


def retention(
    now: AbstractSet[str], then: AbstractSet[str], first: Mapping[str, int], period: Period
) -> dict[str, float | None]:
    """How many `turnover` there are of each kind; ``rate`` is the percentage of those before who
    stayed.
    """
    numbers = {kind: len(who) for kind, who in turnover(now, then, first, period).items()}
    return {"rate": shown(percent(numbers["both"], len(then))) if then else None, **numbers}


def _kept(part: Slice) -> pl.LazyFrame:
    """Messages of a period that are not deleted, whether or not they count."""
    return part.facts.recorded.lazy().filter(part.period.covers() & ~pl.col("deleted"))


def huddles(part: Slice) -> dict[str, int]:
    """How many there were, of how many people, and for how long in all."""
    is_huddle = pl.col("subtype") == HUDDLE
    is_huddle |= pl.col("subtype").is_in(HUDDLES) & pl.col("room").is_not_null()
    told = _kept(part).filter(is_huddle).select("slack_cid", "subtype", "room").collect()
    room = told["room"].str.json_decode(_ROOM).struct.unnest()
    every = told.select("slack_cid", is_newer=pl.col("subtype") == HUDDLE).hstack(room)
    begun = pl.col("date_start").fill_null(0) > 0
    twice = every.filter(begun & "is_newer").select("slack_cid", "date_start")
    older = every.filter(~pl.col("is_newer")).join(twice, on=twice.columns, how="anti")
    once = pl.concat([every.filter("is_newer"), older])
    over = once.filter(begun & (pl.col("date_end") >= pl.col("date_start")))
    return {
        "count": once.height,
        "participants": once["participant_history"].explode().drop_nulls().n_unique(),
        "seconds": int((over["date_end"] - over["date_start"]).sum()),
    }


def bot_share(part: Slice) -> Fraction:
    """The part of bots' messages in all of bots and people."""
    subtype, people = pl.col("subtype"), part.facts.options.counting.people_subtypes
    talking = subtype.is_null() | subtype.is_in(sorted(people))
    by_bots = ((subtype == BOT_MESSAGE).fill_null(value=False)) | (pl.col("is_bot") & talking)
    bots = _kept(part).select(by_bots.sum()).collect().item()
    others = part.messages.select((~by_bots).sum()).item()
    return ratio(bots, bots + others)
