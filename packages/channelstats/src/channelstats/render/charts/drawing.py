"""What charts are drawn with: elements, colours, and the axis of values.

Rule: what comes from outside is text, never markup. An axis begins at nothing, so lengths can be
compared, and its marks are round.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from markupsafe import Markup, escape

from channelstats.metrics.table import Kind
from channelstats.pages.model import SeriesChart
from channelstats.render.words import mark_texts

Leads: TypeAlias = Callable[[Sequence[str]], str]
"""The address that a place of a chart leads to, by its labels or by the ID that it stands for; ""
for none."""

WIDE: Final = 940
MAIN: Final = 660
HALF: Final = 460
NARROW: Final = 360
"""Widths of charts; the page shows the narrow one where there is no room for another. What stands
beside the main one leaves that room to be high.
"""

_HEIGHTS: Final[Mapping[float, int]] = {WIDE: 250, MAIN: 540}

LETTER: Final = 7.7
"""About how wide a letter of a label is, in a wide font."""

SERIES: Final = 6
PALE: Final = 3
"""Colours that series have, and pale ones; the page's style sheet names them."""

_TOP, _FOOT, _RIGHT = 22, 30, 16
_MARKS: Final = 4
_ROUND: Final = (1, 2, 2.5, 5, 10)
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_ROUND_SECONDS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(number * _MINUTE for number in (1, 2, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 6, 12)),
    *(number * _DAY for number in (1, 2, 4, 7, 14, 28, 56, 112, 224, 448)),
)


def shape(tag: str, kind: str, content: str = "", /, **attributes: float | str) -> Markup:
    """An element of the class ``kind``; `text_anchor` is the attribute `text-anchor`. Lengths have
    one decimal.
    """
    written = [f'class="{escape(kind)}"'] if kind else []
    for name, value in attributes.items():
        text = str(escape(value)) if isinstance(value, str) else f"{value:.1f}"
        lines = text.replace("\n", "&#10;")
        written.append(f'{name.replace("_", "-")}="{lines}"')
    return Markup(f"<{tag} {' '.join(written)}>{escape(content)}</{tag}>")  # noqa: S704 - escaped


class Place(NamedTuple):
    """A transparent shape that shows ``tip`` when it is pointed at, and leads ``to`` somewhere."""

    tag: str
    size: Mapping[str, float]
    tip: str
    to: str


def nowhere(_: Sequence[str]) -> str:
    return ""


def picture(
    kind: str, width: float, height: float, says: str, parts: Iterable[Markup | Place]
) -> Markup:
    """An image, or a group of links where places lead somewhere; ``says`` is what it tells whoever
    does not see it.
    """
    drawing, places = list[Markup](), list[Place]()
    for part in parts:
        if isinstance(part, Place):
            places.append(part)
        else:
            drawing.append(part)
    is_image = not any(place.to for place in places)
    if is_image:
        inside = Markup("").join((*drawing, *map(_pointed_at, places)))
    else:
        listed = Markup("").join(_listed(place) for place in places if place.to)
        pointed_at = (_pointed_at(place) for place in places if not place.to)
        seen = shape("g", "", Markup("").join((*drawing, *pointed_at)), aria_hidden="true")
        inside = seen + shape("g", "", listed, role="list")
    box = f"0 0 {width:.0f} {height:.0f}"
    role = "img" if is_image else "group"
    size = "narrow" if width <= NARROW else "wide"
    return shape("svg", f"{kind} {size}", inside, viewBox=box, role=role, aria_label=says)


def _pointed_at(place: Place) -> Markup:
    return shape(place.tag, "hit", **place.size, data_tip=place.tip)


def _listed(place: Place) -> Markup:
    inside = shape(place.tag, "hit", **place.size)
    link = shape("a", "", inside, href=place.to, aria_label=place.tip, tabindex="-1")
    return shape("g", "", link, role="listitem")


def label(text: str, x: float, y: float, anchor: str = "middle") -> Markup:
    return shape("text", "label", text, x=x, y=y, text_anchor=anchor)


def target(x: float, y: float, width: float, height: float, tip: str, to: str = "") -> Place:
    return Place("rect", {"x": x, "y": y, "width": width, "height": height}, tip, to)


def colour(number: int, *, faint: bool) -> str:
    """The class of a series; what is there to compare with has paler ones of its own."""
    return f"f{number % PALE}" if faint else f"s{number % SERIES}"


class Plot:
    """Where values are drawn: from ``left`` to ``right``, and up from ``floor``."""

    def __init__(self, chart: SeriesChart, width: float) -> None:
        values = [value for series in chart.series for value in series.values if value is not None]
        self._marks = marks_of(values, chart.kind)
        self._texts = mark_texts(self._marks, chart.kind)
        self.height = _HEIGHTS.get(width, 220)
        self.left, self.right = 12 + LETTER * max(map(len, self._texts)), width - _RIGHT
        self.top, self.floor = _TOP, self.height - _FOOT

    @property
    def width(self) -> float:
        return self.right - self.left

    def up(self, value: float) -> float:
        """Where a value is."""
        return self.floor - min(value / self._marks[-1], 1) * (self.floor - self.top)

    def grid(self) -> Iterator[Markup]:
        for mark, text in zip(self._marks, self._texts, strict=True):
            up = self.up(mark)
            kind = "grid" if mark else "axis"
            yield shape("line", kind, x1=self.left, y1=up, x2=self.right, y2=up)
            yield label(text, self.left - 8, up + 4, "end")


def marks_of(values: Sequence[float], kind: Kind) -> list[float]:
    """The numbers that an axis names, from 0 to what no value is above."""
    highest = max(values, default=0)
    step = _step(highest / _MARKS, kind)
    return [step * number for number in range(int(max(1, -(-highest // step))) + 1)]


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
