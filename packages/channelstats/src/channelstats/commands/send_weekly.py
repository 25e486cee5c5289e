"""`channelstats send-weekly`: every report of a week, to where it belongs.

Rule: a report that fails costs that report alone, and the exit code says that one did; what was
sent is not sent again.
"""

import argparse
from datetime import date, timedelta
from typing import Final

from channelstats.commands.call import (
    DONE,
    NO_MESSAGES,
    NOT_DONE,
    WITH_PROBLEMS,
    Call,
    Command,
    Failure,
)
from channelstats.commands.days import a_date
from channelstats.commands.desk import Desk, desk
from channelstats.commands.told import day_and_time, told_of
from channelstats.commands.web_api import web_api
from channelstats.lookup import NotFound, channel_id
from channelstats.notifications import announce
from channelstats.render.names import load
from channelstats.render.words import printable
from channelstats.sending.sender import State
from channelstats.sending.targets import Plan, weekly_plan
from channelstats.sending.weekly import Delivered, LeftOut, Reports, Stopped, Weekly, weekly_key
from channelstats.settings import Group, SettingError
from channelstats.slack.errors import SlackError
from channelstats.stats import Period
from channelstats.stats.period import WEEK, last_complete_week, week_of
from channelstats.tables import Tables
from channelstats.views.report_data import load_report_data
from channelstats.views.reports import ReportKind

KEPT: Final = timedelta(400)
"""How long it is known what was sent."""

DESTINATIONS: Final = ("report_channel", "brief_channel", "optin_channel")


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--week", type=a_date, metavar="DATE", help="week of a date, else the last one"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list what would go where, and do nothing"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="send though not all of the week was read"
    )


async def _run(call: Call) -> int:
    first = call.settings.first_weekday
    given: date | None = call.given.week
    start = last_complete_week(call.today, first) if given is None else week_of(given, first)
    week = Period(start, WEEK, call.zone)
    async with call.tables() as tables:
        if await tables.messages.is_empty():
            raise Failure(NO_MESSAGES)
        missing = await _missing(tables, week, call.clock())
        if call.given.dry_run:
            return await _list(call, tables, week, missing)
        if missing and not call.given.anyway:
            raise Failure(f"{missing}; --anyway sends all the same")
        async with desk(call) as opened:
            code = await _send(call, tables, week, opened)
        await tables.sent.expire(min(call.today, week.start) - KEPT)
        return max(code, await _announce(call, tables, week))


async def _missing(tables: Tables, week: Period, now: float) -> str:
    """What of the week was not read; "" if all of it was."""
    read, until = await tables.configuration.last_run(), day_and_time(week.end, tables.zone)
    if read >= week.end:
        return ""
    if week.end > now:
        return f"the week is not over before {until}"
    upto = f"up to {day_and_time(read, tables.zone)}" if read else "never as a whole"
    unread = printable(await tables.configuration.unread())
    why = f"; the last sync did not read everything ({unread})" if unread else ""
    return f"the week ends on {until} and Slack was read {upto}{why}: run channelstats sync all"


async def _list(call: Call, tables: Tables, week: Period, missing: str) -> int:
    """What would go where, one a line."""
    plan = await weekly_plan(tables, call.settings, None)
    for target in plan.targets:
        row = await tables.sent.get(weekly_key(target, week))
        done = row is not None and row.done
        print(f"{target.words}{' (sent already)' if done else ''}")
    if plan.links:
        channels = await tables.channels.all()
        print(f"links to reports on channels to #{channels[plan.links].name}")
    problems = _problems(plan) + ([missing] if missing else [])
    for problem in problems:
        call.complain(problem)
    return WITH_PROBLEMS if problems else DONE


def _problems(plan: Plan) -> list[str]:
    if plan.targets or plan.problems:
        return list(plan.problems)
    return [f"there is nowhere to send to: set {', '.join(DESTINATIONS)}, or make X-stats channels"]


async def _send(call: Call, tables: Tables, week: Period, opened: Desk) -> int:
    """Send everything; return the exit code."""
    settings, progress = call.settings, call.progress()
    opted_in, problems = await _opted_in(call, tables)
    plan = await weekly_plan(tables, settings, opted_in)
    problems += _problems(plan)
    for problem in problems:
        call.complain(problem)
    if not plan.targets:
        return WITH_PROBLEMS
    counted = [target.subject for target in plan.targets if target.kind is ReportKind.CHANNEL]
    data = await load_report_data(
        tables,
        week,
        settings.options,
        now=int(call.clock()),
        counted=counted,
        smallest_group=settings.min_group,
    )
    reports = Reports(data, await load(tables, settings.slack_name), settings)
    run = Weekly(opened.sender(call, tables), opened.posting, opened.care, reports, week)
    code, number, told = WITH_PROBLEMS if problems else DONE, 0, False
    async for event in run.run(plan):
        progress.end()
        if isinstance(event, Delivered | LeftOut):
            number += 1
            told |= _tell(call, event)
        else:
            told = True
            code = max(code, NOT_DONE if isinstance(event, Stopped) else WITH_PROBLEMS)
            call.complain(str(event))
        progress.show(number, len(plan.targets), "sending")
    progress.end()
    if not told:
        call.say(f"nothing left to send for the week of {week.start}")
    return code


def _tell(call: Call, event: Delivered | LeftOut) -> bool:
    """Say what became of a report; return whether there was anything to say."""
    if isinstance(event, LeftOut):
        call.say(f"{event.target.words}: not sent, {event.reason}")
        return True
    if event.outcome.state is State.ALREADY:
        return False
    call.say(f"{event.target.words}: {told_of(event.outcome, call.zone)}")
    return True


async def _announce(call: Call, tables: Tables, week: Period) -> int:
    """Tell subscribers of the dashboard; return the exit code."""
    try:
        told = await announce(tables, week, call.settings, clock=call.clock, sleep=call.sleep)
    except SettingError as error:
        call.complain(f"nobody is notified: {error}")
        return WITH_PROBLEMS
    if told.told or told.left:
        call.say(str(told))
    return WITH_PROBLEMS if told.left else DONE


async def _opted_in(call: Call, tables: Tables) -> tuple[list[str], list[str]]:
    """Who wants a report on themselves, as Slack says now: whoever has left gets no more; and what
    keeps from knowing.
    """
    name = call.settings.optin_channel
    if not name:
        return [], []
    found: list[str] = []
    try:
        cid = await channel_id(tables, name)
        async with web_api(call) as api:
            async for page in api.members(cid):
                found += page.items
    except (NotFound, SlackError) as error:
        return [], [f"user reports: who wants one is not known: {error}"]
    return found, []


COMMAND = Command(
    "send-weekly",
    "send every report of a week to where it belongs",
    _run,
    _flags,
    (Group.COUNTING, Group.REPORTS, Group.PRIVACY),
)
