"""Charts as SVG, drawn by hand: they scale, print, take their colours from the page.

Rule: a chart is drawn twice, for a wide and for a narrow window, and the page shows one; its
numbers are beside it in a table. Nothing here depends on chance, so a page is the same each time.

Rule: a chart whose places lead somewhere is a group with a list of links, each named after what it
shows, and no image, whose parts nobody but the eye would find. The keyboard passes them by, as
there may be hundreds: the same links are in the table.

    drawing    elements, colours, the axis of values
    series     lines over time, bars
    heat       heat maps
    network    people and lines between them
"""

from collections.abc import Callable

from markupsafe import Markup

from channelstats.pages.model import Chart, Heat, Network, SeriesChart
from channelstats.render.charts.drawing import NARROW, WIDE, Leads, colour, nowhere, shape
from channelstats.render.charts.heat import FEWEST, STEPS, heat, ranges
from channelstats.render.charts.network import network
from channelstats.render.charts.series import note_text, series


def drawn(
    chart: Chart,
    *,
    width: float = WIDE,
    named: Callable[[str], str] = str,
    chosen: str = "",
    leads: Leads = nowhere,
) -> Markup:
    """A chart for wide windows, where it has that ``width``, and for narrow ones, with its legend.
    ``named`` gives what to call a person; whoever is ``chosen`` stands out.
    """

    def picture(width: float) -> Markup:
        if isinstance(chart, Network):
            return network(chart, width, named, chosen, leads)
        if isinstance(chart, Heat):
            return heat(chart, width, leads)
        return series(chart, width, leads)

    return picture(width) + picture(NARROW) + _legend(chart) + _notes(chart)


def _legend(chart: Chart) -> Markup:
    """What the colours mean, where there are several."""
    if isinstance(chart, Heat):
        samples = [
            (shape("rect", f"cell h{step}", x=3, width=16, height=16, rx=3), text)
            for step, text in ranges(chart)
        ]
        if any(size < FEWEST for size in chart.sizes):
            few = shape("rect", f"cell few h{STEPS}", x=3, width=16, height=16, rx=3)
            samples.append((few, f"paler: of fewer than {FEWEST} people"))
    elif isinstance(chart, Network) or len(chart.series) < 2:
        return Markup("")
    else:
        samples = [
            (_sample(chart, colour(number, faint=series.faint)), series.title)
            for number, series in enumerate(chart.series)
        ]
    entries = (
        Markup("<li>{}{}</li>").format(
            shape("svg", "", sample, viewBox="0 0 22 16", aria_hidden="true"), text
        )
        for sample, text in samples
    )
    return Markup('<ul class="key" aria-label="Legend">{}</ul>').format(Markup("").join(entries))


def _notes(chart: Chart) -> Markup:
    """What was noted on dates."""
    if not isinstance(chart, SeriesChart) or not chart.notes:
        return Markup("")
    entries = (Markup("<li>{}</li>").format(note_text(note)) for note in chart.notes)
    return Markup('<ul class="dated" aria-label="Notes">{}</ul>').format(Markup("").join(entries))


def _sample(chart: SeriesChart, kind: str) -> Markup:
    if chart.is_over_time:
        return shape("line", f"line {kind}", x1=0, y1=8, x2=22, y2=8)
    return shape("rect", f"bar {kind}", x=4, y=1, width=14, height=14, rx=3)
