"""Sections that several reports have."""

from collections.abc import Callable
from typing import Final

import polars as pl

from channelstats.days import day_text, minute_text
from channelstats.stats.measures import Measures
from channelstats.stats.messages import REACTED, REPLIED
from channelstats.stats.period import Period
from channelstats.stats.quantities import Change, Quantity, alone
from channelstats.views.components import message_cells, table
from channelstats.views.figures import (
    EMOJI_RATE,
    FIGURES,
    MINUTE,
    SHARE_OF_MESSAGES,
    Figure,
)
from channelstats.views.model import (
    Kind,
    Line,
    Part,
    Section,
    Span,
    Table,
    Text,
    Tile,
)
from channelstats.views.report_data import ReportData

TOP: Final = 10


def tile(
    name: str,
    number: Change | Quantity | float | None,
    title: str = "",
    kind: Kind | None = None,
    after: Line = (),
) -> Tile:
    """A tile of the figure of its name, or with a title and kind of its own; without a number it
    says ``after``.
    """
    if number is not None and not isinstance(number, dict):
        number = alone(number)
    figure = FIGURES.get(name) or Figure(name, title)
    return Tile(name, title or figure.title, kind or figure.kind, number, after=after)


def compared_tile(of: ReportData, figure: Figure, after: Line = ()) -> Tile:
    """A figure of everything against the one before."""
    return Tile(figure.key, figure.title, figure.kind, of.compared(figure), after=after)


def measured_tile(of: ReportData, figure: Figure, after: Line = ()) -> Tile:
    """A figure of everything, compared with nothing."""
    number = figure.measure(of.now)
    found = None if number is None else alone(number)
    return Tile(figure.key, figure.title, figure.kind, found, after=after)


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
    return Section("About this report", (Text(lines),)) if lines else None


def newest_text(of: ReportData) -> str:
    """For a period without messages: when the newest one is, and the days up to it."""
    if of.newest is None or of.newest >= of.period.start:
        return ""
    last = Period(of.newest, 1, of.period.zone).ending_with(of.period.days)
    return (
        f"The newest message of the workspace is of {day_text(last.last)}; as many days up to it "
        f"are from {last.start} to {last.last}."
    )


def coverage_note(of: ReportData) -> tuple[Part, ...]:
    """Says why nothing is compared, where it is not, and where the newest messages are, where
    there are none.
    """
    newest = "" if of.now.volume.messages else newest_text(of)
    return tuple(Text(((note,),)) for note in (of.not_compared, newest) if note)


def emoji_part(rows: pl.DataFrame, title: str, of: Measures) -> Part:
    """The emoji that were used most, as `emoji_rates` has them; the title says so where they were
    used at least so often.
    """
    if rows.is_empty():
        return Text((("No reactions.",),))
    return table(
        "emoji",
        f"{title} (at least)" if of.unlisted_reactions else title,
        rows.head(TOP),
        {"per_thousand_words": EMOJI_RATE},
        bar="times",
    )


_MOST: Final = {
    REACTED: ("most_reacted", "messages with the most reactions", "reaction", "reactions"),
    REPLIED: ("most_replied", "messages with the most replies", "reply", "replies"),
}


def messages_sections(
    listed: Callable[[str], pl.DataFrame], of: ReportData, *, whose: str = "", without: str = ""
) -> list[Section]:
    """The messages with the most reactions and with the most replies, as far as there are any.
    ``listed`` gives them as `top_messages` does; ``without`` is a column that all share.
    """
    found = {count: listed(count) for count in _MOST}
    return [
        _messages(count, messages, of, whose, without)
        for count, messages in found.items()
        if messages.height
    ]


def _messages(
    counted: str, listed: pl.DataFrame, of: ReportData, whose: str, without: str
) -> Section:
    name, title, one, many = _MOST[counted]
    title = f"{whose} {title}" if whose else title.capitalize()
    listed, zone = listed.head(TOP), of.period.zone
    message = message_cells("slack_cid", "ts", "thread_ts")
    minutes = [minute_text(ts // 1_000_000, zone) for ts in listed["ts"]]
    when = pl.Series(minutes, dtype=pl.String)
    texts = [f"{count:,} {one if count == 1 else many}" for count in listed["count"]]
    rows = listed.select(
        message=pl.struct(message=message, text=pl.Series(texts, dtype=pl.String)),
        channel="slack_cid",
        author="slack_uid",
        date=when,
    )
    return Section(title, (table(name, title, rows, {"date": MINUTE}).without(without),))


def times_sections(hours: pl.DataFrame, days: pl.DataFrame) -> list[Section]:
    """Local hours of Monday to Friday and local weekdays, in which there are messages."""
    titles = {"Hours, Monday to Friday, local time": hours, "Days, local time": days}
    unknown = Text((("Not known: nobody here has a time zone.",),))
    return [
        Section(title, (histogram(title, rows) if rows.height else unknown,))
        for title, rows in titles.items()
    ]


def histogram(title: str, rows: pl.DataFrame) -> Table:
    """A step, the `share` of messages in it, the number of `messages` and maybe of `words`."""
    of = {"share": SHARE_OF_MESSAGES}
    return table(rows.columns[0], title, rows, of, bar="share", is_histogram=True)


def present(*sections: Section | None) -> tuple[Section, ...]:
    """Sections without those that have nothing to say."""
    return tuple(section for section in sections if section is not None)
