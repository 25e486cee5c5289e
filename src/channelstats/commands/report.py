"""`channelstats report`: a report in any form."""

import argparse
from pathlib import Path
from typing import Final

import msgspec

from channelstats import lookup
from channelstats.commands.call import DONE, Call, Command, Failure
from channelstats.commands.days import Days, add_days, days_of
from channelstats.commands.output import write_files
from channelstats.commands.secrets import pseudonym_secret
from channelstats.reports.anonymous import Pseudonyms
from channelstats.reports.cache import document_of
from channelstats.reports.directory import load
from channelstats.reports.render import Form, Kind, Wanted, render

_OF_MANY_FILES: Final = (Form.CSV, Form.PARQUET)


class Asked(msgspec.Struct, frozen=True):
    """A report as it was asked for. Without ``out`` it is written to standard output."""

    kind: Kind
    name: str
    forms: tuple[Form, ...]
    days: Days
    out: Path | None = None
    anonymize: bool = False
    anew: bool = False


def _flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=[str(kind) for kind in Kind])
    parser.add_argument("name", nargs="?", default="", help="channel or user: a name or an ID")
    add_days(parser)
    forms = [str(form) for form in Form]
    parser.add_argument("--format", action="append", choices=forms, dest="forms")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--anonymize", action="store_true", help="pseudonyms for people and channels"
    )
    parser.add_argument("--regen", action="store_true", help="make it anew, whatever is stored")


def _asked(call: Call) -> Asked:
    given = call.given
    kind, forms = Kind(given.kind), tuple(map(Form, given.forms or ["text"]))
    if (kind in (Kind.CHANNEL, Kind.USER)) != bool(given.name):
        call.wrong(f"a {kind} report {'has no' if given.name else 'needs a'} name")
    if given.out is None and (len(forms) > 1 or forms[0] in _OF_MANY_FILES):
        call.wrong("this makes several files: give --out DIR")
    return Asked(
        kind=kind,
        name=given.name,
        forms=forms,
        days=days_of(call),
        out=given.out,
        anonymize=given.anonymize,
        anew=given.regen,
    )


async def _run(call: Call) -> int:
    asked, settings = _asked(call), call.settings
    period = asked.days.period(call.today, call.zone)
    async with call.tables() as tables:
        if await tables.messages.is_empty():
            raise Failure("there are no messages in the store; see channelstats import-export")
        finders = {Kind.CHANNEL: lookup.channel_id, Kind.USER: lookup.user_id}
        find = finders.get(asked.kind)
        subject = await find(tables, asked.name) if find else ""
        document = await document_of(
            tables, period, settings.options, clock=call.clock, anew=asked.anew
        )
        counted = [subject] if asked.kind is Kind.CHANNEL else []
        directory = await load(tables, period, settings.slack_name, counted)
    names = None
    if asked.anonymize:
        names = Pseudonyms(pseudonym_secret(settings), directory.names)
    wanted = Wanted(asked.kind, subject, settings.optin_channel)
    for form in asked.forms:
        name, files = render(
            wanted, document, directory, form, names=names, smallest_group=settings.min_group
        )
        written = write_files(asked.out, f"{name}.{form}", files)
        if written is not None:
            call.say(str(written))
    return DONE


COMMAND = Command("report", "make a report", _run, _flags)
