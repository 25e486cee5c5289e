"""Sections that several reports have.

Rule: a section says the same of a workspace, a channel and a person; which entries it is given is
all that differs.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from channelstats.render.names import Directory
from channelstats.render.words import hour_text, minute_text, plural
from channelstats.reports.model import (
    WEEKDAYS,
    Bar,
    Block,
    Column,
    Emoji,
    Fact,
    Figure,
    Histogram,
    Layout,
    Line,
    Link,
    Person,
    Place,
    Section,
    Span,
    Table,
    Text,
    plain,
)
from channelstats.reports.view import Entry, Pair, View
from channelstats.stats.values import Change

TOP: Final = 10


def fact(name: str, change: Change, *, percentage: bool = False) -> Fact:
    return Fact(name, (Figure(change, percentage=percentage),))


def number(of: float) -> Line:
    return (Figure(plain(of)),)


def share(of: float) -> Line:
    return (Figure(plain(of), percentage=True),)


def channel_called(name: str, directory: Directory) -> Span:
    """A channel of a name or an ID; the name alone where there is none."""
    named = (cid for cid, known in directory.channels.items() if name in (cid, known))
    cid = next(named, "")
    return Place(cid) if cid else f"#{name}"


def help_section(before: Line, help_channel: str, directory: Directory) -> Section | None:
    """What there is to know about a report, and where to ask; nothing without any of it."""
    asking: Line = ()
    if help_channel:
        asking = (
            "Questions about this report? Ask in ",
            channel_called(help_channel, directory),
            ".",
        )
    lines = tuple(line for line in (before, asking) if line)
    return Section("About this report", (Text(lines),), silent=True) if lines else None


def emoji_block(found: Mapping[str, int], rates: Mapping[str, float], caption: str) -> Block:
    """The ten that were used most."""
    if not found:
        return Text((("No reactions.",),))
    columns = (
        Column("Times", "{}", bar=True),
        Column("Emoji", " {}", numeric=False),
        Column("Per 1000 words", " — {}/1000"),
    )
    rows = tuple(
        (number(count), (Emoji(name),), (f"{rates.get(name, 0):.2f}",))
        for name, count in list(found.items())[:TOP]
    )
    return Table(caption, columns, rows, Layout.LIST)


def messages_section(
    title: str,
    word: str,
    entries: Sequence[Entry],
    of: View,
    directory: Directory,
    *,
    channel: bool = True,
    author: bool = True,
) -> Section | None:
    """The ten messages with the most reactions or replies; nothing without any."""
    if not entries:
        return None
    columns = [Column("Message", "{}", numeric=False)]
    columns += [Column("Channel", " in {}", numeric=False)] if channel else []
    columns += [Column("Author", " by {}", numeric=False)] if author else []
    columns += [Column("Date", ", {}", numeric=False)]
    rows = []
    for entry in entries[:TOP]:
        url = directory.permalink(entry.cid, entry.ts, entry.thread_ts)
        cells: list[Line] = [(Link(url, f"{entry.count:,} {plural(entry.count, word)}"),)]
        cells += [(Place(entry.cid),)] if channel else []
        cells += [(Person(entry.uid),)] if author else []
        when = minute_text(entry.ts, of.zone)
        cells += [(when if directory.real else when[:10],)]
        rows.append(tuple(cells))
    table = Table(title, tuple(columns), tuple(rows), Layout.LINES)
    return Section(title, (table,), rule_after=True)


def hours_section(posted: Mapping[str, Pair]) -> Section:
    """Local hours of Monday to Friday."""
    bars = _bars(posted, {str(hour): hour_text(hour) for hour in range(24)})
    return _histogram("Hours, Monday to Friday, local time", "Hour", bars)


def days_section(posted: Mapping[str, Pair]) -> Section:
    return _histogram("Days, local time", "Day", _bars(posted, WEEKDAYS))


def _bars(posted: Mapping[str, Pair], labels: Mapping[str, str]) -> tuple[Bar, ...]:
    """Those that are present, in the order of their numbers."""
    total = sum(messages for messages, _ in posted.values())
    return tuple(
        Bar(labels[key], 100 * posted[key][0] / total if total else 0.0, posted[key][0])
        for key in sorted(posted, key=int)
    )


def _histogram(title: str, label: str, bars: tuple[Bar, ...]) -> Section:
    if not bars:
        return Section(title, (Text((("Not known: nobody here has a time zone.",),)),))
    return Section(title, (Histogram(title, label, bars),))


def present(*sections: Section | None) -> tuple[Section, ...]:
    """Sections without those that have nothing to say."""
    return tuple(section for section in sections if section is not None)
