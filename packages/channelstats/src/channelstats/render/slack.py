"""The digest of a report as one message in Slack.

Rule: people and channels are mentions, and Slack shows their names. At most 50 blocks and 10,000
characters, fewer than Slack's own undocumented limit.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from channelstats.metrics.quantities import Change, alone
from channelstats.metrics.table import Cell, Kind, Link
from channelstats.pages.digest import digest_of
from channelstats.pages.model import Line, Page, Span, Text
from channelstats.pages.reports import ReportData, ReportRequest
from channelstats.render.names import Directory
from channelstats.render.text import line_text
from channelstats.render.words import change_words, figure_text, plural

SlackBlock: TypeAlias = dict[str, object]

LONGEST_TEXT: Final = 3000
MOST_BLOCKS: Final = 50
MOST_CHARACTERS: Final = 10_000
LONGEST_LINE: Final = 100
"""Of the one that says how many are left out."""


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Slack:
    def __init__(self, names: Directory) -> None:
        self._names = names

    def paragraphs(self, page: Page) -> Iterator[str]:
        title = f"*{self.line(page.title)}*"
        yield f"{title}\n{page.period}" if page.period else title
        for part in page.parts:
            if isinstance(part, Text):
                yield "\n".join(map(self.line, part.lines))

    def line(self, line: Line) -> str:
        return "".join(
            escaped(part) if isinstance(part, str) else self._span(part) for part in line
        )

    def _span(self, span: Span) -> str:
        if span.kind is Kind.PERSON and isinstance(span.value, str) and not span.notify:
            return escaped(self._names.person(span.value))  # `@` may be read as a mention
        return self.value(span.value, span.kind, span.label)

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
        return number_in_words(change, kind, label)

    def named(self, cell: str, kind: Kind) -> str:
        if kind is Kind.PERSON:
            return f"<@{cell}>"
        if kind is Kind.CHANNEL:
            name = escaped(self._names.channel(cell)).replace("|", "¦")
            return f"<#{cell}|{name}>"
        if kind is Kind.MESSAGE:
            return self.value(Link(message=cell, text="message"), kind)
        return f":{escaped(cell)}:" if kind is Kind.EMOJI else escaped(cell)


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


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


class Content(msgspec.Struct, frozen=True):
    """What one message says. ``text`` is what notifications show."""

    text: str
    blocks: list[SlackBlock]

    @property
    def message(self) -> dict[str, object]:
        """The arguments of `chat.postMessage`, without the channel."""
        unfurled = dict.fromkeys(("unfurl_links", "unfurl_media"), False)
        return {"text": self.text, "blocks": self.blocks, **unfurled}


def content_of(wanted: ReportRequest, data: ReportData, names: Directory) -> Content:
    """What is said of a report: its digest."""
    return as_content(digest_of(wanted, data), names)


def as_content(page: Page, names: Directory) -> Content:
    title = escaped(line_text(page.title, names))
    text = f"{title}: {page.period}" if page.period else title
    more = f"<{escaped(page.dashboard)}|More in the dashboard>" if page.dashboard else ""
    return Content(text, blocks_of(_Slack(names).paragraphs(page), more))


def blocks_of(paragraphs: Iterable[str], last: str = "") -> list[SlackBlock]:
    """Paragraphs as the blocks of one message, and a ``last`` one; where there are more than Slack
    takes, it is said before the last one how many lines are left out.
    """
    parts = [part for paragraph in paragraphs for part in split_text(paragraph)]
    lines, characters = list[str](), len(last) + LONGEST_LINE
    for part in parts[: MOST_BLOCKS - 2]:
        characters += len(part)
        if characters > MOST_CHARACTERS:
            break
        lines.append(part)
    left = sum(part.count("\n") + 1 for part in parts[len(lines) :])
    texts = (*lines, f"… and {left:,} more {plural(left, 'line')}" if left else "", last)
    return [text_block(text) for text in texts if text]


def text_block(text: str) -> SlackBlock:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────


def number_in_words(change: Change, kind: Kind, label: str = "") -> str:
    """`*12,345* words (23% more)`."""
    counted = f" {plural(change['cur'], label)}" if label else ""
    changed = change_words(change, kind)
    return f"*{figure_text(change['cur'], kind)}*{counted}{f' ({changed})' if changed else ''}"
