"""Exact numbers, one or as columns: how they are ranked, and how they are shown.

Rule: a share is kept as two whole numbers and divided once, when it is shown, so nothing is ever
decided on a rounded number. A column holds what `Quantity` holds row by row; its counts stay below
10**16, and their products are taken in 128 bits.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec
import polars as pl

_EXACT: Final = 2**53
"""Up to here a float holds every whole number, and a quotient of two is the nearest float."""


class Ratio(NamedTuple):
    """One whole number over another that is positive; shown as a float."""

    num: int
    den: int


Quantity: TypeAlias = int | Ratio


def ratio(num: int, den: int) -> Ratio:
    """A quotient; 0 where it would be over nothing."""
    return Ratio(num, den) if den else Ratio(0, 1)


def percent(part: int, whole: int) -> Ratio:
    return ratio(100 * part, whole)


def parts(quantity: Quantity) -> tuple[int, int]:
    """The quantity as numerator and denominator."""
    return quantity if isinstance(quantity, Ratio) else (quantity, 1)


def shown(quantity: Quantity) -> int | float:
    """The nearest number: a whole one stays whole."""
    return quantity.num / quantity.den if isinstance(quantity, Ratio) else quantity


def in_tenths(quantity: Quantity) -> Ratio:
    """Rounded to one decimal, half to even."""
    num, den = parts(quantity)
    tenths, rest = divmod(10 * num, den)
    up = 2 * rest > den or (2 * rest == den and tenths % 2 == 1)
    return Ratio(tenths + up, 10)


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
    found = num.cast(pl.Float64) / den.cast(pl.Float64)
    inexact = ((num.abs() > _EXACT) | (den.abs() > _EXACT)) & (den != 0)
    where = inexact.fill_null(value=False).arg_true()
    if len(where) == 0:
        return found
    wide = zip(num.gather(where), den.gather(where), strict=True)
    return found.scatter(where, [part / whole for part, whole in wide])


class Formula(msgspec.Struct, frozen=True):
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
        found = ratio(num, int(getattr(entry, self.den))) if self.den else num
        return in_tenths(found) if self.tenths else found

    def column(self, of: Callable[[str], pl.Expr] = pl.col) -> ColumnQuantity:
        """Of every row of a frame; ``of`` is the column of a part."""
        num = self.times * of(self.num) if self.times != 1 else of(self.num)
        found = column_ratio(num, of(self.den)) if self.den else ColumnQuantity(num)
        return found.in_tenths() if self.tenths else found


def percent_of(num: str, den: str) -> Formula:
    return Formula(num, den, 100)


WORDS_THEN_MESSAGES = ("w", "m")
MESSAGES_THEN_WORDS = ("m", "w")


def ranked(frame: pl.DataFrame, by: Iterable[str], *ids: str) -> pl.DataFrame:
    """The frame by these columns, the largest first; equals by their IDs, the smallest first."""
    falling = list(by)
    return frame.sort([*falling, *ids], descending=[True] * len(falling) + [False] * len(ids))


def volume_by(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Messages `m` and words `w` by these columns; rows where one is null are left out."""
    return (
        frame.select(*keys, "word_count")
        .drop_nulls(keys)
        .group_by(keys)
        .agg(m=pl.len().cast(pl.Int64), w=pl.col("word_count").sum())
    )


def regrouped(sizes: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Messages `m` and words `w` by fewer columns."""
    return sizes.group_by(keys).agg(pl.col("m", "w").sum())


def counts(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """Rows `n` by these columns, by all but the last, then the most first, then by the last."""
    *outer, inner = keys
    found = frame.group_by(keys).agg(n=pl.len().cast(pl.Int64))
    falling = [False] * len(outer) + [True, False]
    return found.sort([*outer, "n", inner], descending=falling)
