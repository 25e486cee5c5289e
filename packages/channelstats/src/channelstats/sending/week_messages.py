"""What subscribers are told: of a week that is over, and of what is sure before one is."""

import logging
from dataclasses import replace
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from channelstats.days import date_at
from channelstats.facts import Period
from channelstats.facts.periods import WEEK, last_complete_week
from channelstats.metrics.quantities import change
from channelstats.metrics.query import aggregated
from channelstats.pages.digest import digest_of
from channelstats.pages.goals import Measured, decided, measure_week
from channelstats.pages.model import Choice, ChoiceError, Page, Text
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest
from channelstats.render.html import html_of
from channelstats.render.names import Directory, load
from channelstats.render.text import line_text, text_of
from channelstats.render.words import (
    change_text,
    number_text,
    plural,
    shortened,
    unmet_lines,
    weekly_lines,
)
from channelstats.sending.mail import Mail
from channelstats.sending.targets import report_data
from channelstats.settings import Settings
from channelstats.tables import Tables
from keytables import Clock

TITLE: Final = "A new weekly report is ready"
WARNING: Final = "Already sure this week"
WARNED: Final = "warned"
"""The kind of what is sent before a week is over."""
MAX_LINES: Final = 3
"""Of goals and alerts in a notification; screens show no more."""

_NOBODY: Final = Directory()

_log: Final = logging.getLogger("channelstats.notifications")


class WeekMessage(msgspec.Struct, frozen=True):
    """What a notification shows. ``url`` is a path of the dashboard."""

    title: str
    body: str
    url: str


def complete_week(read_up_to: int, now: float, zone: ZoneInfo, first_weekday: int) -> Period | None:
    """The newest week that is over and read to its end. ``read_up_to``: seconds, 0 for nothing."""
    if read_up_to <= 0:
        return None
    at = min(read_up_to, int(now))
    return Period(last_complete_week(date_at(at, zone), first_weekday), WEEK, zone)


async def newest_week(tables: Tables, settings: Settings, clock: Clock) -> Period | None:
    """The newest complete week of the store."""
    read = await tables.configuration.last_run()
    return complete_week(read, clock(), tables.zone, settings.first_weekday)


class WeekReport(msgspec.Struct, frozen=True):
    """A week that is over, with its goals and alerts."""

    data: ReportData
    names: Directory
    goals: list[Measured]
    alerts: list[Measured]
    help_channel: str

    def message(self) -> WeekMessage | None:
        """What a notification says of it; None when there were no messages.

        Rule: it has numbers of the whole workspace and names nobody and nothing: others may see
        the screen that shows it.
        """
        week, names = self.data.period, ("messages", "posters", "channels")
        (written, posters, channels), (before, *_) = (
            aggregated(part, (), names).row(0) for part in (self.data.now, self.data.before)
        )
        messages = change(written, before)
        if not (number := messages["cur"]):
            return None
        compared = change_text(messages)
        body = (
            f"{_days(week)}: {number_text(number)} {plural(number, 'message')}"
            f"{f' ({compared})' if compared else ''} by {number_text(posters)} "
            f"{plural(posters, 'person')} in {channels:,} {plural(channels, 'channel')}"
        )
        url = f"/report?from={week.start.isoformat()}&to={week.last.isoformat()}"
        lines = shortened(unmet_lines(self.goals, self.alerts), MAX_LINES)
        return WeekMessage(TITLE, "\n".join([body, *lines]), url)

    def mail(self) -> Mail:
        """The digest of its report, goals and alerts."""
        names, week = replace(self.names, signs=True), self.data.period
        request = ReportRequest(ReportKind.GLOBAL, "", "", self.help_channel, "")
        page = digest_of(request, self.data)
        if lines := weekly_lines(self.goals, self.alerts):
            page = msgspec.structs.replace(page, lead=(*page.lead, _paragraph(lines)))
        subject = f"{line_text(page.title, names)}, {_days(week)}"
        return Mail(subject, text_of(page, names), html_of(page, names), week.start)


async def week_report(tables: Tables, settings: Settings, week: Period, clock: Clock) -> WeekReport:
    """Goals and alerts are left out where there is too much to measure."""
    data = await report_data(tables, settings, week, clock)
    names = await load(tables, settings.slack_name)
    try:
        goals, alerts = await measured(tables, settings, week)
    except ChoiceError as error:
        _log.warning("goals and alerts are not in the notification: %s", error)
        goals, alerts = [], []
    return WeekReport(data, names, goals, alerts, settings.help_channel)


async def measured(
    tables: Tables, settings: Settings, week: Period
) -> tuple[list[Measured], list[Measured]]:
    """The goals and alerts of a week.

    :raises ChoiceError: there is too much to measure
    """
    return await measure_week(
        tables,
        week,
        settings.goals,
        settings.alerts,
        settings.options,
        first_weekday=settings.first_weekday,
    )


def _days(week: Period) -> str:
    """10 to 16 March 2024; 31 March to 6 April 2024."""
    first, last = week.start, week.last
    begin = f"{first.day}" if first.month == last.month else f"{first.day} {first:%B}"
    return f"{begin} to {last.day} {last:%B %Y}"


def _paragraph(lines: list[str]) -> Text:
    return Text(tuple((line,) for line in lines))


# ── before a week is over ────────────────────────────────────────────────────────────────────────


async def sure_lines(tables: Tables, settings: Settings, week: Period) -> dict[str, str]:
    """What is sure before a week is over: a line for each goal that is missed and each alert, by
    what tells them apart. None where there is too much to measure.
    """
    try:
        goals, alerts = await measured(tables, settings, week)
    except ChoiceError as error:
        _log.warning("goals and alerts cannot be measured: %s", error)
        return {}
    lines = {}
    for goal in goals:
        if decided(goal, is_alert=False):
            [lines[goal.bound.text]] = unmet_lines([goal], [])
    for alert in alerts:
        if decided(alert, is_alert=True):
            [lines[alert.bound.text]] = unmet_lines([], [alert])
    return lines


def warning_message(week: Period, lines: list[str]) -> WeekMessage:
    url = f"/?from={week.start.isoformat()}&to={week.last.isoformat()}"
    return WeekMessage(WARNING, "\n".join(shortened(lines, MAX_LINES)), url)


def warning_mail(week: Period, lines: list[str]) -> Mail:
    more = f" and {len(lines) - 1:,} more" if len(lines) > 1 else ""
    days, before = Choice(week.start, week.last), week.previous
    page = Page(WARNED, (WARNING,), days, (before.start, before.last), lead=(_paragraph(lines),))
    subject = f"{WARNING}: {lines[0]}{more}"
    return Mail(subject, text_of(page, _NOBODY), html_of(page, _NOBODY), week.start)
