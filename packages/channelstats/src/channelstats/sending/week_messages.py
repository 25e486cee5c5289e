"""What subscribers are told: of a week that is over, and of what is sure before one is."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Final

import msgspec

from channelstats.facts import Period
from channelstats.metrics.quantities import change
from channelstats.metrics.query import aggregated
from channelstats.pages.digest import digest_of
from channelstats.pages.goals import Measured, decided, measure_week
from channelstats.pages.model import Choice, ChoiceError, Page, Text
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest
from channelstats.render.html import html_of
from channelstats.render.names import Directory
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
from channelstats.settings import Settings
from channelstats.tables import Tables

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


def message_of(
    data: ReportData, goals: Sequence[Measured] = (), alerts: Sequence[Measured] = ()
) -> WeekMessage | None:
    """The message about a week, with the goals that were not met and the alerts; None when there
    were no messages.

    Rule: it has numbers of the whole workspace and names nobody and nothing: others may see the
    screen that shows it.
    """
    week, names = data.period, ("messages", "posters", "channels")
    (written, posters, channels), (before, *_) = (
        aggregated(part, (), names).row(0) for part in (data.now, data.before)
    )
    messages = change(written, before)
    if not (number := messages["cur"]):
        return None
    compared = change_text(messages)
    body = (
        f"{_days(week.start, week.last)}: {number_text(number)} {plural(number, 'message')}"
        f"{f' ({compared})' if compared else ''} by {number_text(posters)} "
        f"{plural(posters, 'person')} in {channels:,} {plural(channels, 'channel')}"
    )
    url = f"/report?from={week.start.isoformat()}&to={week.last.isoformat()}"
    lines = shortened(unmet_lines(goals, alerts), MAX_LINES)
    return WeekMessage(TITLE, "\n".join([body, *lines]), url)


def _days(first: date, last: date) -> str:
    """10 to 16 March 2024; 31 March to 6 April 2024."""
    begin = f"{first.day}" if first.month == last.month else f"{first.day} {first:%B}"
    return f"{begin} to {last.day} {last:%B %Y}"


def digest_mail(
    data: ReportData,
    names: Directory,
    goals: list[Measured],
    alerts: list[Measured],
    help_channel: str,
) -> Mail:
    """The mail about a week: the digest of its report, goals and alerts."""
    names = replace(names, signs=True)
    page = digest_of(ReportRequest(ReportKind.GLOBAL, "", "", help_channel, ""), data)
    if lines := weekly_lines(goals, alerts):
        said = Text(tuple((line,) for line in lines))
        page = msgspec.structs.replace(page, lead=(*page.lead, said))
    week = data.period
    subject = f"{line_text(page.title, names)}, {_days(week.start, week.last)}"
    return Mail(subject, text_of(page, names), html_of(page, names), week.start)


async def measured_week(
    tables: Tables, settings: Settings, week: Period
) -> tuple[list[Measured], list[Measured]]:
    """Goals and alerts of a week; none where there is too much to measure."""
    try:
        return await measure_week(
            tables,
            week,
            settings.goals,
            settings.alerts,
            settings.options,
            first_weekday=settings.first_weekday,
        )
    except ChoiceError as error:
        _log.warning("goals and alerts are not in the notification: %s", error)
        return [], []


async def sure_lines(tables: Tables, settings: Settings, week: Period) -> dict[str, str]:
    """What is sure before a week is over: a line for each goal that is missed and each alert, by
    what tells them apart.
    """
    goals, alerts = await measured_week(tables, settings, week)
    lines = {
        goal.bound.text: unmet_lines([goal], [])[0]
        for goal in goals
        if decided(goal, is_alert=False)
    }
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
    lead = Text(tuple((line,) for line in lines))
    page = Page(WARNED, (WARNING,), days, (before.start, before.last), lead=(lead,))
    subject = f"{WARNING}: {lines[0]}{more}"
    return Mail(subject, text_of(page, _NOBODY), html_of(page, _NOBODY), week.start)
