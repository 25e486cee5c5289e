"""The way to every number: what is chosen (a `Scope`), metrics, and what a row is about.

Rule: rows are about what the first metric counts. What ranks them is messages, then words, unless
the query says otherwise; equals are in the order of their IDs. Shares are of all rows of the
choice, whichever of them are shown.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import polars as pl

from channelstats.facts.facts import AUTHOR, CHANNEL, Slice
from channelstats.facts.local_times import hour, weekday
from channelstats.facts.periods import days_of, points, with_point
from channelstats.metrics import quantities
from channelstats.metrics.metric import AGGREGATES, Metric
from channelstats.metrics.quantities import Change, Formula, Quantity, beside, ranked
from channelstats.metrics.table import Kind

_UTC_HOUR: Final = pl.col("ts") // 3_600_000_000

DIMENSIONS: Final[Mapping[str, pl.Expr]] = {
    "channel": pl.col(CHANNEL),
    "author": pl.col(AUTHOR),
    "emoji": pl.col("emoji"),
    "weekday": pl.col("local_weekday"),
    "hour": pl.col("local_hour"),
    "utc_weekday": weekday(_UTC_HOUR),
    "utc_hour": hour(_UTC_HOUR),
}
"""What rows may be about, beside a `person`, whom each aggregate knows by itself, and the days and
points of a period.
"""

_IN_TIME: Final = {"day": days_of, "point": points}
_LOCAL: Final = frozenset({"weekday", "hour"})

ALL: Final = "all_"
SO_FAR: Final = "sum_"
BY_MESSAGES: Final = ("messages", "words")
BY_WORDS: Final = ("words", "messages")
_WROTE: Final = pl.col("messages") > 0


class Scope(NamedTuple):
    """A choice in the period and in the one it is compared with."""

    now: Slice
    before: Slice

    @property
    def person(self) -> str:
        return self.now.person

    @property
    def is_meaningful(self) -> bool:
        """Whether messages of both are known whole."""
        return all(part.history.covers(part.period) for part in self)

    @property
    def before_title(self) -> str:
        return "A year before" if self.now.period.back else "Period before"

    def change(self, now: Quantity, before: Quantity | None) -> Change:
        """A number against the one before, where these can be compared."""
        if self.is_meaningful:
            return quantities.change(now, before)
        return quantities.not_compared(now)

    def changes(self, formula: Formula) -> pl.Expr:
        """`change` of each row of `compared`."""
        now = formula.column()
        if self.is_meaningful:
            return quantities.changes(now, formula.column(quantities.before), pl.col("was"))
        nothing, state = pl.lit(None, pl.Float64), pl.lit("not_compared")
        return pl.struct(cur=now.shown(), prev=nothing, diff_pct=nothing, state=state)


# ── aggregates ───────────────────────────────────────────────────────────────────────────────────


def aggregated(
    part: Slice, by: Sequence[str], names: Collection[str], *, table: str = "", full: bool = False
) -> pl.DataFrame:
    """Aggregates for each value of what rows are about, in no order; without that one row. Rows are
    those of the facts that the first aggregate counts, or, where it is ``full``, of all.
    ``table``: facts to count in place of messages.
    """
    wanted = tuple(dict.fromkeys(names))
    key = "aggregated", tuple(by), wanted, table, full
    return part.once(key, lambda: _aggregated(part, tuple(by), wanted, table, full))


def _aggregated(
    part: Slice, by: tuple[str, ...], names: tuple[str, ...], table: str, full: bool
) -> pl.DataFrame:
    sources = dict[tuple[str, str], list[str]]()
    for name in names:
        aggregate = AGGREGATES[name]
        sources.setdefault((aggregate.table, aggregate.person), []).append(name)
    every: pl.DataFrame | None = None
    for (source, person), some in sources.items():
        if source == "messages":
            source = table or ("timed" if _LOCAL.intersection(by) else source)
        counted = _counted(part, source, by, person, some)
        if every is None:
            every = counted
        elif not by:
            every = every.hstack(counted)
        else:
            every = every.join(counted, on=by, how="full" if full else "left", coalesce=True)
    assert every is not None
    return every.with_columns(
        pl.col(name).fill_null(AGGREGATES[name].absent)
        for name in names
        if AGGREGATES[name].absent is not None
    )


def _counted(
    part: Slice, source: str, by: tuple[str, ...], person: str, names: Sequence[str]
) -> pl.DataFrame:
    values = {name: AGGREGATES[name].value for name in names}
    rows = part.table(source, person)
    if not by:
        return rows.select(**values)
    needed = {root for value in values.values() for root in value.meta.root_names()}
    keys: dict[str, pl.Expr] = {}
    for name in by:
        if steps := _IN_TIME.get(name):
            in_time = partial(with_point, rows, steps(part.period))
            rows = part.once((source, person, name), in_time)
            keys[name] = pl.col("point")
        else:
            keys[name] = pl.col(person) if name == "person" else DIMENSIONS[name]
    some = rows.lazy().select(*needed - set(by), **keys).drop_nulls(by)
    return some.group_by(by).agg(**values).collect(engine="streaming")


def placed(rows: pl.DataFrame, key: str, *orders: Sequence[str]) -> pl.DataFrame:
    """Rows of `aggregated` in the last of these orders, with their `place`, and with what each
    order begins with of all together and so far; who wrote nothing has no place and comes last.
    """
    for order in orders:
        size = pl.col(order[0])
        rows = ranked(rows, order, key).with_columns(
            size.sum().alias(f"{ALL}{order[0]}"),
            pl.when(_WROTE).then(size.cum_sum()).otherwise(0).alias(f"{SO_FAR}{order[0]}"),
        )
    place = pl.int_range(1, pl.len() + 1)
    return rows.with_columns(place=pl.when(_WROTE).then(place))


def entries(part: Slice, by: str, names: Collection[str], *orders: Sequence[str]) -> pl.DataFrame:
    """Rows of channels or people as they are `placed`, by messages unless otherwise said: of
    channels with messages, and of whoever wrote or was answered in own threads.
    """
    return placed(_entries(part, by, names), by, *(orders or (BY_MESSAGES,)))


def _entries(part: Slice, by: str, names: Collection[str]) -> pl.DataFrame:
    names = (*BY_MESSAGES, *names)
    if by != "person":
        return aggregated(part, (by,), names)
    people = aggregated(part, (by,), (*names, "answers"), full=True)
    return people.filter(_WROTE | (pl.col("answers") > 0))


def compared(scope: Scope, by: str, names: Collection[str]) -> pl.DataFrame:
    """`entries` of now, each beside the messages and words of the one before: see `beside`."""
    return beside(entries(scope.now, by, names), _entries(scope.before, by, ()), by)


# ── metrics ──────────────────────────────────────────────────────────────────────────────────────


def parts_of(metrics: Sequence[Metric]) -> Iterator[str]:
    """The aggregates that formulas are made of."""
    for metric in metrics:
        for part in metric.formula.parts if metric.formula else ():
            for mark in (ALL, SO_FAR):
                part = part.removeprefix(mark)
            if part in AGGREGATES:
                yield part


def measured(part: Slice, *metrics: Metric) -> list[Quantity | None]:
    """Metrics of a whole choice, each as an exact number; None where there is none."""
    names = parts_of(metrics)
    values = {name: aggregated(part, (), (name,)).item() for name in names}
    return [
        metric.formula.of(values) if metric.formula else _measure(part, metric)
        for metric in metrics
    ]


def _measure(part: Slice, metric: Metric) -> Quantity | None:
    measure = metric.measure
    return None if measure is None else part.once(("measure", metric.name), lambda: measure(part))


def by_steps(part: Slice, metric: Metric, by: str, steps: Sequence[int]) -> list[float | None]:
    """A metric for each of these numbers of what rows are about."""
    assert metric.formula is not None, metric.name
    names = tuple(parts_of([metric]))
    rows = aggregated(part, (by,), names)
    known = dict(rows.select(by, metric.formula.shown()).iter_rows())
    absent = 0 if AGGREGATES[metric.formula.num].absent is not None else None
    absent = None if metric.formula.optional else absent
    return [known.get(step, absent) for step in steps]


def over_time(part: Slice, metric: Metric) -> list[float | None]:
    """A metric for each point of the period."""
    if metric.by_point:
        return metric.by_point(part)
    return by_steps(part, metric, "point", range(len(points(part.period))))


def column_of(scope: Scope, metric: Metric) -> pl.Expr:
    """A metric of every row of `compared`."""
    assert metric.formula is not None, metric.name
    if metric.kind is Kind.CHANGE:
        return scope.changes(metric.formula)
    return metric.formula.shown()
