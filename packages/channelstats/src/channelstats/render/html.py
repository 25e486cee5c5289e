"""A page as one file of HTML that needs nothing else: no network, no script, no font. What its
templates and those of the dashboard have in common.

Rule: every number is in a table or a list that a screen reader can read; pictures repeat them. What
came from outside is text, never markup.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final, cast

import msgspec
import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from channelstats.metrics.quantities import Change
from channelstats.metrics.table import NUMERIC, Cell, Column, Kind, Link, Table
from channelstats.pages.model import Chart, Heat, Line, Page, Section, Tile
from channelstats.render.charts import drawn
from channelstats.render.names import Directory, emoji_sign
from channelstats.render.text import line_text, value_text
from channelstats.render.words import NOTHING, change_text, figure_text, plural

_ARROWS: Final[Mapping[str, str]] = {"up": "▲", "down": "▼", "new": "★", "from_zero": "▲"}


@cache
def environment(package: str) -> Environment:
    """What pages of the templates of a package are made in. Values are escaped; in a template
    `x is kind("Heat")` asks for a class.
    """
    made = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["kind"] = lambda value, name: type(value).__name__ == name
    made.filters["figure"] = figure_text
    made.globals.update(delta=delta, unchanged=unchanged, largest=largest, bar=bar)
    made.globals.update(NUMERIC=NUMERIC, Kind=Kind)
    return made


def delta(change: Change | None, kind: Kind, *, less_is_better: bool = False) -> Markup:
    """How a number changed, percentages in points; "" where it did not. It has a colour only where
    it is certain what is better; a word says it too.
    """
    text = "" if change is None else change_text(change, kind)
    if change is None or not text:
        return Markup("")
    arrow, meaning = _ARROWS[change["state"]], ""
    if less_is_better and change["state"] != "new":
        meaning = "better" if change["state"] == "down" else "worse"
        text += f", {meaning}"
    markup = Markup('<span class="{}"><span aria-hidden="true">{}</span> {}</span>')
    return markup.format(f"delta {meaning}".rstrip(), arrow, text)


def unchanged(change: Change) -> Markup:
    """What is said of a number that changed by less than half a per cent."""
    text = "no change" if change["cur"] == change["prev"] else "about the same"
    return Markup('<span class="delta">{}</span>').format(text)


def emoji(name: str) -> Markup:
    """The name of an emoji, after its sign where it has one here."""
    sign = Markup('<span class="sign" aria-hidden="true">{}</span> ').format(emoji_sign(name))
    markup = Markup('<span class="emoji"><bdi>:{}:</bdi></span>').format(name)
    return sign + markup if emoji_sign(name) else markup


def largest(table: Table) -> dict[str, float]:
    """The largest number of each column that is also drawn as bars."""
    most = {}
    for column in table.columns:
        if column.bar:
            cells = table.rows[column.name]
            numbers = cells.struct.field("cur") if isinstance(cells.dtype, pl.Struct) else cells
            most[column.name] = cast(float | None, numbers.max()) or 0
    return most


def bar(cell: Change | float | None, most: float) -> str:
    """The length of the bar of a cell, per cent."""
    number = cell["cur"] if isinstance(cell, dict) else cell or 0
    return f"{100 * number / most if most > 0 else 0:.1f}"


def html_of(page: Page, names: Directory) -> str:
    """The page."""
    template = environment("channelstats.render").get_template("report.html")
    return template.render(page=page, show=_PageContext(names))


class _PageContext:
    """What the template asks for: values, bars and charts."""

    def __init__(self, names: Directory) -> None:
        self._names = names

    def plain(self, line: Line) -> str:
        return line_text(line, self._names)

    def line(self, line: Line) -> Markup:
        return Markup("").join(
            escape(span) if isinstance(span, str) else self.value(span.value, span.kind, span.label)
            for span in line
        )

    def tile(self, tile: Tile) -> Markup:
        """The number, then how it changed."""
        return self.value(tile.change, tile.kind)

    def value(self, value: Cell | Link, kind: Kind, label: str = "") -> Markup:
        """A value of a kind; ``label`` is what is counted, for one of it."""
        if value is None:
            return escape(NOTHING)
        if isinstance(value, str):
            return self._named(value, kind)
        if isinstance(value, int | float):
            counted = f" {plural(value, label)}" if label else ""
            number = Markup('<span class="number">{}</span>').format(figure_text(value, kind))
            return number + counted
        if "message" in value:
            url = self._names.permalink(value["message"])
            link = Markup('<a href="{}" rel="noreferrer">{}</a>').format(url, value["text"])
            return link if url else escape(value["text"])
        if kind is Kind.CHANGE:  # the number itself is in another column
            return unchanged(value) if value["state"] == "same" else delta(value, Kind.NUMBER)
        number, changed = self.value(value["cur"], kind, label), delta(value, kind)
        return Markup("{} {}").format(number, changed) if changed else number

    def _named(self, cell: str, kind: Kind) -> Markup:
        if kind is Kind.EMOJI:
            return escape(self._names.called(cell, kind)) if self._names.signs else emoji(cell)
        if kind in (Kind.PERSON, Kind.CHANNEL):
            name = value_text(cell, kind, self._names)
            return Markup('<span class="{}"><bdi>{}</bdi></span>').format(kind, name)
        if kind is Kind.MESSAGE:
            return self.value(Link(message=cell, text="Message"), kind)
        return escape(cell)

    def is_narrow(self, section: Section) -> bool:
        """Whether two of them fit side by side."""
        tables = section.tables
        short = all(len(table.columns) < 3 for table in tables)
        return section.chart is None and bool(tables) and short

    def draw(self, chart: Chart) -> Markup:
        if isinstance(chart, Heat):
            rows = tuple(value_text(row, chart.row_kind, self._names) for row in chart.rows)
            chart = msgspec.structs.replace(chart, rows=rows)
        return drawn(chart, named=self._names.person)

    def heat_table(self, chart: Heat) -> Table:
        """The numbers of a heat map."""
        columns = (
            Column("row", "", chart.row_kind),
            *(Column(name, name, chart.kind) for name in chart.columns),
        )
        rows = [(row, *values) for row, values in zip(chart.rows, chart.values, strict=True)]
        frame = pl.DataFrame(rows, [column.name for column in columns], orient="row")
        return Table(chart.name, chart.title, columns, frame)
