"""Bars, side by side where there are several series.

Rule: what is there to compare with is thinner and paler than what is looked at.
"""

from collections.abc import Iterator
from typing import Final

from markupsafe import Markup

from channelstats.render.charts.drawing import (
    LETTER,
    WIDE,
    box,
    colour,
    picture,
    rule,
    target,
    words,
)
from channelstats.render.charts.scale import scale_of, spread
from channelstats.render.words import figure_text, mark_texts
from channelstats.views.model import Bars

_HIGH: Final = {True: 240, False: 210}
_TOP, _FOOT, _RIGHT = 22, 30, 8
_FILLED: Final = 0.72
"""Of the room of a label."""

_FAINT: Final = 0.45
"""How wide a faint bar is, against another."""


def bars(chart: Bars, width: float) -> Markup:
    """The picture."""
    return picture("bars", width, _HIGH[width >= WIDE], _says(chart), _parts(chart, width))


def _parts(chart: Bars, width: float) -> Iterator[Markup]:
    values = [value for of in chart.series for value in of.values if value is not None]
    scale = scale_of(values, chart.kind)
    marks = mark_texts(scale.marks, chart.kind)
    left = 12 + LETTER * max(map(len, marks))
    floor = _HIGH[width >= WIDE] - _FOOT
    for mark, text in zip(scale.marks, marks, strict=True):
        up = floor - scale.part(mark) * (floor - _TOP)
        yield rule("axis" if not mark else "grid", left, up, width - _RIGHT, up)
        yield words("label", left - 8, up + 4, text, "end")
    if not chart.labels:
        return
    room = (width - left - _RIGHT) / len(chart.labels)
    shares = [_FAINT if of.faint else 1 for of in chart.series]
    unit = room * _FILLED / sum(shares)
    longest = max(map(len, chart.labels)) * LETTER + 8
    named = set(spread(len(chart.labels), int((width - left) / longest)))
    written = len(chart.series) == 1 and room >= 30
    for at, label in enumerate(chart.labels):
        across = left + room * at
        if at in named:
            yield words("label", across + room / 2, floor + 20, label)
        begin = across + room * (1 - _FILLED) / 2
        for number, (of, share) in enumerate(zip(chart.series, shares, strict=True)):
            wide, value = unit * share, of.values[at]
            high = scale.part(value or 0) * (floor - _TOP)
            kind = f"bar {colour(number, faint=of.faint)}"
            yield box(kind, begin + 0.5, floor - high, wide - 1, high)
            if written and value:
                short = mark_texts([round(value, 1)], chart.kind)[0]
                yield words("value", begin + wide / 2, floor - high - 6, short)
            begin += wide
        yield target(across, _TOP, room, floor - _TOP, _tip(chart, at))


def _tip(chart: Bars, at: int) -> str:
    of = (f"{s.title}: {figure_text(s.values[at], chart.kind)}" for s in chart.series)
    return "\n".join((chart.labels[at], *of))


def _says(chart: Bars) -> str:
    said = []
    for of in chart.series:
        found = [(value, at) for at, value in enumerate(of.values) if value]
        if not found:
            said.append(f"{of.title}: nothing.")
            continue
        most, at = max(found, key=lambda one: (one[0], -one[1]))
        text = figure_text(most, chart.kind)
        said.append(f"{of.title}: the most at {chart.labels[at]}, {text}.")
    return f"{chart.title}, {chart.axis}. " + " ".join(said)
