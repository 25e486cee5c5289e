"""The command line: `channelstats <command>`.

Rule: what keeps a command from being done is one line on stderr; the exit code says of which kind.

    0  done
    1  done, with problems that were named
    2  wrong usage
    3  not done
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Coroutine, Sequence
from datetime import date
from pathlib import Path
from typing import Final

from channelstats import commands
from channelstats.commands import Asked, Days, Failure
from channelstats.ingest.export_import import Choice
from channelstats.lookup import NotFound
from channelstats.reports.render import Form, Kind
from channelstats.settings import TABLE, SettingError, Settings, environment, load
from channelstats.slack.zip_checks import Refused
from tablestore import TablestoreError

USAGE: Final = 2
NOT_DONE: Final = 3
INTERRUPTED: Final = 130

_OF_MANY_FILES: Final = (Form.CSV, Form.PARQUET)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    try:
        return asyncio.run(_command(parser, given, load(vars(given), environment())))
    except (Failure, NotFound, Refused, SettingError, TablestoreError) as error:
        print(f"channelstats: {error}", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read the output has seen enough
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"channelstats: {where}{error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("channelstats: interrupted; run it again to go on", file=sys.stderr)
        return INTERRUPTED
    return NOT_DONE


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="channelstats",
        description="Who talks where and when in a Slack workspace. No text is kept.",
        allow_abbrev=False,
    )
    commands_of = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = _shared()

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands_of.add_parser(
            name, help=text, description=text, parents=[shared], allow_abbrev=False
        )

    taken = command("import-export", "take in a Slack export: a zip or a folder")
    taken.add_argument("path", type=Path, metavar="PATH")
    taken.add_argument("--include-private", action="store_true", help="private channels too")
    taken.add_argument("--include-dms", action="store_true", help="direct messages too")
    _add_report(command("report", "make a report"))
    command("rebuild-firstposts", "find everybody's first post again in all stored messages")
    return parser


def _shared() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = shared.add_argument_group("settings")
    group.add_argument("--config", metavar="FILE", help="file of settings (TOML)")
    for setting in TABLE:
        text = f"{setting.help} ({setting.variable})"
        group.add_argument(setting.flag, metavar=setting.metavar, help=text)
    shared.add_argument("--quiet", action="store_true", help="say nothing but errors")
    return shared


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=[str(kind) for kind in Kind])
    parser.add_argument("name", nargs="?", default="", help="channel or user: a name or an ID")
    parser.add_argument("--week", type=date.fromisoformat, metavar="DATE", help="week of a date")
    parser.add_argument("--from", dest="first", type=date.fromisoformat, metavar="DATE")
    parser.add_argument("--to", dest="last", type=date.fromisoformat, metavar="DATE")
    parser.add_argument("--days", type=_days, metavar="NUMBER")
    forms = [str(form) for form in Form]
    parser.add_argument("--format", action="append", choices=forms, dest="forms")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--anonymize", action="store_true", help="pseudonyms for people and channels"
    )
    parser.add_argument("--regen", action="store_true", help="make it anew, whatever is stored")


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 3660):
        raise argparse.ArgumentTypeError("expected a number of days from 1 to 3660")
    return int(text)


def _command(
    parser: argparse.ArgumentParser, given: argparse.Namespace, settings: Settings
) -> Coroutine[None, None, int]:
    quiet = given.quiet
    if given.command == "import-export":
        choice = Choice(given.include_private, given.include_dms)
        return commands.import_export(settings, given.path, choice, clock=time.time, quiet=quiet)
    if given.command == "rebuild-firstposts":
        return commands.rebuild_firstposts(settings, clock=time.time, quiet=quiet)
    return commands.report(settings, _asked(parser, given), clock=time.time, quiet=quiet)


def _asked(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Asked:
    kind, forms = Kind(given.kind), tuple(map(Form, given.forms or ["text"]))
    if (kind in (Kind.CHANNEL, Kind.USER)) != bool(given.name):
        parser.error(f"a {kind} report {'has no' if given.name else 'needs a'} name")
    if given.week and (given.first or given.last or given.days):
        parser.error("--week is a whole week: give it without --from, --to and --days")
    if given.first and given.last and given.days:
        parser.error("of --from, --to and --days two are enough")
    if given.out is None and (len(forms) > 1 or forms[0] in _OF_MANY_FILES):
        parser.error("this makes several files: give --out DIR")
    return Asked(
        kind=kind,
        name=given.name,
        forms=forms,
        days=Days(given.week, given.first, given.last, given.days),
        out=given.out,
        anonymize=given.anonymize,
        anew=given.regen,
    )
