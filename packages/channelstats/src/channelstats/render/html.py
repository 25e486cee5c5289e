"""A report as one page of HTML that needs nothing else: no network, no script, no font.

Rule: every number is in a table or a list that a screen reader can read; pictures repeat them. What
came from outside is text, never markup.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from channelstats.render.charts.bars import bars
from channelstats.render.charts.drawing import NARROW, WIDE, colour
from channelstats.render.charts.heat import heat
from channelstats.render.emoji_signs import sign
from channelstats.render.names import Directory
from channelstats.render.text import line_text, value_text
from channelstats.render.words import NOTHING, change_text, figure_text, plural
from channelstats.views.model import (
    NUMERIC,
    Bars,
    Cell,
    Column,
    Heat,
    Kind,
    Layout,
    Line,
    Link,
    Report,
    Section,
    Series,
    Table,
    Tile,
)

_ARROWS: Final[Mapping[str, str]] = {"up": "▲", "down": "▼", "new": "★", "from_zero": "▲"}
_NAMED_AFTER: Final = frozenset({"rank", "times"})
"""First columns that name no row; the second one does."""


def html_of(report: Report, names: Directory) -> str:
    """The page."""
    draw = _Drawing(names)
    return (
        environment("channelstats.render")
        .get_template("report.html")
        .render(report=report, draw=draw)
    )


@cache
def environment(package: str) -> Environment:
    """What pages of the templates of a package are made in. Values are escaped; in a template
    `x is kind("Bars")` asks for a class.
    """
    found = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.tests["kind"] = lambda value, name: type(value).__name__ == name
    return found


class _Drawing:
    """What the template asks for: values, bars and charts."""

    def __init__(self, names: Directory) -> None:
        self._names = names

    # ── texts and tiles ──────────────────────────────────────────────────────────────────────────

    def plain(self, line: Line) -> str:
        return line_text(line, self._names)

    def line(self, line: Line) -> Markup:
        return Markup("").join(
            escape(span) if isinstance(span, str) else self.value(span.value, span.kind, span.label)
            for span in line
        )

    def tile(self, tile: Tile) -> Markup:
        after = self.line(tile.after)
        return (
            after if tile.change is None and after else self.value(tile.change, tile.kind) + after
        )

    def value(self, value: Cell, kind: Kind, label: str = "") -> Markup:
        """A value of a kind; ``label`` is what is counted, for one of it."""
        if value is None:
            return escape(NOTHING)
        if isinstance(value, Link):
            url = self._names.permalink(value.message)
            shown = Markup('<a href="{}" rel="noreferrer">{}</a>').format(url, value.text)
            return shown if url else escape(value.text)
        if isinstance(value, str):
            return self._named(value, kind)
        if isinstance(value, int | float):
            return _number(value, kind, label)
        shown, changed = _number(value["cur"], kind, label), change_text(value, kind)
        if not changed:
            return shown
        # It has no colour: of most numbers nobody knows which way is better.
        delta = Markup(' <span class="delta"><span aria-hidden="true">{}</span> {}</span>')
        return shown + delta.format(_ARROWS[value["state"]], changed)

    def _named(self, of: str, kind: Kind) -> Markup:
        if kind is Kind.PERSON:
            return _tag("person", "@", self._names.person(of))
        if kind is Kind.CHANNEL:
            return _tag("channel", "#", self._names.channel(of))
        if kind is not Kind.EMOJI:
            return escape(of)
        glyph = Markup('<span class="sign" aria-hidden="true">{}</span> ').format(sign(of))
        return (glyph if sign(of) else Markup("")) + _tag("emoji", ":", f"{of}:")

    # ── tables ───────────────────────────────────────────────────────────────────────────────────

    def is_numeric(self, column: Column) -> bool:
        return column.kind in NUMERIC

    def is_histogram(self, table: Table) -> bool:
        return table.layout is Layout.BARS

    def row_header(self, table: Table) -> int:
        """Which column names the rows."""
        return 1 if table.columns[0].name in _NAMED_AFTER else 0

    def is_narrow(self, section: Section) -> bool:
        """Whether two of them fit side by side."""
        tables = [part for part in section.parts if isinstance(part, Table)]
        pictures = any(isinstance(part, Bars | Heat) for part in section.parts)
        short = all(len(of.columns) < 3 and of.layout is not Layout.BARS for of in tables)
        return not pictures and bool(tables) and short

    def most(self, table: Table) -> Sequence[float]:
        """The largest number of each column."""
        each = ([_plain(row[at]) for row in table.rows] for at in range(len(table.columns)))
        return [max(column, default=0) for column in each]

    def part(self, cell: Cell, most: float) -> str:
        """The length of a bar, per cent."""
        return f"{100 * _plain(cell) / most:.1f}" if most else "0"

    # ── charts ───────────────────────────────────────────────────────────────────────────────────

    def draw(self, chart: Bars | Heat) -> Markup:
        """The chart, once for wide and once for narrow windows."""
        shown = self._with_names(chart) if isinstance(chart, Heat) else chart
        return _drawn(shown, WIDE) + _drawn(shown, NARROW)

    def series(self, chart: Bars | Heat) -> list[tuple[str, Series]]:
        """What a key has to tell apart, with their classes."""
        if isinstance(chart, Heat):
            return []
        return [(colour(number, faint=of.faint), of) for number, of in enumerate(chart.series)]

    def heat_table(self, chart: Heat) -> Table:
        """The numbers of a heat map."""
        columns = (
            Column("row", "", chart.row_kind),
            *(Column(name, name, chart.kind) for name in chart.columns),
        )
        rows = ((row, *values) for row, values in zip(chart.rows, chart.values, strict=True))
        return Table(chart.name, chart.title, columns, tuple(rows))

    def _with_names(self, chart: Heat) -> Heat:
        rows = tuple(value_text(row, chart.row_kind, self._names) for row in chart.rows)
        return msgspec.structs.replace(chart, rows=rows)


def _drawn(chart: Bars | Heat, width: float) -> Markup:
    return heat(chart, width) if isinstance(chart, Heat) else bars(chart, width)


def _tag(kind: str, mark: str, name: str) -> Markup:
    return Markup('<span class="{}"><bdi>{}{}</bdi></span>').format(kind, mark, name)


def _number(number: float, kind: Kind, label: str) -> Markup:
    counted = f" {plural(number, label)}" if label else ""
    return Markup('<span class="number">{}</span>{}').format(figure_text(number, kind), counted)


def _plain(cell: Cell) -> float:
    if isinstance(cell, int | float):
        return cell
    return cell["cur"] if isinstance(cell, dict) else 0
