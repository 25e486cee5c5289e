"""A heat map: the more, the stronger the colour.

Rule: strength goes in a few steps, so that two cells can be told apart or are alike; where it is
narrow the map stands upright, unless not every row could be named then. A share of very few people
is pale.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from channelstats.metrics.table import Kind
from channelstats.pages.model import Heat
from channelstats.render.charts.drawing import (
    LETTER,
    NARROW,
    WIDE,
    Leads,
    Place,
    label,
    nowhere,
    picture,
    shape,
    spread,
    target,
)
from channelstats.render.words import cut_off, date_text, figure_text

STEPS: Final = 7
"""Strengths beside none; the style sheet has a colour for each."""

FEWEST: Final = 5
"""People that a row has to be of for its shares to mean something."""

_HEAD, _GAP = 24, 2
_WIDEST: Final = 64
_LONGEST: Final = 18
"""Letters of the name of a row, where it is narrow."""


def heat(chart: Heat, width: float, leads: Leads = nowhere) -> Markup:
    """The picture; upright where there are more columns than a narrow one has room for."""
    is_wider = len(chart.columns) > len(chart.rows)
    is_turned = width <= NARROW and is_wider and _width_of(map(date_text, chart.rows)) < width
    shown, high = (_turned(chart), 20) if is_turned else (chart, 30)
    height = _HEAD + len(shown.rows) * high + 4
    parts = _parts(shown, width, high, lambda names: leads(names[::-1] if is_turned else names))
    return picture("heat", width, height, _says(chart), parts)


def _parts(chart: Heat, width: float, high: float, leads: Leads) -> Iterator[Markup | Place]:
    rows, columns = (tuple(map(date_text, names)) for names in (chart.rows, chart.columns))
    if width < WIDE:
        rows = tuple(cut_off(row, _LONGEST) for row in rows)
    if chart.sizes:
        rows = tuple(f"{row} ({size:,})" for row, size in zip(rows, chart.sizes, strict=True))
    left = 14 + LETTER * max(map(len, rows), default=0)
    wide = min((width - left) / max(len(columns), 1), _WIDEST)
    longest = max(map(len, columns), default=1) * LETTER + 6
    for at in spread(len(columns), int(wide * len(columns) / longest)):
        text = columns[at]
        middle = min(left + wide * (at + 0.5), width - LETTER * len(text) / 2)
        yield label(text, middle, _HEAD - 9)
    most = _most(chart)
    for down, (row, values) in enumerate(zip(rows, chart.values, strict=True)):
        top = _HEAD + high * down
        yield label(row, left - 8, top + high / 2 + 4, "end")
        for across, value in enumerate(values):
            if value is None:
                continue
            begin, size = left + wide * across, {"width": wide - _GAP, "height": high - _GAP}
            kind = f"cell h{step(value, most)}"
            if chart.sizes and chart.sizes[down] < FEWEST:
                kind += " few"
            yield shape("rect", kind, x=begin + _GAP / 2, y=top + _GAP / 2, rx=4, **size)
            tooltip = f"{_cell(chart, down, across)}\n{figure_text(value, chart.kind)}"
            if chart.sizes:
                tooltip += f" of {chart.sizes[down]:,}"
            to = leads((chart.rows[down], chart.columns[across])) if value else ""
            yield target(begin, top, wide, high, tooltip, to)


def _width_of(names: Iterable[str]) -> float:
    """What names need side by side, each as much as the longest."""
    lengths = [len(name) for name in names]
    return len(lengths) * (LETTER * max(lengths, default=0) + 6)


def _cell(chart: Heat, row: int, column: int) -> str:
    return ", ".join(
        date_text(label, long=True) for label in (chart.rows[row], chart.columns[column])
    )


def _turned(chart: Heat) -> Heat:
    columns = tuple(zip(*chart.values, strict=True))
    return Heat(chart.name, chart.title, chart.columns, chart.rows, columns, chart.kind)


def _most(chart: Heat) -> float:
    return max((value or 0 for row in chart.values for value in row), default=0)


def step(value: float, most: float) -> int:
    """How strong the colour of a value is, from 0 for nothing to `STEPS`."""
    return 0 if value <= 0 else min(STEPS, 1 + int(STEPS * value / most))


def ranges(chart: Heat) -> list[tuple[int, str]]:
    """The steps of the colour, and the values that each of them stands for."""
    bounds = [_most(chart) * number / STEPS for number in range(STEPS + 1)]
    if chart.kind is Kind.PERCENT:
        texts = [f"{bound:.0f}" for bound in bounds]
        above = enumerate(pairwise(texts[1:]), 2)
        return [
            (0, "0%"),
            (1, f"up to {texts[1]}%"),
            *((number, f"{low}\N{EN DASH}{high}%") for number, (low, high) in above),
        ]
    steps = [(0, "0")]
    for number, (low, high) in enumerate(pairwise(bounds), 1):
        whole = range(max(1, math.ceil(low)), math.ceil(high) + (number == STEPS))
        if whole:  # A step that no whole number lies in is no colour of the picture.
            ends = dict.fromkeys(figure_text(end, chart.kind) for end in (whole[0], whole[-1]))
            steps.append((number, "\N{EN DASH}".join(ends)))
    return steps


def _says(chart: Heat) -> str:
    most = _most(chart)
    if not most:
        return f"{chart.title}: nothing in this period."
    row, values = next(numbered for numbered in enumerate(chart.values) if most in numbered[1])
    where = _cell(chart, row, values.index(most))
    return f"{chart.title}. The most: {figure_text(most, chart.kind)} at {where}."
