"""A heat map: the more, the stronger the colour.

Rule: strength goes in a few steps, so that two cells can be told apart or are alike; where it is
narrow the map stands upright.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from markupsafe import Markup

from channelstats.render.charts.drawing import LETTER, WIDE, box, picture, target, words
from channelstats.render.charts.scale import spread
from channelstats.render.words import date_text, figure_text
from channelstats.views.model import Heat, Kind

STEPS: Final = 7
"""Strengths beside none; the style sheet has a colour for each."""

_HEAD, _GAP = 24, 2
_CELL: Final = 30
_WIDEST: Final = 64


def heat(chart: Heat, width: float) -> Markup:
    """The picture; upright where there are more columns than a narrow one has room for."""
    turned = width < WIDE and len(chart.columns) > len(chart.rows)
    dated = _dated(chart)
    shown = _turned(dated) if turned else dated
    high = _HEAD + len(shown.rows) * (_CELL if not turned else 20) + 4
    return picture("heat", width, high, _says(dated), _parts(shown, width, high))


def _parts(chart: Heat, width: float, height: float) -> Iterator[Markup]:
    left = 14 + LETTER * max((len(row) for row in chart.rows), default=0)
    wide = min((width - left) / max(len(chart.columns), 1), _WIDEST)
    high = (height - _HEAD - 4) / max(len(chart.rows), 1)
    longest = max((len(column) for column in chart.columns), default=1) * LETTER + 6
    for at in spread(len(chart.columns), int(wide * len(chart.columns) / longest)):
        text = chart.columns[at]
        middle = min(left + wide * (at + 0.5), width - LETTER * len(text) / 2)
        yield words("label", middle, _HEAD - 9, text)
    most = max((value or 0 for row in chart.values for value in row), default=0)
    for down, (row, values) in enumerate(zip(chart.rows, chart.values, strict=True)):
        top = _HEAD + high * down
        if high >= 16 or down % 2 == 0:
            yield words("label", left - 8, top + high / 2 + 4, row, "end")
        for across, value in enumerate(values):
            if value is None:
                continue
            begin = left + wide * across
            kind = f"cell h{step(value, most)}"
            yield box(kind, begin + _GAP / 2, top + _GAP / 2, wide - _GAP, high - _GAP, corner=4)
            shown = f"{row}, {chart.columns[across]}\n{figure_text(value, chart.kind)}"
            yield target(begin, top, wide, high, shown)


def step(value: float, most: float) -> int:
    """How strong the colour of a value is, from 0 for nothing to `STEPS`."""
    return 0 if value <= 0 else min(STEPS, 1 + int(STEPS * value / most))


def ranges(chart: Heat) -> list[tuple[int, str]]:
    """The steps of the colour, and the values that each of them stands for."""
    most = max((value or 0 for row in chart.values for value in row), default=0)
    bounds = [most * number / STEPS for number in range(STEPS + 1)]
    if chart.kind is Kind.PERCENT:
        texts = [f"{bound:.0f}" for bound in bounds]
        above = [
            (number, f"{low}\N{EN DASH}{high}%")
            for number, (low, high) in enumerate(pairwise(texts), 1)
        ]
        return [(0, "0%"), (1, f"up to {texts[1]}%"), *above[1:]]
    found: dict[int, list[float]] = {}
    # A step that no whole number lies in is no colour of the picture.
    for number, (low, high) in enumerate(pairwise(bounds), 1):
        whole = range(max(1, math.ceil(low)), math.ceil(high) + (number == STEPS))
        if whole:
            found[number] = [whole[0], whole[-1]]
    shown = {
        number: "\N{EN DASH}".join(dict.fromkeys(figure_text(of, chart.kind) for of in ends))
        for number, ends in found.items()
    }
    return [(0, "0"), *shown.items()]


def _dated(chart: Heat) -> Heat:
    """Labels that are dates, as dates are written."""
    return msgspec.structs.replace(chart, rows=tuple(map(date_text, chart.rows)))


def _turned(chart: Heat) -> Heat:
    columns: Sequence[tuple[float | None, ...]] = tuple(zip(*chart.values, strict=True))
    return Heat(chart.name, chart.title, chart.columns, chart.rows, tuple(columns), chart.kind)


def _says(chart: Heat) -> str:
    found = [
        (value, -down, -across)
        for down, row in enumerate(chart.values)
        for across, value in enumerate(row)
        if value
    ]
    if not found:
        return f"{chart.title}: nothing in this period."
    value, down, across = max(found)
    where = f"{chart.rows[-down]}, {chart.columns[-across]}"
    return f"{chart.title}. The most: {figure_text(value, chart.kind)} at {where}."
