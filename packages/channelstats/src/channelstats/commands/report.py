"""`channelstats report`: a report in any format, written to a file or standard output, and sent to
Slack with --send.
"""

import html
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from channelstats import lookup
from channelstats.commands.context import (
    CommandContext,
    Failure,
    argument,
    command,
    date_argument,
    flag,
    number_argument,
)
from channelstats.credentials import Purpose
from channelstats.days import DAY, date_at, minute_text
from channelstats.facts import Period
from channelstats.facts.periods import WEEK
from channelstats.identifiers import is_user_id
from channelstats.pages.model import ChoiceError
from channelstats.pages.reports import ReportData, ReportKind, ReportRequest
from channelstats.pages.stored_document import document_of
from channelstats.render.names import Directory, load
from channelstats.render.reports import Files, Form, json_of_report, render
from channelstats.render.slack import content_of
from channelstats.sending.posting import Attachment, Sender, SendState
from channelstats.sending.targets import (
    destination_of,
    report_data,
    report_request,
    usual_destination,
)
from channelstats.sending.week_messages import newest_week
from channelstats.settings import OptionGroup
from channelstats.slack.errors import SlackError
from channelstats.tables import Tables
from channelstats.tables.exclusion import resolve_channels, resolve_people
from channelstats.tables.sending import Sent, SentKey

_OF_MANY_FILES: Final = (Form.CSV, Form.PARQUET)
_PERIOD_FLAGS: Final = ("week", "first", "last", "days")
_SENDING_FLAGS: Final = ("destination", "attach", "again", "dry_run")
_LONGEST_PERIOD: Final = 3660
"""Days."""


@command(
    argument(
        "kind",
        choices=[*map(str, ReportKind)],
        metavar="|".join(ReportKind),  # also named where it is missing
        help="what it is about: the workspace, the workspace in brief, a channel or a user",
    ),
    argument(
        "name", nargs="?", default="", metavar="NAME", help="the channel or user: a name or an ID"
    ),
    date_argument("--week", "the week of this date [default: the last week]"),
    date_argument("--from", "first day, without --week", dest="first"),
    date_argument("--to", "last day, included", dest="last"),
    number_argument(
        "--days", "number of days, up to yesterday unless --from or --to is given", _LONGEST_PERIOD
    ),
    argument(
        "--format",
        action="append",
        choices=[*map(str, Form)],
        dest="forms",
        help="format to write; may be given several times [default: text]",
    ),
    argument("--out", type=Path, metavar="DIR", help="folder to write to [default: --out-dir]"),
    flag("--regen", "compute it again, even if it is stored"),
    flag("--send", "post it in Slack"),
    argument("--destination", metavar="NAME", help="#channel, @user or an ID; else the usual one"),
    argument("--attach", choices=[str(Form.HTML)], help="add a file to the thread"),
    flag("--again", "send it even if it was sent before"),
    flag("--dry-run", "say what would go where; send nothing"),
    groups=(OptionGroup.COUNTING, OptionGroup.REPORTS, OptionGroup.PRIVACY),
)
async def report(context: CommandContext) -> int:
    arguments, period = context.arguments, _period(context)
    kind, out = ReportKind(arguments.kind), arguments.out or context.settings.out
    forms = tuple(map(Form, arguments.forms or ([] if arguments.send else ["text"])))
    if (kind in (ReportKind.CHANNEL, ReportKind.USER)) != bool(arguments.name):
        context.wrong_usage(f"a {kind} report {'has no' if arguments.name else 'needs a'} name")
    if out is None and (len(forms) > 1 or set(forms) & set(_OF_MANY_FILES)):
        context.wrong_usage("this makes several files: give --out DIR")
    for name in _SENDING_FLAGS:
        if getattr(arguments, name) and not arguments.send:
            context.wrong_usage(f"--{name.replace('_', '-')} belongs to --send")
    async with context.tables(need_messages=True) as tables:
        subject = await _subject(context, tables, kind)
        destination = ""
        if arguments.destination:
            destination = await destination_of(tables, arguments.destination)
        elif arguments.send:
            destination = await usual_destination(tables, context.settings, kind, subject)
        settings = context.settings
        if not (arguments.send or any(getattr(arguments, name) for name in _PERIOD_FLAGS)):
            period = await _newest_period(context, tables, period)
        request = report_request(settings, kind, subject)
        files, data, directory = dict[Form, Files](), None, Directory()
        if Form.JSON in forms and settings.min_group == 1:
            # It is stored, and then no message is read for it.
            document = await document_of(
                tables, period, settings.options, clock=context.clock, refresh=arguments.regen
            )
            files[Form.JSON] = {"": json_of_report(document, request)}
        missing = [form for form in forms if form not in files]
        if arguments.send or missing:
            directory = await load(tables, settings.slack_name)
            data = await report_data(
                tables, settings, period, context.clock, refresh=arguments.regen
            )
            try:
                files |= {form: render(request, data, directory, form) for form in missing}
            except ChoiceError as error:
                raise Failure(f"{arguments.name}: {error}") from None
        await _say_what_is_missing(context, tables, period)
        for form in forms:
            _write(context, out, f"{request.name}.{form}", files[form])
        if arguments.send and data is not None:
            await _send(context, tables, request, data, directory, destination)
    return context.exit_code


def _period(context: CommandContext) -> Period:
    """The days that are asked for; by default the last complete week."""
    arguments = context.arguments
    first, last, days = arguments.first, arguments.last, arguments.days
    if arguments.week and (first or last or days):
        context.wrong_usage("--week is a whole week: give it without --from, --to and --days")
    if first and last and days:
        context.wrong_usage("two of --from, --to and --days are enough")
    if first and last and last < first:
        context.wrong_usage(f"--to {last} is before --from {first}")
    if context.week:
        return context.week
    if not (first or last or days):
        return context.last_week
    length = (last - first).days + 1 if first and last else days or WEEK
    if first is None:
        first = (last + DAY if last else context.today) - timedelta(length)
    return Period(first, length, context.zone)


async def _subject(context: CommandContext, tables: Tables, kind: ReportKind) -> str:
    """The ID of the channel or person that the report is about; "" for the workspace."""
    settings, name = context.settings, context.arguments.name
    if kind is ReportKind.CHANNEL:
        subject = await lookup.channel_id(tables, name)
        excluded = resolve_channels(settings.exclude_channels, await tables.channels.all())
    elif kind is ReportKind.USER:
        subject = await lookup.user_id(tables, name)
        excluded = resolve_people(settings.exclude_users, await tables.users.all())
    else:
        return ""
    if subject in excluded:
        raise Failure(f"{name} is excluded: see exclude_users and exclude_channels")
    return subject


async def _newest_period(context: CommandContext, tables: Tables, usual: Period) -> Period:
    """The week that a report is on where no days are given: the last one that is over, or else the
    last one that was read whole, and then it is said.
    """
    newest = await newest_week(tables, context.settings, context.clock)
    if newest is None or newest.start >= usual.start:
        return usual
    at = minute_text(await tables.configuration.last_run(), context.zone)
    context.say(f"messages were read up to {at}, so this is the last whole week")
    return newest


async def _say_what_is_missing(context: CommandContext, tables: Tables, period: Period) -> None:
    """Say where the report is empty, or the store does not cover all its days."""
    if await tables.messages.newest_day(period.start, period.last) is None:
        newest = await tables.messages.newest_day()
        flags = f"--week {newest}"
        if period.days != WEEK:
            flags = f"--days {period.days} --to {newest}"
        hint = f"; the newest message is from {newest}: {flags}" if newest else ""
        context.say(f"there were no messages from {period.start} to {period.last}{hint}")
    read = await tables.configuration.last_run()
    until = date_at(min(read, int(context.clock())), context.zone) - DAY if read else date.max
    if period.last >= context.today:
        read_days = f"the days up to {until} were read; " if read else ""
        context.say(f"{read_days}{period.last} is not over")
    elif until < period.last:
        context.say(f"the days up to {until} were read; what came later is not in this report")


def _write(context: CommandContext, out: Path | None, name: str, files: Files) -> None:
    """Write a file, or a folder of them, to `out/name`, each whole or not at all, and say so;
    without ``out`` the only file to standard output.

    :raises Failure: it cannot be written there
    """
    if out is None:
        sys.stdout.buffer.write(files[""])
        sys.stdout.flush()
        return
    try:
        for part, data in files.items():
            file = out / name / part  # the one file of a format has no name of its own
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_name(f".{file.name}.new")
            unfinished.write_bytes(data)
            unfinished.replace(file)
    except OSError as error:
        why = error.strerror or str(error)
        if isinstance(error, FileExistsError | NotADirectoryError):
            why = "a file is in the place of a folder"
        raise Failure(f"nothing can be written to {out}: {why}; see --out and --out-dir") from None
    context.say(str(out / name))


# ── sending ──────────────────────────────────────────────────────────────────────────────────────


async def _send(
    context: CommandContext,
    tables: Tables,
    request: ReportRequest,
    data: ReportData,
    directory: Directory,
    destination: str,
) -> None:
    arguments, period = context.arguments, data.period
    content = content_of(request, data, directory)
    title, what, attachment = html.unescape(content.text), "1 message", None
    if arguments.attach:
        file = render(request, data, directory, Form(arguments.attach))[""]
        attachment = Attachment(f"{request.name}.{arguments.attach}", title, file)
        what = f"1 message and {attachment.name}"
    key = SentKey(request.kind, request.subject, period.start, period.days, destination)
    where = _destination_name(directory, destination)
    if arguments.dry_run:
        row = await tables.sent.get(key) or Sent()
        before = f"; sent already on {minute_text(row.done, context.zone)}" if row.done else ""
        print(f"{title}: {what} to {where}{before}")
        return
    async with context.web_api(Purpose.POST) as api:
        sender = Sender(api, tables.sent, clock=context.clock)
        try:
            result = await sender.send(key, content, attachment, again=arguments.again)
        except SlackError as error:
            raise Failure(f"not sent to {where}: {error}") from None
    hint = "; --again sends it once more" if result.state is SendState.ALREADY else ""
    context.say(f"to {where}: {result.text(context.zone)}{hint}")


def _destination_name(directory: Directory, destination: str) -> str:
    """`#channel` or `@user`, or the ID of something unknown."""
    if destination in directory.channels:
        return f"#{directory.channel(destination)}"
    if destination in directory.people or is_user_id(destination):
        return f"@{directory.person(destination)}"
    return destination
