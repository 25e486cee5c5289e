"""Blocks → messages that Slack takes.

Rule: at most 50 blocks and 10,000 characters a message, fewer than Slack's own undocumented limit;
a later message is a reply to the first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from channelstats.render.names import Directory
from channelstats.reports.model import Report
from channelstats.reports.slack_blocks import SlackBlock, blocks_of, escaped
from channelstats.reports.text import text_line

MOST_BLOCKS: Final = 50
MOST_CHARACTERS: Final = 10_000


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


def content_of(report: Report, directory: Directory) -> Content:
    title = escaped(text_line(report.title, directory))
    text = f"{title}: {report.period}" if report.period else title
    return Content(text, blocks_of(report, directory))


def messages_of(report: Report, directory: Directory) -> list[dict[str, object]]:
    """The messages of a report, in their order."""
    content = content_of(report, directory)
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
