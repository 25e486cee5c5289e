"""Who stayed, came, went and came back, in a period and week by week; how far those come who join;
and what of a workspace no metric has: huddles, bots.

Rule: somebody is new in the week of their first message anywhere. Weeks are whole ones, counted
back from the last day; fewer than seven days are seen as the week that ends with them.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Final

import polars as pl

from channelstats.counting import BOT_MESSAGE, HUDDLE, HUDDLES, JOINED
from channelstats.facts.facts import AUTHOR, Slice
from channelstats.facts.periods import MONTH, POINT, WEEK, Period, weeks, with_point
from channelstats.metrics.quantities import percent, percent_of, ratio, shown

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


# ── week by week ─────────────────────────────────────────────────────────────────────────────────

FOUR: Final = MONTH // WEEK

REGULAR: Final = 3
"""Different weeks that a regular wrote in, so far."""

STEPS: Final = ("joined", "posted", "answered", "regular")
"""From joining to writing regularly."""

_FROM_WEEK_BEFORE: Final = ("both", "returning", "lapsed", "rate")
"""What nobody can tell of a week without all messages of the one before it."""


def posted(part: Slice, periods: Sequence[Period]) -> pl.DataFrame:
    """Who posted in which of the periods: `point`, `slack_uid`."""
    messages = part.everything("messages").select("ts", AUTHOR)
    return with_point(messages, periods).select("point", AUTHOR).unique()


def turnover_by_week(part: Slice, shown: Sequence[Period]) -> pl.DataFrame:
    """Of each of these weeks how many posted in it, `weekly`, and in the four that end with it,
    `monthly`; how many posted in it and in the one before, `both`, for the first time, `new`, again
    after a week without, `returning`, and only in the one before, `lapsed`; the `rate` of those
    before who stayed. None where nothing tells.
    """
    every = weeks(shown[-1].ending_with((len(shown) + FOUR - 1) * WEEK))
    who = posted(part, every)
    point = pl.col("point")
    earlier = who.with_columns(point + 1)
    both = who.join(earlier, on=("point", AUTHOR), how="semi")
    after = who.join(earlier, on=("point", AUTHOR), how="anti")
    first = part.facts.first_posts.select(AUTHOR, first="ts")
    begins = pl.DataFrame(
        {"point": range(len(every)), "begin": [week.begin * 1_000_000 for week in every]},
        {"point": POINT, "begin": pl.Int64},
    )
    returning = after.join(begins, on="point").join(first, on=AUTHOR)
    four = pl.concat([who.with_columns(point + back) for back in range(FOUR)])
    counted = {
        "weekly": who,
        "monthly": four,
        "both": both,
        "returning": returning.filter(pl.col("first") < pl.col("begin")),
        "before": earlier,
    }
    rows = begins.select("point")
    for name, people in counted.items():
        number = pl.col(AUTHOR).n_unique().cast(pl.Int64).alias(name)
        sizes = people.group_by("point").agg(number)
        rows = rows.join(sizes, on="point", how="left")
    rate = percent_of("both", "before", optional=True).shown()
    rows = (
        rows.sort("point")
        .fill_null(0)
        .with_columns(lapsed=pl.col("before") - pl.col("both"), rate=rate)
    )
    rows = rows.tail(len(shown)).with_columns(pl.Series("new", _new(part, who, every, shown)))
    is_known = pl.Series([part.history.covers(week.previous) for week in shown])
    return rows.with_columns(
        pl.when(is_known).then(pl.col(name)).alias(name) for name in _FROM_WEEK_BEFORE
    )


def _new(
    part: Slice, who: pl.DataFrame, every: Sequence[Period], shown: Sequence[Period]
) -> pl.Series:
    """How many of the posters of each week shown are certainly new in it."""
    first = with_point(part.own_first_posts, every).select("point", AUTHOR)
    joined = pl.col(AUTHOR).is_in(sorted(part.facts.people.joined))
    new = who.join(first, on=("point", AUTHOR), how="semi")
    sizes = new.group_by("point").agg(all=pl.len(), joined=joined.sum())
    known = {at: (all_new, some) for at, all_new, some in sizes.iter_rows()}
    numbers: list[int | None] = []
    for at, week in enumerate(shown, len(every) - len(shown)):
        all_new, some = known.get(at, (0, 0))
        numbers.append(all_new if part.history.knows_newcomers(week) else some or None)
    return pl.Series(numbers, dtype=pl.Int64)


def staying(part: Slice, periods: Sequence[Period]) -> pl.DataFrame:
    """Who `began` in which of the periods, and how many of them `since` then they posted."""
    began = with_point(part.own_first_posts, periods).select(AUTHOR, began="point")
    since = pl.col("point") - pl.col("began")
    return began.join(posted(part, periods), on=AUTHOR).with_columns(since=since)


def joined(there: Slice, months: Sequence[Period]) -> pl.DataFrame:
    """Who joined in which month of a slice, the `point`, and whether they reached each of
    the later `STEPS`. Who joins is new if they had not joined a channel nor posted before; what
    they did since counts whenever it was.
    """
    first = there.facts.first_posts.select(AUTHOR, first="ts")
    people = (
        there.table("moves")
        .filter(pl.col("subtype").is_in(JOINED))
        .join(there.joins_before(), on=AUTHOR, how="anti")
        .group_by(AUTHOR)
        .agg(pl.col("ts").min())
        .join(first, on=AUTHOR, how="left")
        .filter(pl.col("first").is_null() | (pl.col("first") >= pl.col("ts")))
    )
    messages = there.messages.join(people, on=AUTHOR, how="semi")
    active = with_point(messages, weeks(there.period)).group_by(AUTHOR)
    regular = active.agg(pl.col("point").n_unique()).filter(pl.col("point") >= REGULAR)
    steps = (messages, there.facts.noticed(messages), regular)
    return with_point(people, months).with_columns(
        pl.col(AUTHOR).is_in(those[AUTHOR].unique().implode()).alias(step)
        for step, those in zip(STEPS[1:], steps, strict=True)
    )


def joined_by_month(there: Slice, months: Sequence[Period]) -> pl.DataFrame:
    """How many came how far, of each month: a column for each of `STEPS`."""
    later = (pl.col(step).sum().cast(pl.Int64) for step in STEPS[1:])
    counts = joined(there, months).group_by("point").agg(*later, joined=pl.len().cast(pl.Int64))
    every = pl.DataFrame({"point": range(len(months))}, {"point": POINT})
    return every.join(counts, on="point", how="left").fill_null(0).sort("point").select(STEPS)
