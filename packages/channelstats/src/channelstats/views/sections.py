"""Sections that several reports have."""

from collections.abc import Iterable, Mapping
from typing import Final

import polars as pl

from channelstats.days import date_at, minute_text
from channelstats.identifiers import timestamp
from channelstats.stats.activity import HOURS
from channelstats.stats.quantities import Change, Quantity, ratio, shown
from channelstats.views.model import (
    Cell,
    Column,
    Kind,
    Layout,
    Line,
    Link,
    Part,
    Section,
    Span,
    Table,
    Text,
    Tile,
)
from channelstats.views.report_data import ReportData, plain

TOP: Final = 10
WEEKDAYS: Final = (
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)


def number_tile(
    name: str, title: str, number: Quantity, kind: Kind = Kind.COUNT, after: Line = ()
) -> Tile:
    """A number that is compared with nothing."""
    return Tile(name, title, kind, plain(number), after=after)


def text_tile(name: str, title: str, text: str) -> Tile:
    return Tile(name, title, Kind.TEXT, None, after=(text,))


def change_tile(
    name: str, title: str, change: Change, kind: Kind = Kind.COUNT, after: Line = ()
) -> Tile:
    return Tile(name, title, kind, change, after=after)


def hour_text(hour: int) -> str:
    """0900-0959."""
    return f"{hour:02d}00-{hour:02d}59"


def channel_called(name: str, of: ReportData) -> str | Span:
    """A channel of a name or an ID; the name alone where there is none."""
    channels = of.data.inputs.channels
    found = (cid for cid, known in channels.items() if name in (cid, known.name))
    cid = next(found, "")
    return Span(cid, Kind.CHANNEL) if cid else f"#{name}"


def help_section(before: Line, help_channel: str, of: ReportData) -> Section | None:
    """What there is to know about a report, and where to ask; nothing without any of it."""
    asking: Line = ()
    if help_channel:
        where = channel_called(help_channel, of)
        asking = ("Questions about this report? Ask in ", where, ".")
    lines = tuple(line for line in (before, asking) if line)
    return Section("About this report", (Text(lines),), silent=True) if lines else None


def coverage_note(of: ReportData) -> tuple[Part, ...]:
    """Says why nothing is compared, where it is not."""
    return (Text(((of.not_compared,),)),) if of.not_compared else ()


def emoji_part(found: Iterable[tuple[str, int]], words: int, title: str) -> Part:
    """The emoji that were used most, of all in their order."""
    rows = tuple((n, emoji, shown(ratio(1000 * n, words))) for emoji, n in found)[:TOP]
    if not rows:
        return Text((("No reactions.",),))
    columns = (
        Column("times", "Times", Kind.COUNT, bar=True, phrase="{}"),
        Column("emoji", "Emoji", Kind.EMOJI),
        Column("per_thousand_words", "Per 1000 words", Kind.RATE, phrase=" — {}/1000"),
    )
    return Table("emoji", title, columns, rows, layout=Layout.LIST)


def messages_section(
    name: str,
    title: str,
    words: tuple[str, str],
    listed: pl.DataFrame,
    of: ReportData,
    *,
    channel: bool = True,
    author: bool = True,
) -> Section | None:
    """The messages with the most reactions or replies, ``words`` for one and for more; nothing
    without any. ``listed`` is as `top_messages.listed` has it.
    """
    if listed.is_empty():
        return None
    columns = [Column("message", "Message", Kind.MESSAGE, phrase="{}")]
    columns += [Column("channel", "Channel", Kind.CHANNEL, phrase=" in {}")] if channel else []
    columns += [Column("author", "Author", Kind.PERSON, phrase=" by {}")] if author else []
    columns += [Column("date", "Date", Kind.TEXT, phrase=", {}")]
    hidden, zone = of.data.inputs.hides_times, of.period.zone
    rows: list[tuple[Cell, ...]] = []
    for count, ts, cid, uid, thread_ts in listed.head(TOP).iter_rows():
        thread = "" if thread_ts is None else timestamp(thread_ts)
        message = "" if hidden else f"{cid}/{timestamp(ts)}/{thread}"
        at = ts // 1_000_000
        cells: list[Cell] = [Link(message, f"{count:,} {words[count != 1]}")]
        cells += [cid] if channel else []
        cells += [uid] if author else []
        cells += [date_at(at, zone).isoformat() if hidden else minute_text(at, zone)]
        rows.append(tuple(cells))
    table = Table(name, title, tuple(columns), tuple(rows))
    return Section(title, (table,), rule_after=True)


REACTIONS: Final = ("reaction", "reactions")
REPLIES: Final = ("reply", "replies")


def hours_section(posted: pl.DataFrame) -> Section:
    """Local hours of Monday to Friday, in which there are messages."""
    title = "Hours, Monday to Friday, local time"
    labels = {hour: hour_text(hour) for hour in HOURS}
    return _histogram(title, "Hour", posted.select("local_hour", "m"), labels)


def days_section(posted: pl.DataFrame) -> Section:
    """Local weekdays on which there are messages."""
    labels = dict(enumerate(WEEKDAYS))
    return _histogram("Days, local time", "Day", posted.select("local_weekday", "m"), labels)


def _histogram(title: str, axis: str, posted: pl.DataFrame, labels: Mapping[int, str]) -> Section:
    if posted.is_empty():
        return Section(title, (Text((("Not known: nobody here has a time zone.",),)),))
    total = sum(messages for _, messages in posted.iter_rows())
    rows = tuple(
        (labels[step], shown(ratio(100 * messages, total)), messages)
        for step, messages in posted.iter_rows()
    )
    return Section(title, (histogram(axis.lower(), title, axis, rows),))


def histogram(
    name: str, title: str, axis: str, rows: tuple[tuple[Cell, ...], ...], *, words: bool = False
) -> Table:
    """Shares of messages, with their numbers and, with ``words``, those of words."""
    columns = [
        Column(name, axis, Kind.TEXT, phrase="{}"),
        Column("share", "Share", Kind.PERCENT, bar=True, phrase="{}"),
        Column("messages", "Messages", Kind.COUNT, phrase=" ({} msgs" + ")" * (not words)),
    ]
    if words:
        columns.append(Column("words", "Words", Kind.COUNT, phrase=", {} words)"))
    return Table(name, title, tuple(columns), rows, layout=Layout.BARS)


def present(*sections: Section | None) -> tuple[Section, ...]:
    """Sections without those that have nothing to say."""
    return tuple(section for section in sections if section is not None)
