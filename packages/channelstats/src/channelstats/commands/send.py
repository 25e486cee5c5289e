"""Commands that send what belongs to a week: send-weekly posts every report of it in Slack, notify
tells browsers and mail addresses about it; mail says which addresses those are.

Rule: what fails costs that report alone, and the exit code says so; what was sent is not sent
again.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from channelstats.commands import NOT_DONE
from channelstats.commands.context import (
    CommandContext,
    Failure,
    argument,
    command,
    date_argument,
    flag,
)
from channelstats.credentials import Purpose
from channelstats.days import minute_text
from channelstats.facts import Period
from channelstats.lookup import channel_id
from channelstats.progress import show
from channelstats.render.names import load
from channelstats.render.slack import Content, escaped, text_block
from channelstats.render.words import printable
from channelstats.sending.announcing import Announcer, AnnounceResult, subscribed
from channelstats.sending.mail import MailSender, mail_server, mail_subscription, reason
from channelstats.sending.posting import Sender, SendState, WeeklyRun
from channelstats.sending.targets import WeeklyPlan, report_data, weekly_plan
from channelstats.sending.web_push import MAX_SUBSCRIPTIONS
from channelstats.sending.week_messages import WARNED, WARNING, newest_week, sure_lines, week_report
from channelstats.settings import OptionGroup, SettingError
from channelstats.slack.errors import SlackError
from channelstats.slack.web_api import WebApi
from channelstats.tables import Tables
from channelstats.tables.sending import MAILTO, SentKey, Subscription

SENT_KEPT: Final = timedelta(400)
"""How long it is known what was sent."""

DESTINATIONS: Final = ("report_channel", "brief_channel", "optin_channel")

# ── send-weekly ──────────────────────────────────────────────────────────────────────────────────


@command(
    date_argument("--week", "the week of this date [default: the last week]"),
    flag("--dry-run", "list what would go where; send nothing"),
    flag("--anyway", "send even if not all of the week was read"),
    groups=(OptionGroup.COUNTING, OptionGroup.REPORTS, OptionGroup.PRIVACY),
)
async def send_weekly(context: CommandContext) -> int:
    week = context.week or context.last_week
    async with context.tables(need_messages=True) as tables:
        unread = await _unread(context, tables, week)
        if context.arguments.dry_run:
            await _list(context, tables, week)
            if unread:
                context.complain(unread)
            return context.exit_code
        if unread and not context.arguments.anyway:
            raise Failure(f"{unread}; --anyway sends all the same")
        async with context.web_api(Purpose.POST) as api:
            is_stopped = await _send(context, tables, week, api)
        await tables.sent.expire(min(context.today, week.start) - SENT_KEPT)
        await _tell(context, tables, lambda announcer: announcer.announce(week))
    return NOT_DONE if is_stopped else context.exit_code


async def _unread(context: CommandContext, tables: Tables, week: Period) -> str:
    """What of the week was not read; "" if all of it was."""
    read, until = await tables.configuration.last_run(), minute_text(week.end, context.zone)
    if read >= week.end:
        return ""
    if week.end > context.clock():
        return f"the week is not over before {until}"
    up_to = f"up to {minute_text(read, context.zone)}" if read else "never as a whole"
    unread = printable(await tables.configuration.unread())
    why = f"; the last sync did not read everything ({unread})" if unread else ""
    return (
        f"the week ends on {until} and Slack was read {up_to}{why}: run channelstats sync all, or "
        "import an export that was taken later"
    )


async def _list(context: CommandContext, tables: Tables, week: Period) -> None:
    """Print what would go where, a line each."""
    plan = await weekly_plan(tables, context.settings)
    for target in plan.targets:
        row = await tables.sent.get(target.key(week))
        print(f"{target.words}{' (sent already)' if row is not None and row.done else ''}")
    if plan.links:
        channel = (await tables.channels.all())[plan.links]
        print(f"links to reports on channels to #{channel.name}")
    _complain_of(context, plan)


def _complain_of(context: CommandContext, plan: WeeklyPlan) -> None:
    for problem in plan.problems:
        context.complain(problem)
    if not (plan.targets or plan.problems):
        names = ", ".join(DESTINATIONS)
        context.complain(f"there is nowhere to send to: set {names}, or create X-stats channels")


async def _send(context: CommandContext, tables: Tables, week: Period, api: WebApi) -> bool:
    """Send everything; return whether it ended before all was tried."""
    settings = context.settings
    async with context.web_api() if settings.optin_channel else nullcontext() as reader:
        plan = await weekly_plan(tables, settings, reader)
    _complain_of(context, plan)
    if not plan.targets:
        return False
    with context.progress_bar("sending", "report") as bar:
        run = WeeklyRun(
            api,
            Sender(api, tables.sent, clock=context.clock),
            tables,
            settings,
            await report_data(tables, settings, week, context.clock),
            await load(tables, settings.slack_name),
            say=context.say,
            complain=context.complain,
            show=partial(show, bar),
        )
        return await run.run(plan)


# ── subscribers ──────────────────────────────────────────────────────────────────────────────────


def _announcer(context: CommandContext, tables: Tables) -> Announcer:
    server = mail_server(context.settings, context.environment)
    return Announcer(tables, context.settings, clock=context.clock, mail_server=server)


async def _tell(
    context: CommandContext,
    tables: Tables,
    tell: Callable[[Announcer], Awaitable[AnnounceResult]],
) -> None:
    """Tell the subscribers of the dashboard something; that nobody can be told ends no command."""
    try:
        result = await tell(_announcer(context, tables))
    except SettingError as error:
        context.complain(f"nobody is notified: {error}")
        return
    if result.left:
        context.complain(result)
    elif result.notified:
        context.say(str(result))


@command(
    date_argument("--week", "the week of a date; else the newest read"),
    flag("--dry-run", "say how many; send nothing"),
    groups=(OptionGroup.DASHBOARD,),
)
async def notify(context: CommandContext) -> int:
    async with context.tables() as tables:
        week = context.week
        if week is not None and week.start > context.last_week.start:
            raise Failure(f"the week of {week.start} is not over")
        week = week or await _newest_week(context, tables)
        announcer = _announcer(context, tables)
        result = await announcer.announce(week, dry_run=context.arguments.dry_run)
    (context.complain if result.left else context.say)(f"week of {week.start}: {result}")
    return context.exit_code


async def _newest_week(context: CommandContext, tables: Tables) -> Period:
    """:raises Failure: there is none"""
    week = await newest_week(tables, context.settings, context.clock)
    if week is None:
        commands = "channelstats import-export and channelstats sync"
        raise Failure(f"no whole week was read yet; see {commands}")
    return week


# ── warn ─────────────────────────────────────────────────────────────────────────────────────────


@command(
    flag("--dry-run", "say what is sure; send nothing"),
    groups=(OptionGroup.COUNTING, OptionGroup.REPORTS, OptionGroup.PRIVACY),
)
async def warn(context: CommandContext) -> int:
    week = context.week_of(context.today)
    async with context.tables(need_messages=True) as tables:
        lines = await sure_lines(tables, context.settings, week)
        if context.arguments.dry_run:
            print("".join(f"{line}\n" for line in lines.values()), end="")
            return context.exit_code
        await _tell(context, tables, lambda announcer: announcer.warn(week, lines))
        if lines and context.settings.report_channel:
            await _post_warnings(context, tables, week, lines)
    return context.exit_code


async def _post_warnings(
    context: CommandContext, tables: Tables, week: Period, lines: Mapping[str, str]
) -> None:
    """Post each line in Slack, once in the week."""
    destination = await channel_id(tables, context.settings.report_channel)
    async with context.web_api(Purpose.POST) as api:
        sender = Sender(api, tables.sent, clock=context.clock)
        for bound, line in lines.items():
            key = SentKey(WARNED, bound, week.start, week.days, destination)
            text = escaped(line)
            content = Content(f"{WARNING}: {text}", [text_block(f"*{WARNING}*\n{text}")])
            try:
                result = await sender.send(key, content)
            except SlackError as error:
                context.complain(f"{line}: {error}")
                continue
            if result.state is not SendState.ALREADY:
                context.say(f"{line}: {result.text(context.zone)}")


# ── mail ─────────────────────────────────────────────────────────────────────────────────────────


@command(
    argument("what", choices=("list", "add", "remove", "test"), help="what to do"),
    argument("address", nargs="?", default="", help="a mail address"),
    groups=(OptionGroup.REPORTS,),
)
async def mail(context: CommandContext) -> int:
    what, address = context.arguments.what, context.arguments.address
    if bool(address) == (what == "list"):
        context.wrong_usage("give an address with add, remove and test, and none with list")
    async with context.tables() as tables:
        subscriptions = await tables.subscriptions.all()
        addresses = sorted(row.address for row in subscriptions if row.address)
        if what == "list":
            print("".join(f"{listed}\n" for listed in addresses), end="")
        elif what == "remove":
            if address not in addresses:
                raise Failure(f"{address} gets no mail")
            await tables.subscriptions.remove(f"{MAILTO}{address}")
        else:
            server = mail_server(context.settings, context.environment)
            if server is None:
                raise Failure("mail_server: expected a server that mail is handed to")
            try:
                to = mail_subscription(address)
            except ValueError as error:
                raise Failure(f"{address[:100]}: {error}") from None
            if what == "test":
                sender = MailSender(server, context.settings.folder, context.clock)
                await _send_test(context, tables, to, sender)
            elif len(subscriptions) >= MAX_SUBSCRIPTIONS:
                raise Failure(f"there are {MAX_SUBSCRIPTIONS:,} subscriptions already")
            else:
                await _add(context, tables, to)
    return context.exit_code


async def _send_test(
    context: CommandContext, tables: Tables, to: Subscription, sender: MailSender
) -> None:
    """Send the mail about the newest week to an address, whether or not it gets mail; nothing is
    noted, so it gets the next one all the same.
    """
    week = await _newest_week(context, tables)
    about = (await week_report(tables, context.settings, week, context.clock)).mail()
    try:
        await sender.send(to, msgspec.structs.replace(about, subject=f"Test: {about.subject}"))
    except OSError as error:
        raise Failure(f"{to.address}: not sent: {reason(error)}") from None
    context.say(f"{to.address}: the mail about the week of {week.start} was handed to the server")


async def _add(context: CommandContext, tables: Tables, to: Subscription) -> None:
    new = await subscribed(to, tables, context.settings, context.clock)
    if await tables.subscriptions.add(new):
        context.say(f"{to.address} gets the mail about each week that is over from now on")
    else:
        context.say(f"{to.address} gets mail already")
