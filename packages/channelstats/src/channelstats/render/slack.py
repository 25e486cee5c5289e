"""A page as Slack blocks, and blocks as messages that Slack takes: a few sentences, or under the
profile compat all of it as the original posted it, with emoji that only its workspace had.

Rule: people and channels are mentions, and Slack shows their names; where IDs are not real ones the
names are text and mention nobody. At most 50 blocks and 10,000 characters a message, fewer than
Slack's own undocumented limit; a later message is a reply to the first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from channelstats.counting import Profile
from channelstats.render.names import Directory
from channelstats.render.text import line_text
from channelstats.render.words import change_words, figure_text, number_text, plural
from channelstats.stats.quantities import Change, alone
from channelstats.views.digest import digest_of
from channelstats.views.model import (
    NUMERIC,
    Cell,
    Kind,
    Layout,
    Line,
    Link,
    Page,
    Part,
    Section,
    Span,
    Table,
    Text,
    Tile,
    Tiles,
)
from channelstats.views.report_data import ReportData
from channelstats.views.reports import ReportRequest, report_on

SlackBlock: TypeAlias = dict[str, object]
NumberText: TypeAlias = Callable[[Change, Kind, str], str]
"""How a number is written of a kind, with how it changed; the text is what is counted, for one."""

DIVIDER: Final[SlackBlock] = {"type": "divider"}
LONGEST_TEXT: Final = 3000
LONGEST_FIELD: Final = 2000
MOST_FIELDS: Final = 10
"""Of one section."""
MOST_BLOCKS: Final = 50
MOST_CHARACTERS: Final = 10_000

_BOLD: Final = frozenset({Kind.COUNT, Kind.NUMBER, Kind.PERCENT})


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Slack:
    def __init__(self, names: Directory, number_text: NumberText) -> None:
        self._names, self._number_text = names, number_text

    def page(self, page: Page) -> Iterator[SlackBlock]:
        title = f"*{self.line(page.title)}*"
        yield from _texts(f"{title}\n{page.period}" if page.period else title)
        if page.about:
            yield from _texts(escaped(page.about))
        for part in page.lead:
            yield from self.part(part)
        for section in page.sections:
            if not section.beyond:
                yield from self.section(section)
        if page.notes:
            yield from _texts("\n".join(map(escaped, page.notes)))
        if page.dashboard:
            yield from _texts(f"<{escaped(page.dashboard)}|More in the dashboard>")

    def section(self, section: Section) -> Iterator[SlackBlock]:
        if section.rule_before:
            yield DIVIDER
        if not section.silent:
            note = f" ({escaped(section.note)})" if section.note else ""
            yield from _texts(f"*{escaped(section.title)}*{note}")
        for part in section.parts:
            yield from self.part(part)
        if section.rule_after:
            yield DIVIDER

    def part(self, part: Part) -> Iterator[SlackBlock]:
        """Charts are left out: the table they are drawn from is there."""
        if isinstance(part, Text):
            yield from _texts("\n".join(map(self.line, part.lines)))
        elif isinstance(part, Tiles):
            yield from _texts("\n".join(map(self.tile, part.tiles)))
        elif isinstance(part, Table):
            yield from self.table(part)

    def tile(self, tile: Tile) -> str:
        after = self.line(tile.after)
        number = self.value(tile.change, tile.kind) if tile.change or not after else ""
        return f"{tile.title}: {number}{after}"

    def table(self, table: Table) -> Iterator[SlackBlock]:
        rows = [self.cells(table, row) for row in table.rows.iter_rows()]
        if table.layout is Layout.LINES:
            for row in rows:
                yield from _texts("".join(row))
        elif table.layout is Layout.LIST:
            yield from _texts("\n".join("".join(row) for row in rows))
        else:
            yield from _fields(_in_two(table, rows))

    def cells(self, table: Table, row: Sequence[Cell]) -> list[str]:
        """The cells in their phrases; of histograms and ranks without emphasis."""
        is_histogram = table.layout is Layout.BARS
        texts = []
        for column, cell in zip(table.columns, row, strict=True):
            shown = self.value(cell, column.kind, column.label)
            if isinstance(cell, int | float) and (is_histogram or column.name == "rank"):
                bar = f"`{'*' * int(cell)}` " if is_histogram and column.bar and cell >= 1 else ""
                shown = bar + figure_text(cell, column.kind)
            texts.append(column.phrase.replace("{}", shown) if shown else "")
        return texts

    def line(self, line: Line) -> str:
        return "".join(escaped(of) if isinstance(of, str) else self._span(of) for of in line)

    def _span(self, of: Span) -> str:
        if of.kind is Kind.PERSON and isinstance(of.value, str) and not of.notify:
            return escaped(self._names.person(of.value))  # `@` may be read as a mention
        return self.value(of.value, of.kind, of.label)

    def value(self, value: Cell | Link, kind: Kind, label: str = "") -> str:
        """A value of a kind; ``label`` is what is counted, for one of it."""
        if value is None:
            return "?"
        if isinstance(value, str):
            return self.named(value, kind)
        if isinstance(value, dict) and "message" in value:
            url, text = self._names.permalink(value["message"]), escaped(value["text"])
            return f"<{url}|{text}>" if url else text
        change = alone(value) if isinstance(value, int | float) else value
        return self._number_text(change, kind, label)

    def named(self, of: str, kind: Kind) -> str:
        if kind is Kind.PERSON:
            return f"<@{of}>" if self._names.real else f"@{escaped(self._names.person(of))}"
        if kind is Kind.CHANNEL:
            name = escaped(self._names.channel(of)).replace("|", "¦")
            return f"<#{of}|{name}>" if self._names.real else f"#{name}"
        if kind is Kind.MESSAGE:
            return self.value(Link(message=of, text="message"), kind)
        return f":{escaped(of)}:" if kind is Kind.EMOJI else escaped(of)


def _in_two(table: Table, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A heading and rows in two fields each: ranks and what is named on the left."""
    at = sum(column.kind not in NUMERIC or column.name == "rank" for column in table.columns)
    # Of bars one column is named; the phrases of the others say what they are.
    titles = [of.title for of in table.columns[: 2 if table.layout is Layout.BARS else None]]
    yield from (f"*{' / '.join(part)}*" for part in (titles[:at], titles[at:]))
    for row in rows:
        yield from ("".join(row[:at]), "".join(row[at:]))


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


def _texts(text: str) -> Iterator[SlackBlock]:
    for part in split_text(text):
        yield {"type": "section", "text": _markdown(part)}


def _fields(texts: Iterable[str]) -> Iterator[SlackBlock]:
    fields = [_markdown(text[:LONGEST_FIELD]) for text in texts]
    for first in range(0, len(fields), MOST_FIELDS):
        yield {"type": "section", "fields": fields[first : first + MOST_FIELDS]}


def _markdown(text: str) -> Mapping[str, str]:
    return {"type": "mrkdwn", "text": text}


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


class Content(msgspec.Struct, frozen=True):
    """What a report says in Slack, before it is cut. ``text`` is what notifications show."""

    text: str
    blocks: list[SlackBlock]

    def message(self, blocks: Sequence[SlackBlock], *, first: bool) -> dict[str, object]:
        """The arguments of `chat.postMessage`, without channel and thread, for a part of the
        blocks.
        """
        return {
            "text": self.text if first else f"{self.text}, continued",
            "blocks": list(blocks),
            "unfurl_links": False,
            "unfurl_media": False,
        }


def content_of(wanted: ReportRequest, of: ReportData, names: Directory) -> Content:
    """What is said of a report: all of it under the profile compat, else its digest."""
    if of.data.options.counting.profile is Profile.COMPAT:
        return as_content(report_on(wanted, of), names, compat_number)
    return as_content(digest_of(wanted, of), names, number_in_words)


def as_content(page: Page, names: Directory, number_text: NumberText) -> Content:
    title = escaped(line_text(page.title, names))
    text = f"{title}: {page.period}" if page.period else title
    return Content(text, list(_Slack(names, number_text).page(page)))


def messages_of(content: Content) -> list[dict[str, object]]:
    """The messages of a report, in their order."""
    return [
        content.message(part, first=number == 0)
        for number, part in enumerate(split_blocks(content.blocks))
    ]


def split_blocks(blocks: Sequence[SlackBlock]) -> list[list[SlackBlock]]:
    """Cut where a message would be too long."""
    parts = []
    begin = 0
    while begin < len(blocks):
        parts.append(first_part(blocks[begin : begin + MOST_BLOCKS]))
        begin += len(parts[-1])
    return parts or [[]]


def first_part(blocks: Sequence[SlackBlock], most: int = MOST_BLOCKS) -> list[SlackBlock]:
    """As many blocks as a message takes, at least one of them and ``most`` of them."""
    part: list[SlackBlock] = []
    characters = 0
    for block in blocks[:most]:
        characters += characters_of(block)
        if part and characters > MOST_CHARACTERS:
            break
        part.append(block)
    return part


def characters_of(block: SlackBlock) -> int:
    """How much text a block holds."""
    text, fields = block.get("text"), block.get("fields")
    found = [text] if isinstance(text, Mapping) else []
    found += fields if isinstance(fields, list) else []
    return sum(len(of["text"]) for of in found)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────


def number_in_words(change: Change, kind: Kind, label: str = "") -> str:
    """`*12,345* words (23% more)`."""
    counted = f" {plural(change['cur'], label)}" if label else ""
    changed = change_words(change, kind)
    return f"*{figure_text(change['cur'], kind)}*{counted}{f' ({changed})' if changed else ''}"


def compat_number(change: Change, kind: Kind, label: str = "") -> str:
    if kind in _BOLD:
        return slack_text(change, label, percentage=kind is Kind.PERCENT)
    return figure_text(change["cur"], kind)


def slack_text(change: Change, label: str = "", *, percentage: bool = False) -> str:
    """A comparison as the original posted it: `*12,345* (+23%):green_arrow_up: words`.

    ``label`` is for one; anything but 1 gets an `s`.
    """
    cur, diff = change["cur"], abs(change["diff_pct"] or 0)
    labelled = label and f" {label}" + "s" * (cur != 1)
    note = {
        "new": ":new:",
        "from_zero": " :infinity:",
        "same": "",
        "not_compared": "",
        "up": f" (+{diff:.0f}%):green_arrow_up:",  # half to even
        "down": f" (-{diff:.0f}%):red_arrow_down:",
    }[change["state"]]
    return f"*{number_text(cur, percentage=percentage)}*{note}{labelled}"
