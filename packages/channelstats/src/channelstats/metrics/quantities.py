"""Exact numbers, one or as columns: how they are ranked, compared with those of the period before,
and shown.

Rule: a share is divided once, when it is shown, so nothing is ever decided on a rounded number. A
column holds row by row what a `Quantity` holds; its counts stay below 10**16, and their products
are taken in 128 bits. What changed by less than half a per cent is the same.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final, Literal, NamedTuple, TypeAlias, TypedDict, final

import msgspec
import polars as pl

_EXACT: Final = 2**53
"""Up to here a float holds every whole number, and a quotient of two is the nearest float."""

Quantity: TypeAlias = int | Fraction


def ratio(num: int, den: int) -> Fraction:
    """A quotient; 0 where it would be over nothing."""
    return Fraction(num, den) if den else Fraction(0)


def percent(part: int, whole: int) -> Fraction:
    return ratio(100 * part, whole)


def shown(quantity: Quantity | float) -> int | float:
    """The nearest number: a count stays whole."""
    return float(quantity) if isinstance(quantity, Fraction) else quantity


class ColumnQuantity(NamedTuple):
    """A whole number, or with ``den`` one over another that is positive; as expressions."""

    num: pl.Expr
    den: pl.Expr | None = None

    def parts(self) -> tuple[pl.Expr, pl.Expr]:
        """Numerators and denominators in 128 bits."""
        wide = pl.lit(1, pl.Int128) if self.den is None else self.den.cast(pl.Int128)
        return self.num.cast(pl.Int128), wide

    def shown(self) -> pl.Expr:
        """The nearest numbers: whole ones stay whole."""
        return self.num if self.den is None else quotient(self.num, self.den)

    def in_tenths(self) -> "ColumnQuantity":
        """Rounded to one decimal, half to even."""
        num, den = self.parts()
        tenths = 10 * num // den
        rest = 10 * num - tenths * den
        up = (2 * rest > den) | ((2 * rest == den) & (tenths % 2 == 1))
        return ColumnQuantity(tenths + up.cast(pl.Int128), pl.lit(10, pl.Int128))


def column_ratio(num: pl.Expr, den: pl.Expr) -> ColumnQuantity:
    """Quotients; 0 where they would be over nothing."""
    something = den != 0
    return ColumnQuantity(
        pl.when(something).then(num).otherwise(0), pl.when(something).then(den).otherwise(1)
    )


def quotient(num: pl.Expr, den: pl.Expr) -> pl.Expr:
    """The floats nearest to whole numbers over others."""
    return pl.struct(num.alias("num"), den.alias("den")).map_batches(
        _quotients, return_dtype=pl.Float64(), is_elementwise=True
    )


def _quotients(parts: pl.Series) -> pl.Series:
    num, den = parts.struct.field("num"), parts.struct.field("den")
    floats = num.cast(pl.Float64) / den.cast(pl.Float64)
    inexact = ((num.abs() > _EXACT) | (den.abs() > _EXACT)) & (den != 0)
    where = inexact.fill_null(value=False).arg_true()
    if len(where) == 0:
        return floats
    wide = zip(num.gather(where), den.gather(where), strict=True)
    return floats.scatter(where, [part / whole for part, whole in wide])


class Formula(msgspec.Struct, frozen=True):
    """A quantity by the names of its parts: ``times`` one of them, over another where ``den`` is
    given; rounded to one decimal, half to even, where it is in ``tenths``. Over nothing it is 0, or
    where it is ``optional`` nothing.
    """

    num: str
    den: str = ""
    times: int = 1
    tenths: bool = False
    optional: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.num, self.den) if self.den else (self.num,)

    def column(self, part: Callable[[str], pl.Expr] = pl.col) -> ColumnQuantity:
        """Of every row of a frame; ``part`` is the column of a part."""
        num = self.times * part(self.num) if self.times != 1 else part(self.num)
        quantity = column_ratio(num, part(self.den)) if self.den else ColumnQuantity(num)
        return quantity.in_tenths() if self.tenths else quantity

    def shown(self) -> pl.Expr:
        """The nearest numbers of every row."""
        numbers = self.column().shown()
        return pl.when(pl.col(self.den) != 0).then(numbers) if self.optional else numbers

    def of(self, parts: Mapping[str, int | None]) -> Quantity | None:
        """Of parts that are numbers."""
        num = parts[self.num]
        if num is None or (self.optional and not parts[self.den]):
            return None
        return ratio(self.times * num, parts[self.den] or 0) if self.den else self.times * num


def percent_of(num: str, den: str, *, optional: bool = False) -> Formula:
    return Formula(num, den, 100, optional=optional)


# ── against the period before ────────────────────────────────────────────────────────────────────

State: TypeAlias = Literal["up", "down", "same", "new", "from_zero", "not_compared"]
"""`not_compared` is a state of views alone: of the time before, messages are not known whole."""


@final
class Change(TypedDict):
    """A number and the one before; ``diff_pct`` is a percentage, unrounded."""

    cur: int | float
    prev: int | float | None
    diff_pct: float | None
    state: State


def change(cur: Quantity, prev: Quantity | None) -> Change:
    """Compare with the period before, or with nothing when there was no such thing."""
    if prev is None:
        return {"cur": shown(cur), "prev": None, "diff_pct": None, "state": "new"}
    state: State = "from_zero" if cur else "same"
    diff_pct = None
    if prev:
        difference = Fraction(100 * (cur - prev)) / prev
        diff_pct, state = float(difference), "up" if difference > 0 else "down"
        if 2 * abs(difference) < 1:
            state = "same"
    return {"cur": shown(cur), "prev": shown(prev), "diff_pct": diff_pct, "state": state}


def not_compared(cur: Quantity) -> Change:
    """A number without one before: of that time, messages are not known whole."""
    return {"cur": shown(cur), "prev": None, "diff_pct": None, "state": "not_compared"}


def alone(cur: Quantity | float) -> Change:
    """A number that is compared with nothing, as there is nothing to compare it with."""
    return {"cur": shown(cur), "prev": shown(cur), "diff_pct": None, "state": "same"}


BEFORE: Final = "_before"


def before(name: str) -> pl.Expr:
    """The column of a name as a join with the period before has it."""
    return pl.col(name + BEFORE)


def beside(now: pl.DataFrame, then: pl.DataFrame, *key: str) -> pl.DataFrame:
    """Each row of now with the row of the period before; whether there `was` one."""
    then = then.with_columns(was=pl.lit(value=True))
    return now.join(then, on=key, how="left", suffix=BEFORE, maintain_order="left").with_columns(
        pl.col("was").fill_null(value=False)
    )


def changes(now: ColumnQuantity, then: ColumnQuantity, known: pl.Expr | None = None) -> pl.Expr:
    """`change` of each row; where it is not ``known`` there was no such thing before."""
    known = pl.lit(value=True) if known is None else known
    (num, den), (num_before, den_before) = now.parts(), then.parts()
    # 100 * (num / den) / (num_before / den_before) - 100, over one denominator
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


# ── frames ───────────────────────────────────────────────────────────────────────────────────────


def ranked(frame: pl.DataFrame, by: Iterable[str], *ids: str) -> pl.DataFrame:
    """The frame by these columns, the largest first; equals by their IDs, the smallest first."""
    falling = list(by)
    return frame.sort([*falling, *ids], descending=[True] * len(falling) + [False] * len(ids))


def replaced(texts: pl.Series, change: Callable[[str], str]) -> pl.Series:
    """The column with each of its texts changed."""
    each = texts.drop_nulls().unique()
    changed = pl.Series(map(change, each.cast(pl.String)), dtype=pl.String)
    return texts.replace_strict(each, changed, default=None, return_dtype=pl.String())
