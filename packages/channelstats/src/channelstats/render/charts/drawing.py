"""The parts that pictures are made of.

Rule: what comes from outside is text, never markup.
"""

from collections.abc import Iterable
from typing import Final

from markupsafe import Markup

WIDE: Final = 940
HALF: Final = 460
NARROW: Final = 360
"""Widths of pictures; the page shows the narrow one where there is no room for another."""

LETTER: Final = 7.7
"""About how wide a letter of a label is, in a wide font."""

SERIES: Final = 6
PALE: Final = 3
"""Colours that series have, and pale ones; the page's style sheet names them."""


def picture(kind: str, width: float, height: float, text: str, parts: Iterable[Markup]) -> Markup:
    """An image; ``text`` is what it says to whoever does not see it."""
    size = "narrow" if width <= NARROW else "wide"
    begin = Markup(
        '<svg class="{} {}" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">'
    ).format(kind, size, width, height, text)
    return begin + Markup("").join(parts) + Markup("</svg>")


def box(
    kind: str, left: float, top: float, wide: float, high: float, *, corner: float = 2
) -> Markup:
    shape = Markup(
        '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="{}"/>'
    )
    return shape.format(kind, left, top, max(wide, 0), max(high, 0), corner)


def rule(kind: str, left: float, top: float, right: float, bottom: float) -> Markup:
    shape = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
    return shape.format(kind, left, top, right, bottom)


def words(kind: str, left: float, base: float, text: str, anchor: str = "middle") -> Markup:
    shape = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
    return shape.format(kind, left, base, anchor, text)


def target(left: float, top: float, wide: float, high: float, tip: str) -> Markup:
    """A place that shows a text when it is pointed at."""
    shape = Markup(
        '<rect class="hit" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" data-tip="{}"/>'
    )
    return shape.format(left, top, wide, high, tip_text(tip))


def tip_text(tip: str) -> Markup:
    """A text of several lines as it is written in an attribute."""
    return Markup("&#10;").join(tip.split("\n"))


def colour(number: int, *, faint: bool) -> str:
    """The class of a series; what is there to compare with has paler ones of its own."""
    return f"f{number % PALE}" if faint else f"s{number % SERIES}"
