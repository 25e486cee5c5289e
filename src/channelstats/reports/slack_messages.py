"""Blocks → messages that Slack takes.

Rule: at most 50 blocks and 10,000 characters a message, fewer than Slack's own undocumented limit;
a later message is a reply to the first.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from channelstats.reports.directory import Directory
from channelstats.reports.model import Report
from channelstats.reports.slack_blocks import SlackBlock, blocks_of
from channelstats.reports.text import text_line

MOST_BLOCKS: Final = 50
MOST_CHARACTERS: Final = 10_000


def messages_of(report: Report, directory: Directory) -> list[dict[str, object]]:
    """Arguments of `chat.postMessage`, without channel and thread, in their order. ``text`` is what
    notifications show.
    """
    title = text_line(report.title, directory)
    fallback = f"{title}: {report.period}" if report.period else title
    parts = split_blocks(blocks_of(report, directory))
    return [
        {
            "text": fallback if number == 1 else f"{fallback} ({number} of {len(parts)})",
            "blocks": part,
            "unfurl_links": False,
            "unfurl_media": False,
        }
        for number, part in enumerate(parts, 1)
    ]


def split_blocks(blocks: Sequence[SlackBlock]) -> list[list[SlackBlock]]:
    """Cut where a message would be too long."""
    parts: list[list[SlackBlock]] = [[]]
    characters = 0
    for block in blocks:
        size = characters_of(block)
        if len(parts[-1]) == MOST_BLOCKS or characters + size > MOST_CHARACTERS:
            parts.append([])
            characters = 0
        parts[-1].append(block)
        characters += size
    return parts


def characters_of(block: SlackBlock) -> int:
    """How much text a block holds."""
    text, fields = block.get("text"), block.get("fields")
    found = [text] if isinstance(text, Mapping) else []
    found += fields if isinstance(fields, list) else []
    return sum(len(of["text"]) for of in found)
