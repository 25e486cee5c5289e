"""Exact numbers, how they are ranked, and how they are shown.

Rule: a share is kept as two whole numbers and divided once, when it is shown, so nothing is ever
decided on a rounded number.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import polars as pl


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


WORDS_THEN_MESSAGES = ("w", "m")
MESSAGES_THEN_WORDS = ("m", "w")


def ranked(frame: pl.DataFrame, by: Iterable[str], *ids: str) -> pl.DataFrame:
    """The frame by these columns, the largest first; equals by their IDs, the smallest first."""
    falling = list(by)
    return frame.sort([*falling, *ids], descending=[True] * len(falling) + [False] * len(ids))


def volume(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
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
