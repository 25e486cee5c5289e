"""Reports: pages of the dashboard on one sheet, for a file or a mail.

Rule: a report says nothing that the dashboard does not say of the same days; of long tables it has
the first rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cached_property
from typing import Final
from urllib.parse import urlencode

import msgspec

from channelstats.days import day_text, period_text
from channelstats.facts.facts import Slice
from channelstats.facts.periods import Period
from channelstats.facts.reading import Options, load_inputs
from channelstats.metrics.table import Kind, Table
from channelstats.pages.annotations import (
    ASSIGNED_BY,
    NO_MARKS,
    NO_NOTES,
    DateNotes,
    MarkedItems,
    with_date_notes,
    with_marks,
)
from channelstats.pages.document import report
from channelstats.pages.loading import DashboardData, ViewRequest, of_pages, reach_of
from channelstats.pages.model import (
    ALL_VIEWS,
    CHANNEL,
    PERSON,
    Choice,
    ChoiceError,
    Heat,
    Line,
    Page,
    Part,
    Section,
    Span,
    Text,
    Tiles,
)
from channelstats.pages.queue import ITEM
from channelstats.pages.small_groups import SmallGroups
from channelstats.pages.views import view_of
from channelstats.tables import Tables

ROWS: Final = 20
"""Of a table in a report; the dashboard, JSON, CSV and Parquet have all of them."""


class ReportKind(StrEnum):
    GLOBAL = "global"
    BRIEF = "brief"
    CHANNEL = "channel"
    USER = "user"


_NOT_REPORTED: Final = (ITEM, ASSIGNED_BY)

_VIEWS: Final = {
    ReportKind.GLOBAL: ("overview", "threads", "reactions"),
    ReportKind.BRIEF: ("overview",),
    ReportKind.CHANNEL: (CHANNEL,),
    ReportKind.USER: (PERSON,),
}
"""The pages that a report consists of."""


class ReportRequest(msgspec.Struct, frozen=True):
    """A report: of which kind and, for a channel or a user, on which ID. Whoever joins
    ``optin_channel`` gets reports on themselves; in ``help_channel`` people may ask;
    ``dashboard_url`` is where the dashboard is.
    """

    kind: ReportKind
    subject: str = ""
    optin_channel: str = ""
    help_channel: str = ""
    dashboard_url: str = ""

    @property
    def name(self) -> str:
        """What its files are called."""
        return f"{self.kind}-{self.subject}" if self.subject else str(self.kind)

    @property
    def title(self) -> Line:
        if self.kind is ReportKind.CHANNEL:
            return ("Report on ", Span(self.subject, Kind.CHANNEL))
        if self.kind is ReportKind.USER:
            return ("Report for ", Span(self.subject, Kind.PERSON))
        return ("Workspace report",)

    def choice(self, period: Period) -> Choice:
        """What it is on, of these days."""
        channel = self.subject if self.kind is ReportKind.CHANNEL else ""
        person = self.subject if self.kind is ReportKind.USER else ""
        return Choice(period.start, period.last, channel, person)


@dataclass(frozen=True)
class ReportData:
    """What the reports of a period are made of, read once for all of them. ``made_at`` is in
    seconds since the epoch; ``newest`` is the date of the newest message of all, None where there
    is none; ``marks`` are what was said of things to do, ``notes`` of dates; ``counted_with`` are
    the options of the document where they differ.
    """

    data: DashboardData
    made_at: int
    smallest_group: int = 1
    newest: date | None = None
    marks: MarkedItems = field(default_factory=lambda: NO_MARKS)
    counted_with: Options | None = None
    notes: DateNotes = field(default_factory=lambda: NO_NOTES)

    @property
    def period(self) -> Period:
        return self.data.period

    @property
    def now(self) -> Slice:
        return self.data.whole.now

    @property
    def before(self) -> Slice:
        return self.data.whole.before

    @property
    def groups(self) -> SmallGroups:
        return SmallGroups(self.now, self.smallest_group)

    def request(self, wanted: ReportRequest) -> ViewRequest:
        """What is asked of a view.

        :raises ChoiceError: it is on a group that is too small
        """
        choice = wanted.choice(self.period)
        return ViewRequest(_VIEWS[wanted.kind][0], self.data, choice, self.smallest_group)

    def page(self, view: str, wanted: ReportRequest) -> Page:
        """That view of what a report is on.

        :raises ChoiceError: it is on a group that is too small
        """
        choice, smallest = wanted.choice(self.period), self.smallest_group
        page = view_of(view, self.data, choice, smallest_group=smallest)
        return with_date_notes(with_marks(page, self.marks), self.notes)

    @cached_property
    def document(self) -> bytes:
        """The document of the period as JSON, as far as it may be shown."""
        data, smallest = self.data, self.smallest_group
        options = self.counted_with or data.options
        return report(
            data.inputs, data.period, options, generated_at=self.made_at, smallest_group=smallest
        )


async def load_report_data(
    tables: Tables,
    period: Period,
    options: Options,
    *,
    now: int,
    smallest_group: int = 1,
    refresh: bool = False,
) -> ReportData:
    """Read what the reports of a period are made of. ``now`` is in seconds since the epoch; for
    ``refresh`` see `load_inputs`.
    """
    # As many days as the dashboard has.
    inputs = await load_inputs(tables, period, options, reach=reach_of(period), refresh=refresh)
    data = DashboardData(inputs, period, of_pages(options), period.start.weekday())
    newest = await tables.messages.newest_day()
    marks, notes = await tables.marks.all(), await tables.configuration.notes()
    return ReportData(data, now, smallest_group, newest, marks, options, notes)


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def report_on(wanted: ReportRequest, data: ReportData) -> Page:
    """The whole report; ``data`` serves for many."""
    try:
        first, *others = (data.page(view, wanted) for view in _VIEWS[wanted.kind])
    except ChoiceError as error:
        return sheet(wanted, data, Text(((f"{error}.",),)))
    more = [section for page in others for section in _sections_of(page)]
    # Of what Overview has the beginning of, the other page has more.
    titles = {section.title for section in more}
    own = [section.showing() for section in first.sections if section.title not in titles]
    notes = (*first.notes, *(note for page in others for note in page.notes))
    report = sheet(wanted, data, *first.lead, sections=tuple(map(_short, (*own, *more))))
    return msgspec.structs.replace(report, notes=tuple(dict.fromkeys((*notes, *report.notes))))


def sheet(
    wanted: ReportRequest, data: ReportData, *lead: Part, sections: tuple[Section, ...] = ()
) -> Page:
    """A page on what a report is on, with what there is to know about it."""
    period, choice, address = data.period, wanted.choice(data.period), ""
    if wanted.dashboard_url:
        asked = {"from": period.start.isoformat(), "to": period.last.isoformat()}
        about = {CHANNEL: choice.channel, PERSON: choice.person}
        asked |= {name: subject for name, subject in about.items() if subject}
        address = f"{wanted.dashboard_url}?{urlencode(asked)}"
    about_it = tuple(about_lines(wanted, data))
    asking = (Section("About this report", (Text(about_it),)),) if about_it else ()
    return Page(
        name=wanted.name,
        title=wanted.title,
        choice=choice,
        before=(period.previous.start, period.previous.last),
        period=period_text(period.start, period.last),
        lead=(*lead, *(Text(((note,),)) for note in coverage(data))),
        sections=(*sections, *asking),
        dashboard=address,
    )


def _sections_of(page: Page) -> Iterator[Section]:
    """A page as sections, of which the first one has its figures."""
    title, figures = ALL_VIEWS[page.name], Tiles(page.tiles)
    first, *others = page.sections
    if first.title == title:
        yield msgspec.structs.replace(first, parts=(figures, *first.parts))
    else:
        yield from (Section(title, (figures,)), first)
    yield from others


def _short(section: Section) -> Section:
    """With the first rows of its tables; the numbers of a heat map stand with it."""
    if isinstance(section.chart, Heat):
        return msgspec.structs.replace(section, parts=(section.chart,))
    return msgspec.structs.replace(section, parts=tuple(map(_first_rows, section.parts)))


def _first_rows(part: Part) -> Part:
    if not isinstance(part, Table):
        return part
    rows, title = part.rows.head(ROWS), part.title
    if part.rows.height > ROWS:
        title = f"{title}, the first {ROWS} of {part.rows.height:,}"
    return msgspec.structs.replace(
        part.without(*_NOT_REPORTED), rows=rows.drop(_NOT_REPORTED, strict=False), title=title
    )


def coverage(data: ReportData) -> Iterator[str]:
    """Why nothing is compared, where it is not, and where the newest messages are, where there are
    none in these days.
    """
    history, period = data.data.inputs.history, data.period
    if not data.data.whole.is_meaningful:
        known = f"since {history.first}"
        if history.last is not None and history.last < period.last:
            known = f"up to {history.last}"
        yield f"Messages are known {known}: nothing is compared with the period before."
    if not data.now.messages.height and data.newest is not None and data.newest < period.start:
        last = Period(data.newest, 1, period.zone).ending_with(period.days)
        yield (
            f"The newest message of the workspace is of {day_text(last.last)}; as many days up to "
            f"it are from {last.start} to {last.last}."
        )


def about_lines(wanted: ReportRequest, data: ReportData) -> Iterator[Line]:
    """Why one gets a report, and where to ask."""
    if wanted.kind is ReportKind.USER:
        joined: str | Span = "the channel for personal reports"
        if wanted.optin_channel:
            joined = _channel_called(wanted.optin_channel, data)
        yield ("You get this because you are in ", joined, ". Leave it to stop getting them.")
    if wanted.help_channel:
        where = _channel_called(wanted.help_channel, data)
        yield ("Questions about this report? Ask in ", where, ".")


def _channel_called(name: str, data: ReportData) -> str | Span:
    """A channel of a name or an ID; the name alone where there is none."""
    channels = data.data.inputs.channels
    ids = (cid for cid, known in channels.items() if name in (cid, known.name))
    cid = next(ids, "")
    return Span(cid, Kind.CHANNEL) if cid else f"#{name}"
