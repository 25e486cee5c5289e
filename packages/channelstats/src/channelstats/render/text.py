"""A page as plain text, for a terminal or a mail.

Rule: it reads well without colours and in a window of 100 columns; charts become letters or are
left out.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from channelstats.metrics.table import NUMERIC, Cell, Kind, Link, Table
from channelstats.pages.model import Heat, Line, Page, Part, Span, Text, Tiles
from channelstats.render.names import Directory
from channelstats.render.words import NOTHING, change_text, change_words, figure_text, plural, width

_SHADES: Final = " ░▒▓█"
_TextColumn: TypeAlias = tuple[str, bool, list[str]]
"""Its title, whether it is aligned to the right, its cells."""


def text_of(page: Page, names: Directory) -> str:
    """The whole page, with a line end at its end."""
    return "\n".join(_lines(page, names)) + "\n"


def _lines(page: Page, names: Directory) -> Iterator[str]:
    yield from _headed(line_text(page.title, names), "=")
    if page.period:
        yield page.period
    yield ""
    if page.about:
        yield from (page.about, "")
    for part in page.lead:
        yield from _part(part, names)
    for section in page.sections:
        yield from _headed(section.title, "-")
        if not section.parts:
            yield from ("Nothing.", "")
        for part in section.parts:
            yield from _part(part, names)
    yield from page.notes


def _headed(title: str, line: str) -> tuple[str, str]:
    return title, line * width(title)


def _part(part: Part, names: Directory) -> Iterator[str]:
    if isinstance(part, Text):
        yield from (line_text(line, names) for line in part.lines)
    elif isinstance(part, Tiles):
        longest = max(len(tile.title) for tile in part.tiles)
        for tile in part.tiles:
            yield f"{tile.title:<{longest}}  {value_text(tile.change, tile.kind, names)}"
    elif isinstance(part, Table):
        yield from _table(part, names)
    elif isinstance(part, Heat):
        yield from _heat_map(part, names)
    else:
        return  # its numbers are in the table beside it
    yield ""


def _table(table: Table, names: Directory) -> Iterator[str]:
    columns: list[_TextColumn] = []
    for column in table.columns:
        texts = [value_text(cell, column.kind, names) for cell in table.rows[column.name]]
        if column.kind is not Kind.MESSAGE or any(texts):
            columns.append((column.title, column.kind in NUMERIC, texts))
    yield from _aligned(columns)


def _aligned(columns: Iterable[_TextColumn]) -> Iterator[str]:
    """Columns as wide as they need."""
    padded = []
    for title, is_right, cells in columns:
        wide = max(map(width, (title, *cells)))
        spaces = [(text, " " * (wide - width(text))) for text in (title, *cells)]
        padded.append([space + text if is_right else text + space for text, space in spaces])
    yield from ("  ".join(row).rstrip() for row in zip(*padded, strict=True))


def _heat_map(heat: Heat, names: Directory) -> Iterator[str]:
    most = max(value or 0 for row in heat.values for value in row)
    labels = [value_text(label, heat.row_kind, names) for label in heat.rows]
    rows = ["".join(shade(number or 0, most) * 2 + " " for number in row) for row in heat.values]
    head = "".join(f"{column[:2]:<3}" for column in heat.columns)
    yield heat.title
    yield from _aligned([("", False, labels), (head, False, rows)])


def shade(value: float, most: float) -> str:
    """One of five letters; only nothing is blank."""
    return _SHADES[int(-(-value * (len(_SHADES) - 1) // most))] if most else _SHADES[0]


def line_text(line: Line, names: Directory) -> str:
    return "".join(span if isinstance(span, str) else _span(span, names) for span in line)


def _span(span: Span, names: Directory) -> str:
    """In a sentence a number is said with how it changed: `8 messages (60% more)`."""
    value = span.value
    if not isinstance(value, dict) or "message" in value:
        return value_text(value, span.kind, names, span.label)
    counted = f" {plural(value['cur'], span.label)}" if span.label else ""
    changed = change_words(value, span.kind)
    return f"{figure_text(value['cur'], span.kind)}{counted}{f' ({changed})' if changed else ''}"


def value_text(value: Cell | Link, kind: Kind, names: Directory, label: str = "") -> str:
    """A value of a kind; ``label`` is what is counted, for one of it."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        if kind is Kind.MESSAGE:
            return names.permalink(value) if value else ""
        return f"@{names.person(value)}" if kind is Kind.PERSON else names.called(value, kind)
    if isinstance(value, int | float):
        number, changed = value, ""
    elif "text" in value:
        return value["text"]
    elif kind is Kind.CHANGE:  # the number itself is in another column
        return change_text(value)
    else:
        number, changed = value["cur"], change_text(value, kind)
    counted = f" {plural(number, label)}" if label else ""
    return f"{figure_text(number, kind)}{f' ({changed})' if changed else ''}{counted}"
