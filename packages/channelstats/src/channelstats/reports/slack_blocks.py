"""A report as Slack blocks.

Rule: people and channels are mentions, and Slack shows their names; where IDs are not real ones the
names are text and mention nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from channelstats.render.names import Directory
from channelstats.reports.model import (
    Block,
    Emoji,
    Facts,
    Figure,
    Histogram,
    Layout,
    Line,
    Link,
    Person,
    Place,
    Report,
    Section,
    Span,
    Table,
    Text,
)
from channelstats.stats.compare import slack_text

SlackBlock: TypeAlias = dict[str, object]

DIVIDER: Final[SlackBlock] = {"type": "divider"}
LONGEST_TEXT: Final = 3000
LONGEST_FIELD: Final = 2000
MOST_FIELDS: Final = 10
"""Of one section."""


def blocks_of(report: Report, directory: Directory) -> list[SlackBlock]:
    """All blocks of a report, however many."""
    return list(_Slack(directory).report(report))


def split_text(text: str, limit: int = LONGEST_TEXT) -> list[str]:
    """Cut a text at line ends, and a line that is too long at spaces."""
    parts, part = [], ""
    for line in text.split("\n"):
        while len(line) > limit:
            at = line.rfind(" ", 1, limit + 1)
            cut = at if at > 0 else limit
            if part:
                parts.append(part)
                part = ""
            parts.append(line[:cut])
            line = line[cut:].lstrip(" ")
        longer = f"{part}\n{line}" if part else line
        if len(longer) > limit:
            parts.append(part)
            part = line
        else:
            part = longer
    return [*parts, part] if part or not parts else parts


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Slack:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def report(self, report: Report) -> Iterator[SlackBlock]:
        title = f"*{self.line(report.title)}*"
        yield from _texts(f"{title}\n{report.period}" if report.period else title)
        for block in report.lead:
            yield from self.block(block)
        for section in report.sections:
            if not section.beyond:
                yield from self.section(section)

    def section(self, section: Section) -> Iterator[SlackBlock]:
        if section.rule_before:
            yield DIVIDER
        if not section.silent:
            note = f" ({escaped(section.note)})" if section.note else ""
            yield from _texts(f"*{escaped(section.title)}*{note}")
        for block in section.blocks:
            yield from self.block(block)
        if section.rule_after:
            yield DIVIDER

    def block(self, block: Block) -> Iterator[SlackBlock]:
        """Charts are left out: the table they are drawn from is there."""
        if isinstance(block, Text):
            yield from _texts("\n".join(map(self.line, block.lines)))
        elif isinstance(block, Facts):
            lines = (f"{fact.name}: {self.line(fact.value)}" for fact in block.facts)
            yield from _texts("\n".join(lines))
        elif isinstance(block, Table):
            yield from self.table(block)
        elif isinstance(block, Histogram):
            yield from _fields(_histogram(block))

    def table(self, table: Table) -> Iterator[SlackBlock]:
        rows = [self.cells(table, row) for row in table.rows]
        if table.layout is Layout.LINES:
            for row in rows:
                yield from _texts("".join(row))
        elif table.layout is Layout.LIST:
            yield from _texts("\n".join("".join(row) for row in rows))
        else:
            left = sum(not column.numeric for column in table.columns)
            titles = [column.title for column in table.columns]
            head = (f"*{' / '.join(titles[:left])}*", f"*{' / '.join(titles[left:])}*")
            yield from _fields(
                [head, *(("".join(row[:left]), "".join(row[left:])) for row in rows)]
            )

    def cells(self, table: Table, row: Sequence[Line]) -> list[str]:
        return [
            column.phrase.replace("{}", self.line(cell))
            for column, cell in zip(table.columns, row, strict=True)
        ]

    def line(self, line: Line) -> str:
        return "".join(map(self.span, line))

    def span(self, span: Span) -> str:
        if isinstance(span, Figure):
            return slack_text(span.change, span.label, percentage=span.percentage)
        if isinstance(span, Person):
            name = escaped(self._directory.person(span.uid))
            return f"<@{span.uid}>" if self._directory.real else f"@{name}"
        if isinstance(span, Place):
            name = escaped(self._directory.channel(span.cid)).replace("|", "¦")
            return f"<#{span.cid}|{name}>" if self._directory.real else f"#{name}"
        if isinstance(span, Emoji):
            return f":{escaped(span.name)}:"
        if isinstance(span, Link):
            return f"<{span.url}|{escaped(span.text)}>" if span.url else escaped(span.text)
        return escaped(span)


def _histogram(histogram: Histogram) -> list[tuple[str, str]]:
    rows = [(f"*{histogram.label}*", "*Share*")]
    for bar in histogram.bars:
        drawn = f"`{'*' * int(bar.percent)}` " if bar.percent >= 1 else ""
        words = "" if bar.words is None else f", {bar.words:,} words"
        rows.append((bar.label, f"{drawn}{bar.percent:.1f}% ({bar.messages:,} msgs{words})"))
    return rows


def _texts(text: str) -> Iterator[SlackBlock]:
    for part in split_text(text):
        yield {"type": "section", "text": _markdown(part)}


def _fields(rows: Sequence[tuple[str, str]]) -> Iterator[SlackBlock]:
    each = MOST_FIELDS // 2
    for first in range(0, len(rows), each):
        fields = [
            _markdown(text[:LONGEST_FIELD]) for row in rows[first : first + each] for text in row
        ]
        yield {"type": "section", "fields": fields}


def _markdown(text: str) -> Mapping[str, str]:
    return {"type": "mrkdwn", "text": text}
