"""The command line: `channelstats <command>`.

Rule: what keeps a command from being done is one line on stderr; the exit code says of which kind.

    0  done
    1  done, with problems that were named
    2  wrong usage
    3  not done
    130  interrupted
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NoReturn

from channelstats.commands import COMMANDS
from channelstats.commands.call import NOT_DONE, Call, Command, Failure
from channelstats.lookup import NotFound
from channelstats.settings import TABLE, Group, SettingError, environment, load
from channelstats.slack.archive import ArchiveRefused
from channelstats.slack.rate_limits import Sleep
from keytables import Clock, KeytablesError

__all__ = ["EPILOG", "INTERRUPTED", "NOT_DONE", "USAGE", "main", "make_parsers"]

USAGE: Final = 2
INTERRUPTED: Final = 130

CODES: Final = (
    "A first look: channelstats import-export EXPORT.zip, then channelstats serve. A command ends "
    "with 0: done; 1: done, but for problems that it named; 2: wrong usage; 3: not done; 130: "
    "interrupted."
)
EPILOG: Final = (
    "A setting is a flag (--slack-name), a variable (CHANNELSTATS_SLACK_NAME) or a line of "
    'channelstats.toml in the data folder (slack_name = "…"), in this order. Every command takes '
    "all of them; `channelstats doctor` shows what holds and why."
)


def main(
    arguments: Sequence[str] | None = None,
    *,
    clock: Clock = time.time,
    steady: Clock = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> int:
    """Run a command; return its exit code. See `Call` for the clocks."""
    _open_closed()
    parsers = make_parsers()
    given = parsers[""].parse_args(arguments)
    command = next(command for command in COMMANDS if command.name == given.command)
    wrong = parsers[command.name].error
    try:
        settings = load(vars(given), environment())
        call = Call(settings, given, environment(), clock, wrong, steady, sleep)
        return asyncio.run(command.run(call))
    except (Failure, NotFound, ArchiveRefused, SettingError, KeytablesError) as error:
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


def _open_closed() -> None:
    """Have a stream that was closed for us take anything."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until we end


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and where help is, in place of all options."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def make_parsers() -> dict[str, Parser]:
    """The parser of each command by its name, and the one above them under ""."""
    above = Parser(
        prog="channelstats",
        description="Who talks where and when in a Slack workspace. No text is kept.",
        epilog=CODES,
        allow_abbrev=False,
    )
    above.add_argument("--version", action="version", version=f"channelstats {_version()}")
    below = above.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {"": above}
    for command in COMMANDS:
        parser = below.add_parser(
            command.name,
            help=command.help,
            description=f"{command.help[:1].upper()}{command.help[1:]}.",
            epilog=EPILOG,
            allow_abbrev=False,
        )
        command.flags(parser)
        parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
        parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [settings]"
        _add_settings(parser, command)
        parsers[command.name] = parser
    return parsers


def _version() -> str:
    try:
        return version("channelstats")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


def _add_settings(parser: argparse.ArgumentParser, command: Command) -> None:
    """Every setting as a flag; those that do not matter to the command are not shown. The line of
    usage does without them.
    """
    for group in Group:
        shown = group is Group.GENERAL or group in command.groups
        under = parser.add_argument_group(group) if shown else parser
        if group is Group.GENERAL:
            under.add_argument("--config", metavar="FILE", help="file of settings (TOML)")
        for setting in TABLE:
            if setting.group is group:
                default = "" if setting.default in ("", False) else f"; {setting.default}"
                text = f"{setting.help}{default}" if shown else argparse.SUPPRESS
                under.add_argument(setting.flag, metavar=setting.metavar, help=text)
