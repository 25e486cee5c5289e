"""`channelstats report`: a report in any form, and to Slack on demand.

Rule: nothing is sent without --send.
"""

import argparse
import html
from pathlib import Path
from typing import Final

import msgspec

from channelstats import lookup
from channelstats.commands.call import DONE, NO_MESSAGES, Call, Command, Failure
from channelstats.commands.days import Days, add_days, days_of
from channelstats.commands.desk import desk
from channelstats.commands.output import write_files
from channelstats.commands.reach import newest_period, reach_of
from channelstats.commands.secrets import pseudonym_secret
from channelstats.commands.told import day_and_time, named, told_of
from channelstats.privacy.pseudonyms import load_pseudonyms
from channelstats.render.names import Directory, load
from channelstats.render.reports import Form, render, shown_names, shown_subject
from channelstats.render.slack import content_of, split_blocks
from channelstats.render.words import plural
from channelstats.sending.sender import Attachment, Errand, State
from channelstats.sending.targets import destination_of, usual_destination
from channelstats.settings import Group
from channelstats.slack.errors import SlackError
from channelstats.stats import Period
from channelstats.stats.stored_document import document_of
from channelstats.tables import Tables
from channelstats.tables.exclusion import resolve_channels, resolve_people
from channelstats.tables.sent_reports import SentKey
from channelstats.views.report_data import ReportData, load_report_data
from channelstats.views.reports import ReportKind, Wanted, report_on

_OF_MANY_FILES: Final = (Form.CSV, Form.PARQUET)
_ATTACHED: Final = (Form.HTML,)


class Sending(msgspec.Struct, frozen=True):
    """That it is to be sent, and how. ``destination`` is "" for the usual one."""

    destination: str = ""
    attach: Form | None = None
    again: bool = False
    dry_run: bool = False


class Asked(msgspec.Struct, frozen=True):
    """A report as it was asked for. Without ``out`` it is written to standard output."""

    kind: ReportKind
    name: str
    forms: tuple[Form, ...]
    days: Days
    out: Path | None = None
    anonymize: bool = False
    anew: bool = False
    sending: Sending | None = None


class Made(msgspec.Struct, frozen=True):
    """What a report is rendered from. ``wanted`` has the real ID of whom or what it is about,
    ``shown`` the one that is shown; ``document`` is empty where none is stored, or it is not asked
    for.
    """

    wanted: Wanted
    shown: Wanted
    data: ReportData
    directory: Directory
    document: bytes = b""

    @property
    def period(self) -> Period:
        return self.data.period


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        choices=[str(kind) for kind in ReportKind],
        help="what it is about: the workspace, that in short, a channel or a user",
    )
    parser.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="the channel or user: a name or an ID"
    )
    add_days(parser)
    forms = [str(form) for form in Form]
    parser.add_argument(
        "--format",
        action="append",
        choices=forms,
        dest="forms",
        help="form to write, else text; may be given several times",
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder to write to, else --out-dir"
    )
    parser.add_argument(
        "--anonymize", action="store_true", help="pseudonyms for people and channels"
    )
    parser.add_argument("--regen", action="store_true", help="make it anew, whatever is stored")
    group = parser.add_argument_group("sending")
    group.add_argument("--send", action="store_true", help="post it in Slack")
    group.add_argument(
        "--destination", metavar="NAME", help="#channel, @user or an ID; the usual one without it"
    )
    group.add_argument(
        "--attach", choices=[str(form) for form in _ATTACHED], help="put a file into the thread"
    )
    group.add_argument("--again", action="store_true", help="send it though it was sent before")
    group.add_argument(
        "--dry-run", action="store_true", help="say what would go where, and send nothing"
    )


def _asked(call: Call) -> Asked:
    given = call.given
    kind = ReportKind(given.kind)
    forms = tuple(map(Form, given.forms or ([] if given.send else ["text"])))
    out = given.out or call.settings.out
    if (kind in (ReportKind.CHANNEL, ReportKind.USER)) != bool(given.name):
        call.wrong(f"a {kind} report {'has no' if given.name else 'needs a'} name")
    if out is None and (len(forms) > 1 or set(forms) & set(_OF_MANY_FILES)):
        call.wrong("this makes several files: give --out DIR")
    return Asked(
        kind=kind,
        name=given.name,
        forms=forms,
        days=days_of(call),
        out=out,
        anonymize=given.anonymize,
        anew=given.regen,
        sending=_sending(call),
    )


def _sending(call: Call) -> Sending | None:
    given = call.given
    if given.send:
        attach = Form(given.attach) if given.attach else None
        return Sending(given.destination or "", attach, given.again, given.dry_run)
    for name in ("destination", "attach", "again", "dry_run"):
        if getattr(given, name):
            call.wrong(f"--{name.replace('_', '-')} belongs to --send")
    return None


async def _run(call: Call) -> int:
    asked = _asked(call)
    async with call.tables() as tables:
        if await tables.messages.is_empty():
            raise Failure(NO_MESSAGES)
        finders = {ReportKind.CHANNEL: lookup.channel_id, ReportKind.USER: lookup.user_id}
        find = finders.get(asked.kind)
        subject = await find(tables, asked.name) if find else ""
        if subject in await _left_out(call, tables):
            raise Failure(f"{asked.name} is left out: see exclude_users and exclude_channels")
        destination = ""
        if asked.sending is not None:
            destination = await _destination(call, tables, asked, subject)
        made = await _make(call, tables, asked, subject)
        async for line in reach_of(call, tables, made.data):
            call.say(line)
        for form in asked.forms:
            name, files = _render(made, form)
            written = write_files(asked.out, f"{name}.{form}", files)
            if written is not None:
                call.say(str(written))
        if asked.sending is not None:
            await _send(call, tables, made, destination, asked.sending)
    return DONE


async def _left_out(call: Call, tables: Tables) -> frozenset[str]:
    """The IDs of people and channels that no report is to be about."""
    settings = call.settings
    people = resolve_people(settings.excluded_users, await tables.users.all())
    return people | resolve_channels(settings.excluded_channels, await tables.channels.all())


async def _make(call: Call, tables: Tables, asked: Asked, subject: str) -> Made:
    settings = call.settings
    period = asked.days.period(call.today, call.zone)
    if asked.days.is_usual and asked.sending is None:
        period = await newest_period(call, tables, period)
    names = None
    if asked.anonymize:
        names = await load_pseudonyms(tables, pseudonym_secret(settings))
    wanted = Wanted(asked.kind, subject, settings.optin_channel, settings.help_channel)
    shown = shown_subject(wanted, names)
    data = await load_report_data(
        tables,
        period,
        settings.options,
        now=int(call.clock()),
        counted=[shown.subject] if asked.kind is ReportKind.CHANNEL else [],
        smallest_group=settings.min_group,
        names=names,
        anew=asked.anew,
    )
    document = b""
    if Form.JSON in asked.forms and names is None and settings.min_group == 1:
        document = await document_of(
            tables, period, settings.options, clock=call.clock, anew=asked.anew
        )
    return Made(wanted, shown, data, await load(tables, settings.slack_name), document)


def _render(made: Made, form: Form) -> tuple[str, dict[str, bytes]]:
    return render(made.shown, made.data, made.directory, form, document=made.document)


# ── sending ──────────────────────────────────────────────────────────────────────────────────────


async def _destination(call: Call, tables: Tables, asked: Asked, subject: str) -> str:
    if asked.sending is not None and asked.sending.destination:
        return await destination_of(tables, asked.sending.destination)
    return await usual_destination(tables, call.settings, asked.kind, subject)


async def _send(call: Call, tables: Tables, made: Made, destination: str, sending: Sending) -> None:
    names = shown_names(made.data, made.directory)
    content = content_of(report_on(made.shown, made.data), names)
    title = html.unescape(content.text)
    attachment = None
    if sending.attach is not None:
        name, files = _render(made, sending.attach)
        attachment = Attachment(f"{name}.{sending.attach}", title, files[""])
    wanted, period = made.wanted, made.period
    key = SentKey(wanted.kind, wanted.subject, period.start, period.days, destination)
    where = named(made.directory, destination)
    if sending.dry_run:
        number = len(split_blocks(content.blocks))
        what = f"{number:,} {plural(number, 'message')}"
        if attachment is not None:
            what += f" and {attachment.name}"
        row = await tables.sent.get(key)
        before = ""
        if row is not None and row.done:
            before = f"; sent already on {day_and_time(row.done, call.zone)}"
        print(f"{title}: {what} to {where}{before}")
        return
    async with desk(call) as opened:
        try:
            outcome = await opened.sender(call, tables).send(
                Errand(key, content, attachment), again=sending.again
            )
        except SlackError as error:
            raise Failure(f"not all of it was sent to {where}: {error}") from None
    hint = "; --again sends it once more" if outcome.state is State.ALREADY else ""
    call.say(f"to {where}: {told_of(outcome, call.zone)}{hint}")


COMMAND = Command(
    "report",
    "make a report, and send it on demand",
    _run,
    _flags,
    (Group.COUNTING, Group.REPORTS, Group.PRIVACY),
)
