"""Numbers against those of the period before: one, or as columns.

Rule: what changed by less than half a per cent is the same; that is decided on exact numbers.
"""

from typing import Final, Literal, TypeAlias, TypedDict

import polars as pl

from channelstats.stats.quantities import ColumnQuantity, Quantity, parts, quotient, shown

State: TypeAlias = Literal["up", "down", "same", "new", "from_zero", "not_compared"]
"""`not_compared` is a state of views alone: of the time before, messages are not known whole."""


class Change(TypedDict):
    """A number and the one before; ``diff_pct`` is a percentage, unrounded."""

    cur: int | float
    prev: int | float | None
    diff_pct: float | None
    state: State


def change(cur: Quantity, prev: Quantity | None) -> Change:
    """Compare with the period before, or with nothing when there was no such thing."""
    if prev is None:
        return _change(cur, None, None, "new")
    (num, den), (num_before, den_before) = parts(cur), parts(prev)
    if num_before == 0:
        return _change(cur, prev, None, "from_zero" if num else "same")
    # 100 * (num / den) / (num_before / den_before) - 100, over one denominator
    over = num_before * den
    difference = 100 * (num * den_before - over)
    diff_pct = difference / over
    if 2 * abs(difference) < over:
        return _change(cur, prev, diff_pct, "same")
    return _change(cur, prev, diff_pct, "up" if difference > 0 else "down")


def not_compared(cur: Quantity) -> Change:
    """A number without one before: of that time, messages are not known whole."""
    return _change(cur, None, None, "not_compared")


def _change(cur: Quantity, prev: Quantity | None, diff_pct: float | None, state: State) -> Change:
    before = None if prev is None else shown(prev)
    return {"cur": shown(cur), "prev": before, "diff_pct": diff_pct, "state": state}


BEFORE: Final = "_before"


def before(name: str) -> pl.Expr:
    """The column of a name as a join with the period before has it."""
    return pl.col(name + BEFORE)


def changes(now: ColumnQuantity, then: ColumnQuantity, known: pl.Expr | None = None) -> pl.Expr:
    """`change` of each row; where it is not ``known`` there was no such thing before."""
    known = pl.lit(value=True) if known is None else known
    (num, den), (num_before, den_before) = now.parts(), then.parts()
    over = num_before * den
    difference = 100 * (num * den_before - over)
    state = (
        pl.when(~known)
        .then(pl.lit("new"))
        .when((num_before == 0) & (num != 0))
        .then(pl.lit("from_zero"))
        .when((num_before == 0) | (2 * difference.abs() < over))
        .then(pl.lit("same"))
        .when(difference > 0)
        .then(pl.lit("up"))
        .otherwise(pl.lit("down"))
    )
    return pl.struct(
        cur=now.shown(),
        prev=pl.when(known).then(then.shown()),
        diff_pct=pl.when(known & (num_before != 0)).then(quotient(difference, over)),
        state=state,
    )
