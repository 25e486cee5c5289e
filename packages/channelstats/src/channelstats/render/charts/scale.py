"""Axes: which numbers are marked, and how long a number is drawn.

Rule: an axis begins at nothing, so lengths can be compared, and its marks are round.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from channelstats.views.model import Kind

_MARKS: Final = 4
_ROUND: Final = (1, 2, 2.5, 5, 10)
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_ROUND_SECONDS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(number * _MINUTE for number in (1, 2, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 6, 12)),
    *(number * _DAY for number in (1, 2, 4, 7, 14, 28, 56, 112, 224, 448)),
)


class Scale(msgspec.Struct, frozen=True):
    """From 0 to ``top``; ``marks`` are what the axis names."""

    top: float
    marks: tuple[float, ...]

    def part(self, value: float) -> float:
        """How far up a value is, from 0 to 1."""
        return min(max(value / self.top, 0), 1)


def scale_of(values: Sequence[float], kind: Kind) -> Scale:
    """The scale on which all of the values are."""
    highest = max(values, default=0)
    step = _step(highest / _MARKS, kind)
    count = max(1, -(-highest // step))
    marks = tuple(step * number for number in range(int(count) + 1))
    return Scale(marks[-1], marks)


def _step(least: float, kind: Kind) -> float:
    if kind is Kind.SECONDS:
        return next((step for step in _ROUND_SECONDS if step >= least), _ROUND_SECONDS[-1] * 2)
    power = 1.0
    while power * 10 <= least:
        power *= 10
    while power > least > 0 and kind is not Kind.COUNT:
        power /= 10
    step = next(power * part for part in _ROUND if power * part >= least)
    return max(1, round(step + 0.49)) if kind is Kind.COUNT else step


def spread(count: int, most: int) -> range:
    """Which of so many labels are shown where no more than ``most`` have room."""
    return range(0, count, max(1, -(-count // max(most, 1))))
