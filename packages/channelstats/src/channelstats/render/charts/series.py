"""Lines over time, and bars, side by side where there are several series.

Rule: a gap in the numbers is a gap in the line; bars that are there to compare with are thinner and
paler than what is looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup

from channelstats.pages.model import DateNote, SeriesChart
from channelstats.render.charts.drawing import (
    LETTER,
    Leads,
    Place,
    Plot,
    colour,
    label,
    nowhere,
    picture,
    shape,
    spread,
    target,
)
from channelstats.render.words import cut_off, date_text, figure_text, mark_texts

_DOTS: Final = 32
"""Up to so many points each is marked."""

_NOTE: Final = 20
"""Letters of a note in the picture."""

_DATE_ROOM: Final = 64
_FILLED: Final = 0.72
"""What bars fill of the room of a label."""

_FAINT: Final = 0.45
"""How wide a faint bar is, against another."""


def series(chart: SeriesChart, width: float, leads: Leads = nowhere) -> Markup:
    plot = Plot(chart, width)
    parts = _lines(chart, plot, leads) if chart.is_over_time else _bars(chart, plot, leads)
    return picture(chart.drawn_as, width, plot.height, _says(chart), parts)


def _lines(chart: SeriesChart, plot: Plot, leads: Leads) -> Iterator[Markup | Place]:
    count = len(chart.labels)
    step = plot.width / max(count - 1, 1)
    begin = plot.left if count > 1 else plot.left + plot.width / 2
    across = [begin + step * at for at in range(count)]
    yield from plot.grid()
    yield from _noted(chart, plot, dict(zip(chart.labels, across, strict=True)))
    for at in spread(count, int(plot.width / _DATE_ROOM)):
        anchor = "middle" if across[at] + 24 < plot.right + 16 else "end"
        yield label(date_text(chart.labels[at]), across[at], plot.floor + 20, anchor)
    is_filled = sum(not series.faint for series in chart.series) == 1
    for number, series in reversed(list(enumerate(chart.series))):
        kind = colour(number, faint=series.faint)
        for run in _runs(series.values):
            place = [(across[at], plot.up(value)) for at, value in run]
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in place)
            if is_filled and not series.faint:
                ends = (f"{x:.1f},{plot.floor}" for x, _ in (place[-1], place[0]))
                yield shape("polygon", "area", points=" ".join((points, *ends)))
            if len(run) > 1:
                yield shape("polyline", f"line {kind}", points=points)
            if len(run) == 1 or (count <= _DOTS and not series.faint):
                yield from (shape("circle", f"dot {kind}", cx=x, cy=y, r=3) for x, y in place)
    for at, x in enumerate(across):
        left = max(x - step / 2, 0)
        size = step, plot.floor - plot.top
        yield target(left, plot.top, *size, _tip(chart, at), leads((chart.labels[at],)))


def note_text(note: DateNote) -> str:
    return f"{date_text(note.date, long=True)}: {note.text}"


def _noted(chart: SeriesChart, plot: Plot, across: Mapping[str, float]) -> Iterator[Markup]:
    """A thin line where something was noted, with its text where there is room for that: what has
    none is below the chart, in the table and shown when pointed at.
    """
    begin = 0.0
    for note in chart.notes:
        at, text = across[note.label], cut_off(note.text, _NOTE)
        yield shape("line", "noted", x1=at, y1=plot.top - 6, x2=at, y2=plot.floor)
        length = LETTER * len(text)
        left = at if at + length <= plot.right else at - length
        if left >= begin:
            yield label(text, at, plot.top - 10, "start" if left == at else "end")
            begin = left + length + LETTER


def _bars(chart: SeriesChart, plot: Plot, leads: Leads) -> Iterator[Markup | Place]:
    yield from plot.grid()
    if not chart.labels:
        return
    room = plot.width / len(chart.labels)
    shares = [_FAINT if series.faint else 1 for series in chart.series]
    unit = room * _FILLED / sum(shares)
    labels = [date_text(text) for text in chart.labels]
    longest = max(map(len, labels)) * LETTER + 8
    named = spread(len(labels), int(plot.width / longest))
    has_values = len(chart.series) == 1 and room >= 30
    for at, (text_of, text) in enumerate(zip(chart.labels, labels, strict=True)):
        across = plot.left + room * at
        if at in named:
            yield label(text, across + room / 2, plot.floor + 20)
        begin = across + room * (1 - _FILLED) / 2
        for number, (series, share) in enumerate(zip(chart.series, shares, strict=True)):
            value, wide = series.values[at] or 0, unit * share
            up, kind = plot.up(value), colour(number, faint=series.faint)
            size = {"width": max(wide - 1, 0), "height": plot.floor - up}
            yield shape("rect", f"bar {kind}", x=begin + 0.5, y=up, rx=2, **size)
            if has_values and value:
                [short] = mark_texts([round(value, 1)], chart.kind)
                place = {"x": begin + wide / 2, "y": up - 6}
                yield shape("text", "value", short, text_anchor="middle", **place)
            begin += wide
        to = leads((text_of,)) if chart.series[0].values[at] else ""
        yield target(across, plot.top, room, plot.floor - plot.top, _tip(chart, at), to)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Points that hang together: their places and values."""
    runs: list[list[tuple[int, float]]] = [[]]
    for at, value in enumerate(values):
        if value is not None:
            runs[-1].append((at, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _tip(chart: SeriesChart, at: int) -> str:
    """What is shown of a place: a line for each series."""
    values = (f"{s.title}: {figure_text(s.values[at], chart.kind)}" for s in chart.series)
    notes = (f"Note: {note_text(note)}" for note in chart.notes if note.label == chart.labels[at])
    return "\n".join((date_text(chart.labels[at], long=True), *values, *notes))


def _says(chart: SeriesChart) -> str:
    """The chart in words: from where to where, and the most of each series."""
    if not chart.labels:
        return f"{chart.title}: nothing in this period."
    said = [f"{chart.title}, {chart.axis}."]
    if chart.is_over_time:
        first, last = (date_text(chart.labels[at], long=True) for at in (0, -1))
        said = [f"{chart.title}, {chart.axis}, {first} to {last}."]
    for series in chart.series:
        known = [value for value in series.values if value is not None]
        if not any(known):
            said.append(f"{series.title}: nothing.")
            continue
        where = date_text(chart.labels[series.values.index(max(known))], long=True)
        least, most = (figure_text(value, chart.kind) for value in (min(known), max(known)))
        if chart.is_over_time:
            said.append(f"{series.title}: between {least} and {most}, the most on {where}.")
        else:
            said.append(f"{series.title}: the most at {where}, {most}.")
    if chart.notes:
        said.append(f"Notes: {'; '.join(map(note_text, chart.notes))}.")
    return " ".join(said)
