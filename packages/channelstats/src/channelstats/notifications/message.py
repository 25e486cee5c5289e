"""What subscribers are told: how much was said, and where to look.

Rule: numbers of the whole workspace, and no name of anybody or anything: whoever looks at the
screen of a subscriber reads it too.
"""

from datetime import date
from typing import Final

import msgspec

from channelstats.render.words import change_text, number_text, plural
from channelstats.stats import Period
from channelstats.stats.values import Change

TITLE: Final = "A new weekly report is there"


class Message(msgspec.Struct, frozen=True):
    """``url`` is a path of the dashboard."""

    title: str
    body: str
    url: str

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


class _Compared(msgspec.Struct):
    statistics: dict[str, Change]


class _Document(msgspec.Struct):
    """What is read of a document."""

    compared: _Compared
    channels: dict[str, msgspec.Raw]


def message_of(document: bytes, week: Period) -> Message | None:
    """The message about a week, of the document of its report; None when nothing was said."""
    of = msgspec.json.decode(document, type=_Document)
    messages = of.compared.statistics["messages"]
    if not messages["cur"]:
        return None
    posters = of.compared.statistics["posters"]
    channels = f"in {len(of.channels):,} {plural(len(of.channels), 'channel')}"
    told = f"{_counted(messages, 'message')} by {_people(posters)} {channels}"
    return Message(TITLE, f"{_days(week.start, week.last)}: {told}", report_path(week))


def report_path(week: Period) -> str:
    """Where the dashboard has the report of a week."""
    return f"/report?from={week.start.isoformat()}&to={week.last.isoformat()}"


def _counted(change: Change, word: str) -> str:
    how = change_text(change)
    return f"{number_text(change['cur'])} {plural(change['cur'], word)}{f' ({how})' if how else ''}"


def _people(change: Change) -> str:
    return f"{number_text(change['cur'])} {'person' if change['cur'] == 1 else 'people'}"


def _days(first: date, last: date) -> str:
    """10 to 16 March 2024; 31 March to 6 April 2024."""
    begin = f"{first.day}" if first.month == last.month else f"{first.day} {first:%B}"
    return f"{begin} to {last.day} {last:%B %Y}"
