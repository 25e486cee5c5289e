"""Charts as SVG, drawn by hand: they scale, print, and take their colours from the page.

Rule: a chart has a text that says what it shows; its numbers are beside it in a table.
"""

from typing import Final

from markupsafe import Markup

from channelstats.render.words import number_text
from channelstats.reports.model import Columns

_WIDTH: Final = 720
_HEIGHT: Final = 240
_TOP: Final = 34
_BOTTOM: Final = 28
_FILLED: Final = 0.62
"""Of the room of a label."""


def columns_svg(chart: Columns) -> Markup:
    """Columns of now beside thinner ones of before."""
    highest = max([*chart.now, *chart.before, 1])
    room = _WIDTH / len(chart.labels)
    floor, tall = _HEIGHT - _BOTTOM, _HEIGHT - _TOP - _BOTTOM
    drawn = [
        Markup('<line class="axis" x1="0" x2="{}" y1="{}" y2="{}"/>').format(_WIDTH, floor, floor)
    ]
    before = chart.before or (None,) * len(chart.labels)
    for number, (label, now, then) in enumerate(zip(chart.labels, chart.now, before, strict=True)):
        left = room * number + room * (1 - _FILLED) / 2
        wide = room * _FILLED
        middle = left + wide / 2
        if then is not None:
            drawn.append(_column("before", left, floor, wide * 0.34, tall * then / highest))
            left, wide = left + wide * 0.38, wide * 0.62
        high = tall * now / highest
        drawn += [
            _column("now", left, floor, wide, high),
            _text("value", left + wide / 2, floor - high - 7, number_text(now)),
            _text("label", middle, _HEIGHT - 8, label),
        ]
    begin = Markup('<svg class="columns" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
        _WIDTH, _HEIGHT, chart.caption
    )
    return begin + Markup("").join(drawn) + Markup("</svg>")


def _column(kind: str, left: float, floor: float, wide: float, high: float) -> Markup:
    shape = Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="3"/>')
    return shape.format(kind, left, floor - high, wide, high)


def _text(kind: str, middle: float, base: float, text: str) -> Markup:
    shape = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>')
    return shape.format(kind, middle, base, text)
