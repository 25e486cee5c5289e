"""A report as plain text, for a terminal or a mail.

Rule: it reads well without colours and in a window of 100 columns; charts become letters or are
left out.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from channelstats.render.names import Directory
from channelstats.render.words import NOTHING, change_text, figure_text, plural, width
from channelstats.views.model import (
    NUMERIC,
    Cell,
    Heat,
    Kind,
    Layout,
    Line,
    Link,
    Part,
    Report,
    Table,
    Text,
    Tile,
    Tiles,
)

_SHADES: Final = " ░▒▓█"
_BAR: Final = 40
"""Width of the longest bar."""


def text_of(report: Report, names: Directory) -> str:
    """The whole report, with a line end at its end."""
    return "\n".join(_lines(report, names)) + "\n"


def _lines(report: Report, names: Directory) -> Iterator[str]:
    yield from _headed(line_text(report.title, names), "=")
    if report.period:
        yield report.period
    yield ""
    for part in report.lead:
        yield from _part(part, names)
    for section in report.sections:
        note = f" ({section.note})" if section.note else ""
        yield from _headed(f"{section.title}{note}", "-")
        if not section.parts:
            yield from ("Nothing.", "")
        for part in section.parts:
            yield from _part(part, names)


def _headed(title: str, line: str) -> tuple[str, str]:
    return title, line * width(title)


def _part(part: Part, names: Directory) -> Iterator[str]:
    if isinstance(part, Text):
        yield from (line_text(line, names) for line in part.lines)
    elif isinstance(part, Tiles):
        longest = max(len(tile.title) for tile in part.tiles)
        for tile in part.tiles:
            yield f"{tile.title:<{longest}}  {_tile(tile, names)}"
    elif isinstance(part, Table):
        yield from _table(part, names)
    elif isinstance(part, Heat):
        yield from _heat_map(part, names)
    else:
        return  # its numbers are in the table beside it
    yield ""


def _tile(tile: Tile, names: Directory) -> str:
    after = line_text(tile.after, names)
    if tile.change is None and after:
        return after
    return value_text(tile.change, tile.kind, names) + after


def _table(table: Table, names: Directory) -> Iterator[str]:
    numeric = [column.kind in NUMERIC for column in table.columns]
    titles = [column.title for column in table.columns]
    rows = [
        [
            value_text(cell, column.kind, names)
            for column, cell in zip(table.columns, row, strict=True)
        ]
        for row in table.rows
    ]
    if table.layout is Layout.BARS:
        _add_bars(table, titles, rows, numeric)
    links = [_url(row, names) for row in table.rows]
    if any(links):
        titles, numeric = [*titles, "Link"], [*numeric, False]
        rows = [[*row, url] for row, url in zip(rows, links, strict=True)]
    yield from aligned([titles, *rows], numeric)


def _add_bars(table: Table, titles: list[str], rows: list[list[str]], numeric: list[bool]) -> None:
    """A column of bars after the one that is drawn."""
    at = next(number for number, column in enumerate(table.columns) if column.bar)
    values = [value if isinstance(value := row[at], int | float) else 0 for row in table.rows]
    longest = max(values, default=0) or 1
    titles.insert(at + 1, "")
    numeric.insert(at + 1, False)
    for row, value in zip(rows, values, strict=True):
        row.insert(at + 1, "█" * round(value * _BAR / longest))


def aligned(rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> Iterator[str]:
    """Rows in columns as wide as they need."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for cell, wide, right in zip(row, widths, numeric, strict=True):
            space = " " * (wide - width(cell))
            cells.append(space + cell if right else cell + space)
        yield "  ".join(cells).rstrip()


def _heat_map(heat: Heat, names: Directory) -> Iterator[str]:
    most = max(value or 0 for row in heat.values for value in row)
    rows = [["", "".join(f"{column:<3}" for column in heat.columns)]]
    for label, values in zip(heat.rows, heat.values, strict=True):
        name = value_text(label, heat.row_kind, names)
        rows.append([name, "".join(shade(of or 0, most) * 2 + " " for of in values)])
    yield heat.title
    yield from aligned(rows, [False, False])


def shade(value: float, most: float) -> str:
    """One of five letters; only nothing is blank."""
    return _SHADES[int(-(-value * (len(_SHADES) - 1) // most))] if most else _SHADES[0]


def line_text(line: Line, names: Directory) -> str:
    return "".join(
        span if isinstance(span, str) else value_text(span.value, span.kind, names, span.label)
        for span in line
    )


def value_text(value: Cell, kind: Kind, names: Directory, label: str = "") -> str:
    """A value of a kind; ``label`` is what is counted, for one of it."""
    if value is None:
        return NOTHING
    if isinstance(value, Link):
        return value.text
    if isinstance(value, str):
        named = {
            Kind.PERSON: lambda: f"@{names.person(value)}",
            Kind.CHANNEL: lambda: f"#{names.channel(value)}",
            Kind.EMOJI: lambda: f":{value}:",
        }
        return named[kind]() if kind in named else value
    if isinstance(value, int | float):
        number, changed = value, ""
    else:
        number, changed = value["cur"], change_text(value, kind)
    counted = f" {plural(number, label)}" if label else ""
    return f"{figure_text(number, kind)}{f' ({changed})' if changed else ''}{counted}"


def _url(row: Sequence[Cell], names: Directory) -> str:
    return next((names.permalink(cell.message) for cell in row if isinstance(cell, Link)), "")
