"""Quantities of many at once: exact numbers as columns, what they are compared with, how they are
shown.

Rule: equal to `quantities` and `compare` row by row, so nothing is decided on a rounded number here
either. Counts stay below 10**16, and their products are taken in 128 bits.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import msgspec
import polars as pl

from channelstats.stats.quantities import Quantity, in_tenths
from channelstats.stats.quantities import ratio as exactly

_EXACT: Final = 2**53
"""Up to here a float holds every whole number, and a quotient of two is the nearest float."""


class Amount(NamedTuple):
    """A whole number, or with ``den`` one over another that is positive; as expressions."""

    num: pl.Expr
    den: pl.Expr | None = None


Of: TypeAlias = Callable[[str], pl.Expr]
"""The column of a name: of this period, or of the one before."""


class Figure(msgspec.Struct, frozen=True):
    """A quantity by the names of its parts: ``times`` one of them, over another where ``den`` is
    given; rounded where it is in ``tenths``.
    """

    num: str
    den: str = ""
    times: int = 1
    tenths: bool = False

    def __call__(self, entry: object) -> Quantity:
        """Of an entry that has the parts as attributes."""
        num = self.times * int(getattr(entry, self.num))
        found = exactly(num, int(getattr(entry, self.den))) if self.den else num
        return in_tenths(found) if self.tenths else found

    def amount(self, of: Of) -> Amount:
        """Of every row of a frame that has the parts as columns."""
        num = self.times * of(self.num) if self.times != 1 else of(self.num)
        found = ratio(num, of(self.den)) if self.den else Amount(num)
        return _in_tenths(found) if self.tenths else found


def percent_of(num: str, den: str) -> Figure:
    return Figure(num, den, 100)


BEFORE: Final = "_before"


def before(name: str) -> pl.Expr:
    """The column of a name as a join with the period before has it."""
    return pl.col(name + BEFORE)


def ratio(num: pl.Expr, den: pl.Expr) -> Amount:
    """Quotients; 0 where they would be over nothing."""
    something = den != 0
    return Amount(
        pl.when(something).then(num).otherwise(0), pl.when(something).then(den).otherwise(1)
    )


def _in_tenths(amount: Amount) -> Amount:
    """Rounded to tenths, half to even."""
    num, den = _parts(amount)
    tenths = 10 * num // den
    rest = 10 * num - tenths * den
    up = (2 * rest > den) | ((2 * rest == den) & (tenths % 2 == 1))
    return Amount(tenths + up.cast(pl.Int128), pl.lit(10, pl.Int128))


def _parts(amount: Amount) -> tuple[pl.Expr, pl.Expr]:
    num, den = amount
    wide = pl.lit(1, pl.Int128) if den is None else den.cast(pl.Int128)
    return num.cast(pl.Int128), wide


def shown(amount: Amount) -> pl.Expr:
    """The nearest numbers: whole ones stay whole."""
    return amount.num if amount.den is None else quotient(amount.num, amount.den)


def quotient(num: pl.Expr, den: pl.Expr) -> pl.Expr:
    """The floats nearest to whole numbers over others."""
    return pl.struct(num.alias("num"), den.alias("den")).map_batches(
        _quotients, return_dtype=pl.Float64(), is_elementwise=True
    )


def _quotients(parts: pl.Series) -> pl.Series:
    num, den = parts.struct.field("num"), parts.struct.field("den")
    found = num.cast(pl.Float64) / den.cast(pl.Float64)
    inexact = ((num.abs() > _EXACT) | (den.abs() > _EXACT)) & (den != 0)
    where = inexact.fill_null(value=False).arg_true()
    if len(where) == 0:
        return found
    wide = zip(num.gather(where), den.gather(where), strict=True)
    return found.scatter(where, [part / whole for part, whole in wide])


def changes(now: Amount, then: Amount, known: pl.Expr | None = None) -> pl.Expr:
    """`compare.change` of each row; where it is not ``known`` there was no such thing before."""
    known = pl.lit(value=True) if known is None else known
    (num, den), (num_before, den_before) = _parts(now), _parts(then)
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
        cur=shown(now),
        prev=pl.when(known).then(shown(then)),
        diff_pct=pl.when(known & (num_before != 0)).then(quotient(difference, over)),
        state=state,
    )
