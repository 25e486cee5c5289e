"""What messages say, read from an export while somebody looks, where the owner asked for that.

Rule: it is stored nowhere. A few lines are kept in memory; none goes to a file, a log, JSON or CSV.
What cannot be read is left out, as if there were no export.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from html import unescape
from os import PathLike
from threading import Lock
from typing import Final, Self, TypeAlias

import msgspec

from channelstats.days import DAY
from channelstats.identifiers import seconds
from channelstats.render.names import Directory
from channelstats.render.words import cut_off, printable
from channelstats.slack.export import Export, ExportChannel, day_of

LONGEST: Final = 200
"""Letters that are shown of a message."""

_KEPT: Final = 500
"""Messages whose beginning is kept in memory."""

_READ: Final = 2_000
"""Letters that are kept of a message."""

_LARGEST_FILE: Final = 32 << 20

_MARKUP: Final = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
"""A person, a channel, what notifies many, or an address; and how it is called."""

Messages: TypeAlias = dict[str, str]
"""Texts by the timestamps of a file."""


class MessageTexts:
    """The messages of an open export. May be used in any thread."""

    def __init__(self, export: Export) -> None:
        self._export, self._lock = export, Lock()
        self._kept: dict[str, str] = {}
        self._channels: dict[str, ExportChannel] = {}
        self._files: dict[str, dict[date, list[str]]] = {}
        for channel in export.channels():
            days = defaultdict[date, list[str]](list)
            for name in channel.days:
                if (day := day_of(name)) is not None:
                    days[day].append(name)
            self._channels[channel.about.id], self._files[channel.about.id] = channel, days

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Those of a zip or a folder.

        :raises ArchiveRefused: it is no export
        """
        return cls(Export.open(path, _LARGEST_FILE))

    def first_lines(self, messages: Iterable[str], names: Directory) -> Mapping[str, str]:
        """The first lines of messages (see `Kind.MESSAGE`), without those that are not in it."""
        with self._lock:
            read: dict[str, Messages] = {}
            texts = {message: self._text(message, read) for message in messages if message}
            self._export.problems()  # what cannot be read is no news, and would pile up
        lines = {message: first_line(text, names) for message, text in texts.items()}
        return {message: line for message, line in lines.items() if line}

    def _text(self, message: str, read: dict[str, Messages]) -> str:
        """The beginning of a message, "" for one that is not there; ``read`` are files by name."""
        if message in self._kept:
            return self._kept[message]
        cid, ts, _ = message.split("/")
        day = datetime.fromtimestamp(seconds(ts), UTC).date()
        text = ""
        # Nothing says whose time zone the date of a file is in.
        for near in (day, day - DAY, day + DAY):
            for name in self._files.get(cid, {}).get(near, ()):
                if name not in read:
                    read[name] = self._file(cid, name)
                text = text or read[name].get(ts, "")
        if len(self._kept) >= _KEPT:
            self._kept.clear()
        self._kept[message] = text
        return text

    def _file(self, cid: str, name: str) -> Messages:
        of_day = msgspec.structs.replace(self._channels[cid], days=(name,))
        every = (message for _, some in self._export.messages(of_day) for message in some)
        return {of.ts: of.text[:_READ] for of in every if of.ts and of.text}


def first_line(text: str, names: Directory) -> str:
    """The first line that says something, as Slack shows it."""

    def named(match: re.Match[str]) -> str:
        sign, subject, called = match[1], match[2], match[3] or ""
        if sign == "@":
            return f"@{names.person(subject) if subject in names.people else called or 'somebody'}"
        if sign == "#":
            return (
                f"#{names.channel(subject) if subject in names.channels else called or 'a channel'}"
            )
        if sign == "!":
            return called or f"@{subject.partition('^')[0]}"
        return called or subject

    lines = (printable(unescape(_MARKUP.sub(named, line))) for line in text.splitlines())
    return cut_off(next(filter(None, lines), ""), LONGEST)
