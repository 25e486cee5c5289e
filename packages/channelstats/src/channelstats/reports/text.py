"""A report as plain text, for a terminal or a mail.

Rule: it reads well without colours and in a window of 100 columns; charts become letters or are
left out.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from channelstats.render.names import Directory
from channelstats.render.words import change_text, number_text, plural, width
from channelstats.reports.model import (
    Block,
    Emoji,
    Facts,
    Figure,
    HeatMap,
    Histogram,
    Line,
    Link,
    Person,
    Place,
    Report,
    Span,
    Table,
    Text,
)

_SHADES: Final = " ░▒▓█"
_BAR: Final = 40
"""Width of the longest bar."""


def text_of(report: Report, directory: Directory) -> str:
    """The whole report, with a line end at its end."""
    return "\n".join(_lines(report, directory)) + "\n"


def _lines(report: Report, directory: Directory) -> Iterator[str]:
    title = text_line(report.title, directory)
    yield title
    yield "=" * width(title)
    if report.period:
        yield report.period
    yield ""
    for block in report.lead:
        yield from _block(block, directory)
    for section in report.sections:
        title = f"{section.title} ({section.note})" if section.note else section.title
        yield title
        yield "-" * width(title)
        if not section.blocks:
            yield from ("Nothing.", "")
        for block in section.blocks:
            yield from _block(block, directory)


def _block(block: Block, directory: Directory) -> Iterator[str]:
    if isinstance(block, Text):
        yield from (text_line(line, directory) for line in block.lines)
    elif isinstance(block, Facts):
        longest = max(len(fact.name) for fact in block.facts)
        for fact in block.facts:
            yield f"{fact.name:<{longest}}  {text_line(fact.value, directory)}"
    elif isinstance(block, Table):
        numeric = [column.numeric for column in block.columns]
        rows = [[text_line(cell, directory, labels=False) for cell in row] for row in block.rows]
        links = [_url(row) for row in block.rows]
        if any(links):
            rows = [[*row, url] for row, url in zip(rows, links, strict=True)]
            numeric.append(False)
        titles = [column.title for column in block.columns] + ["Link"] * any(links)
        yield from aligned([titles, *rows], numeric)
    elif isinstance(block, Histogram):
        yield from aligned(list(_histogram(block)), [False, True, False, True])
    elif isinstance(block, HeatMap):
        yield from _heat_map(block, directory)
    else:
        return
    yield ""


def aligned(rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> Iterator[str]:
    """Rows in columns as wide as they need."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = []
        for cell, wide, right in zip(row, widths, numeric, strict=True):
            space = " " * (wide - width(cell))
            cells.append(space + cell if right else cell + space)
        yield "  ".join(cells).rstrip()


def _histogram(histogram: Histogram) -> Iterator[Sequence[str]]:
    longest = max(bar.percent for bar in histogram.bars) or 1
    yield histogram.label, "Share", "", "Messages"
    for bar in histogram.bars:
        drawn = "█" * round(bar.percent * _BAR / longest)
        yield bar.label, f"{bar.percent:.1f}%", drawn, f"{bar.messages:,}"


def _heat_map(heat: HeatMap, directory: Directory) -> Iterator[str]:
    most = max(map(max, heat.values))
    rows = [[heat.corner, "".join(f"{column:<3}" for column in heat.columns)]]
    for line, values in zip(heat.rows, heat.values, strict=True):
        rows.append(
            [text_line(line, directory), "".join(shade(of, most) * 2 + " " for of in values)]
        )
    yield heat.caption
    yield from aligned(rows, [False, False])


def shade(value: int, most: int) -> str:
    """One of five letters; only nothing is blank."""
    return _SHADES[-(-value * (len(_SHADES) - 1) // most)] if most else _SHADES[0]


def text_line(line: Line, directory: Directory, *, labels: bool = True) -> str:
    return "".join(_span(span, directory, labels=labels) for span in line)


def _span(span: Span, directory: Directory, *, labels: bool) -> str:
    if isinstance(span, Figure):
        number = number_text(span.change["cur"], percentage=span.percentage)
        changed = change_text(span.change)
        label = f" {plural(span.change['cur'], span.label)}" if labels and span.label else ""
        return f"{number} ({changed}){label}" if changed else f"{number}{label}"
    if isinstance(span, Person):
        return f"@{directory.person(span.uid)}"
    if isinstance(span, Place):
        return f"#{directory.channel(span.cid)}"
    if isinstance(span, Emoji):
        return f":{span.name}:"
    if isinstance(span, Link):
        return span.text
    return span


def _url(row: Sequence[Line]) -> str:
    return next((span.url for line in row for span in line if isinstance(span, Link)), "")
