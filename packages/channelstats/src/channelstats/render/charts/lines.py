"""Lines over time.

Rule: a gap in the numbers is a gap in the line.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from markupsafe import Markup

from channelstats.render.charts.drawing import LETTER, WIDE, colour, picture, rule, target, words
from channelstats.render.charts.scale import scale_of, spread
from channelstats.render.words import date_text, figure_text, mark_texts
from channelstats.views.model import Lines, Series

_HIGH: Final = {True: 250, False: 220}
_TOP, _FOOT, _RIGHT = 14, 30, 16
_DOTS: Final = 32
"""Up to so many points each is marked."""


def lines(chart: Lines, width: float) -> Markup:
    """The picture."""
    values = [value for of in chart.series for value in of.values if value is not None]
    return picture("lines", width, _HIGH[width >= WIDE], _says(chart), _Lines(chart, width, values))


class _Lines:
    """The parts of the picture, in the order in which they lie upon each other."""

    def __init__(self, chart: Lines, width: float, values: Sequence[float]) -> None:
        self._chart, self._scale = chart, scale_of(values, chart.kind)
        marks = mark_texts(self._scale.marks, chart.kind)
        self._left = 12 + LETTER * max(map(len, marks))
        self._floor = _HIGH[width >= WIDE] - _FOOT
        self._width, self._wide = width, width - self._left - _RIGHT
        self._marks = marks
        self._step = self._wide / max(len(chart.labels) - 1, 1)

    def __iter__(self) -> Iterator[Markup]:
        yield from self._grid()
        plain = [of for of in self._chart.series if not of.faint]
        if len(plain) == 1:
            for run in _runs(plain[0].values):
                yield self._area(run)
        for number, of in reversed(list(enumerate(self._chart.series))):
            yield from self._line(of, colour(number, faint=of.faint))
        for at, label in enumerate(self._chart.labels):
            left = max(self._across(at) - self._step / 2, 0)
            yield target(left, _TOP, self._step, self._floor - _TOP, self._tip(at, label))

    def _across(self, at: int) -> float:
        if len(self._chart.labels) == 1:
            return self._left + self._wide / 2
        return self._left + self._step * at

    def _up(self, value: float) -> float:
        return self._floor - self._scale.part(value) * (self._floor - _TOP)

    def _grid(self) -> Iterator[Markup]:
        for mark, text in zip(self._scale.marks, self._marks, strict=True):
            up = self._up(mark)
            yield rule("axis" if not mark else "grid", self._left, up, self._width - _RIGHT, up)
            yield words("label", self._left - 8, up + 4, text, "end")
        for at in spread(len(self._chart.labels), int(self._wide / 64)):
            across = self._across(at)
            anchor = "middle" if across + 24 < self._width else "end"
            yield words(
                "label", across, self._floor + 20, date_text(self._chart.labels[at]), anchor
            )

    def _area(self, run: Sequence[tuple[int, float]]) -> Markup:
        points = self._points(run)
        first, last = self._across(run[0][0]), self._across(run[-1][0])
        shape = Markup('<path class="area" d="M{:.1f},{:.1f} L{} L{:.1f},{:.1f} Z"/>')
        return shape.format(first, self._floor, points, last, self._floor)

    def _line(self, of: Series, kind: str) -> Iterator[Markup]:
        marked = len(of.values) <= _DOTS and not of.faint
        for run in _runs(of.values):
            if len(run) > 1:
                shape = Markup('<polyline class="line {}" points="{}"/>')
                yield shape.format(kind, self._points(run))
            for at, value in run if marked or len(run) == 1 else ():
                shape = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3"/>')
                yield shape.format(kind, self._across(at), self._up(value))

    def _points(self, run: Sequence[tuple[int, float]]) -> str:
        return " ".join(f"{self._across(at):.1f},{self._up(value):.1f}" for at, value in run)

    def _tip(self, at: int, label: str) -> str:
        return tip(date_text(label, long=True), self._chart, at)


def tip(label: str, chart: Lines, at: int) -> str:
    """What is shown of a place: a line for each series."""
    of = (f"{s.title}: {figure_text(s.values[at], chart.kind)}" for s in chart.series)
    return "\n".join((label, *of))


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Points that hang together: their places and values."""
    found: list[list[tuple[int, float]]] = [[]]
    for at, value in enumerate(values):
        if value is not None:
            found[-1].append((at, value))
        elif found[-1]:
            found.append([])
    return [run for run in found if run]


def _says(chart: Lines) -> str:
    """The picture in words: from where to where, and the highest of each line."""
    if not chart.labels:
        return f"{chart.title}: nothing in this period."
    span = f"{date_text(chart.labels[0], long=True)} to {date_text(chart.labels[-1], long=True)}"
    return f"{chart.title}, {chart.axis}, {span}. " + " ".join(
        _series_says(of, chart) for of in chart.series
    )


def _series_says(of: Series, chart: Lines) -> str:
    found = [(value, at) for at, value in enumerate(of.values) if value is not None]
    if not found:
        return f"{of.title}: nothing."
    most, at = max(found, key=lambda one: (one[0], -one[1]))
    least = min(value for value, _ in found)
    return (
        f"{of.title}: between {figure_text(least, chart.kind)} and"
        f" {figure_text(most, chart.kind)}, the most on {date_text(chart.labels[at])}."
    )
