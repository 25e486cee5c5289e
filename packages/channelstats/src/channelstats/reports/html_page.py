"""A report as one page of HTML that needs nothing else: no network, no script, no font.

Rule: every number is in a table or a list that a screen reader can read; pictures repeat them. What
came from outside is text, never markup.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from channelstats.render.emoji_signs import sign
from channelstats.render.names import Directory
from channelstats.render.words import change_text, number_text, plural
from channelstats.reports.charts import columns_svg
from channelstats.reports.model import (
    Columns,
    Emoji,
    Figure,
    HeatMap,
    Histogram,
    Line,
    Link,
    Person,
    Place,
    Report,
    Section,
    Span,
    Table,
)
from channelstats.reports.text import text_line

_ARROWS: Final[Mapping[str, str]] = {"up": "▲", "down": "▼", "new": "★", "from_zero": "▲"}


def html_of(report: Report, directory: Directory) -> str:
    """The page."""
    draw = _Drawing(directory)
    return _environment().get_template("report.html").render(report=report, draw=draw)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("channelstats.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["kind"] = lambda value, name: type(value).__name__ == name
    return environment


class _Drawing:
    """What the template asks for: spans, bars and charts."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def plain(self, line: Line) -> str:
        return text_line(line, self._directory)

    def line(self, line: Line, *, labels: bool = False) -> Markup:
        return Markup("").join(self._span(span, labels=labels) for span in line)

    def columns(self, chart: Columns) -> Markup:
        return columns_svg(chart)

    def is_narrow(self, section: Section) -> bool:
        """Whether two of them fit side by side."""
        tables = [block for block in section.blocks if isinstance(block, Table)]
        pictures = any(isinstance(block, Histogram | HeatMap | Columns) for block in section.blocks)
        return not pictures and bool(tables) and all(len(of.columns) < 3 for of in tables)

    def most(self, table: Table) -> Sequence[float]:
        """The largest number of each column."""
        each = ([_number(row[at]) for row in table.rows] for at in range(len(table.columns)))
        return [max(column, default=0) for column in each]

    def part(self, line: Line, most: float) -> str:
        """The length of a bar, per cent."""
        return f"{100 * _number(line) / most:.1f}" if most else "0"

    def longest(self, histogram: Histogram) -> float:
        return max(bar.percent for bar in histogram.bars) or 1

    def heat(self, heat: HeatMap, value: int) -> str:
        """How strong the colour of a cell is, per cent; nothing has none."""
        most = max(map(max, heat.values))
        return f"{15 + 85 * value / most:.0f}" if value else "0"

    def _span(self, span: Span, *, labels: bool) -> Markup:
        if isinstance(span, Figure):
            return _figure(span, labels=labels)
        if isinstance(span, Person):
            return _tag("person", "@", self._directory.person(span.uid))
        if isinstance(span, Place):
            return _tag("place", "#", self._directory.channel(span.cid))
        if isinstance(span, Emoji):
            shown = sign(span.name)
            glyph = Markup('<span class="sign" aria-hidden="true">{}</span> ').format(shown)
            return (glyph if shown else Markup("")) + _tag("emoji", ":", f"{span.name}:")
        if isinstance(span, Link):
            if not span.url:
                return escape(span.text)
            return Markup('<a href="{}" rel="noreferrer">{}</a>').format(span.url, span.text)
        return escape(span)


def _tag(kind: str, mark: str, name: str) -> Markup:
    return Markup('<span class="{}"><bdi>{}{}</bdi></span>').format(kind, mark, name)


def _figure(figure: Figure, *, labels: bool) -> Markup:
    change = figure.change
    number = number_text(change["cur"], percentage=figure.percentage)
    label = f" {plural(change['cur'], figure.label)}" if labels and figure.label else ""
    shown = Markup('<span class="number">{}</span>{}').format(number, label)
    changed = change_text(change)
    if not changed:
        return shown
    delta = Markup(' <span class="delta {}"><span aria-hidden="true">{}</span> {}</span>')
    return shown + delta.format(change["state"], _ARROWS[change["state"]], changed)


def _number(line: Line) -> float:
    return next((span.change["cur"] for span in line if isinstance(span, Figure)), 0)
