"""Commands that send what belongs to a week: send-weekly posts every report of it in Slack, notify
sends Web Push notifications about it.

Rule: what fails costs that report alone, and the exit code says so; what was sent is not sent
again.
"""

import argparse
from datetime import timedelta
from typing import Final

from channelstats.commands.context import (
    DONE,
    NO_MESSAGES,
    NOT_DONE,
    WITH_PROBLEMS,
    Command,
    CommandContext,
    Failure,
    PostingClient,
    minute,
    parse_date,
)
from channelstats.lookup import NotFound, channel_id
from channelstats.notifications import announce, newest_week
from channelstats.render.names import load
from channelstats.render.words import printable
from channelstats.sending.goals import goals_job
from channelstats.sending.sender import Sender, SendState
from channelstats.sending.targets import WeeklyPlan, weekly_plan
from channelstats.sending.weekly import (
    Delivered,
    RunStopped,
    Skipped,
    WeeklyReports,
    WeeklyRun,
    weekly_key,
)
from channelstats.settings import OptionGroup, SettingError, Settings
from channelstats.slack.errors import SlackError
from channelstats.stats import Period
from channelstats.stats.period import WEEK, last_complete_week
from channelstats.tables import Tables
from channelstats.views.goals import measure_week
from channelstats.views.model import ChoiceError
from channelstats.views.report_data import load_report_data
from channelstats.views.reports import ReportKind

SENT_KEPT: Final = timedelta(400)
"""How long it is known what was sent."""

DESTINATIONS: Final = ("report_channel", "brief_channel", "optin_channel")

# ── send-weekly ──────────────────────────────────────────────────────────────────────────────────


def _add_weekly_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--week", type=parse_date, metavar="DATE", help="the week of a date; else the last one"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list what would go where; send nothing"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="send even if not all of the week was read"
    )


async def _send_weekly(context: CommandContext) -> int:
    last = last_complete_week(context.today, context.settings.first_weekday)
    week = context.week() or Period(last, WEEK, context.zone)
    async with context.tables() as tables:
        if await tables.messages.is_empty():
            raise Failure(NO_MESSAGES)
        unread = await _unread(context, tables, week)
        if context.arguments.dry_run:
            return await _list(context, tables, week, unread)
        if unread and not context.arguments.anyway:
            raise Failure(f"{unread}; --anyway sends all the same")
        async with context.posting_client() as client:
            code = await _send(context, tables, week, client)
        await tables.sent.expire(min(context.today, week.start) - SENT_KEPT)
        return max(code, await _announce(context, tables, week))


async def _unread(context: CommandContext, tables: Tables, week: Period) -> str:
    """What of the week was not read; "" if all of it was."""
    read, until = await tables.configuration.last_run(), minute(week.end, context.zone)
    if read >= week.end:
        return ""
    if week.end > context.clock():
        return f"the week is not over before {until}"
    up_to = f"up to {minute(read, context.zone)}" if read else "never as a whole"
    unread = printable(await tables.configuration.unread())
    why = f"; the last sync did not read everything ({unread})" if unread else ""
    return f"the week ends on {until} and Slack was read {up_to}{why}: run channelstats sync all"


async def _list(context: CommandContext, tables: Tables, week: Period, unread: str) -> int:
    """Print what would go where, a line each."""
    plan = await weekly_plan(tables, context.settings, None)
    for target in plan.targets:
        row = await tables.sent.get(weekly_key(target, week))
        is_sent = row is not None and row.done
        print(f"{target.words}{' (sent already)' if is_sent else ''}")
    if plan.links:
        channels = await tables.channels.all()
        print(f"links to reports on channels to #{channels[plan.links].name}")
    if destination := _goals_destination(context.settings, plan):
        channels = await tables.channels.all()
        print(f"goals and alerts to #{channels[destination].name}")
    problems = _problems(plan) + ([unread] if unread else [])
    for problem in problems:
        context.complain(problem)
    return WITH_PROBLEMS if problems else DONE


def _problems(plan: WeeklyPlan) -> list[str]:
    if plan.targets or plan.problems:
        return list(plan.problems)
    return [
        f"there is nowhere to send to: set {', '.join(DESTINATIONS)}, or create X-stats channels"
    ]


async def _send(
    context: CommandContext, tables: Tables, week: Period, client: PostingClient
) -> int:
    """Send everything; return the exit code."""
    settings, progress = context.settings, context.progress()
    opted_in, problems = await _opted_in(context, tables)
    plan = await weekly_plan(tables, settings, opted_in)
    problems += _problems(plan)
    for problem in problems:
        context.complain(problem)
    if not plan.targets:
        return WITH_PROBLEMS
    data = await load_report_data(
        tables,
        week,
        settings.options,
        now=int(context.clock()),
        counted=[target.subject for target in plan.targets if target.kind is ReportKind.CHANNEL],
        smallest_group=settings.min_group,
    )
    reports = WeeklyReports(data, await load(tables, settings.slack_name), settings)
    sender = client.sender(context, tables)
    run = WeeklyRun(sender, client.posting, client.channels, reports, week)
    code = WITH_PROBLEMS if problems else DONE
    number, said_something = 0, False
    async for event in run.run(plan):
        progress.end()
        line = ""
        if isinstance(event, Skipped):
            line = f"{event.target.words}: not sent, {event.reason}"
        elif isinstance(event, Delivered):
            if event.result.state is not SendState.ALREADY:
                line = f"{event.target.words}: {event.result.text(context.zone)}"
        else:
            said_something = True
            code = max(code, NOT_DONE if isinstance(event, RunStopped) else WITH_PROBLEMS)
            context.complain(str(event))
        if line:
            said_something = True
            context.say(line)
        number += isinstance(event, Delivered | Skipped)
        progress.show(number, len(plan.targets), "sending")
    progress.end()
    if code != NOT_DONE:
        done, line = await _send_goals(context, tables, week, sender, plan)
        code = max(code, done)
        if line:
            said_something = True
            context.say(line)
    if not said_something:
        context.say(f"nothing left to send for the week of {week.start}")
    return code


async def _send_goals(
    context: CommandContext, tables: Tables, week: Period, sender: Sender, plan: WeeklyPlan
) -> tuple[int, str]:
    """Post how goals and alerts came out; return the exit code, and what to say of it."""
    settings, destination = context.settings, _goals_destination(context.settings, plan)
    if not destination:
        return DONE, ""
    try:
        goals, alerts = await measure_week(
            tables,
            week,
            settings.goal_bounds,
            settings.alert_bounds,
            settings.options,
            first_weekday=settings.first_weekday,
        )
        job = goals_job(goals, alerts, week, destination)
        result = await sender.send(job) if job else None
    except (SlackError, ChoiceError) as error:
        context.complain(f"goals and alerts: {error}")
        return WITH_PROBLEMS, ""
    if result is None or result.state is SendState.ALREADY:
        return DONE, ""
    return DONE, f"goals and alerts: {result.text(context.zone)}"


def _goals_destination(settings: Settings, plan: WeeklyPlan) -> str:
    """The channel that goals and alerts are posted to; "" where there are none, or no channel."""
    if not settings.goals and not settings.alerts:
        return ""
    found = (of.destination for of in plan.targets if of.kind is ReportKind.GLOBAL)
    return next(found, "")


async def _opted_in(context: CommandContext, tables: Tables) -> tuple[list[str], list[str]]:
    """Who wants a report on themselves, as Slack says now: who has left gets no more. And what
    keeps from knowing.
    """
    name = context.settings.optin_channel
    if not name:
        return [], []
    found: list[str] = []
    try:
        cid = await channel_id(tables, name)
        async with context.web_api() as api:
            async for page in api.members(cid):
                found += page.items
    except (NotFound, SlackError) as error:
        return [], [f"user reports: who wants one is not known: {error}"]
    return found, []


async def _announce(context: CommandContext, tables: Tables, week: Period) -> int:
    """Notify the subscribers of the dashboard; return the exit code."""
    try:
        result = await announce(
            tables, week, context.settings, clock=context.clock, sleep=context.sleep
        )
    except SettingError as error:
        context.complain(f"nobody is notified: {error}")
        return WITH_PROBLEMS
    if result.notified or result.left:
        context.say(str(result))
    return WITH_PROBLEMS if result.left else DONE


# ── notify ───────────────────────────────────────────────────────────────────────────────────────


def _add_notify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--week", type=parse_date, metavar="DATE", help="the week of a date; else the newest read"
    )
    parser.add_argument("--dry-run", action="store_true", help="say how many; send nothing")


async def _notify(context: CommandContext) -> int:
    async with context.tables() as tables:
        week = context.week()
        if week is None:
            week = await newest_week(tables, context.settings, context.clock)
            if week is None:
                raise Failure(
                    "no whole week was read yet; see channelstats import-export and channelstats "
                    "sync"
                )
        elif week.start > last_complete_week(context.today, context.settings.first_weekday):
            raise Failure(f"the week of {week.start} is not over")
        result = await announce(
            tables,
            week,
            context.settings,
            clock=context.clock,
            sleep=context.sleep,
            dry_run=context.arguments.dry_run,
        )
    context.say(f"week of {week.start}: {result}")
    return WITH_PROBLEMS if result.left else DONE


SEND_WEEKLY: Final = Command(
    "send-weekly",
    "send every report of a week to where it belongs",
    _send_weekly,
    _add_weekly_arguments,
    (OptionGroup.COUNTING, OptionGroup.REPORTS, OptionGroup.PRIVACY),
)
NOTIFY: Final = Command(
    "notify",
    "notify subscribers of the dashboard about a weekly report",
    _notify,
    _add_notify_arguments,
    (OptionGroup.DASHBOARD,),
)
