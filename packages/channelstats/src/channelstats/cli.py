"""The command line: `channelstats <command>`.

Why a command cannot be done is one line on standard error; the exit code says of which kind it is:

    0  done
    1  done, with problems that were named
    2  wrong usage, or a setting that cannot be used, wherever it comes from
    3  not done
    130  interrupted
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from textwrap import fill
from typing import Final, NoReturn

from channelstats.commands import COMMANDS
from channelstats.commands.context import NOT_DONE, CommandContext, Failure, program_version
from channelstats.lookup import NotFound
from channelstats.settings import OptionGroup, SettingError, add_flags, load
from channelstats.slack.archive import ArchiveRefused
from channelstats.slack.rate_limits import Sleep
from keytables import Clock, KeytablesError

__all__ = ["EPILOG", "INTERRUPTED", "NOT_DONE", "USAGE", "main", "make_parsers"]

USAGE: Final = 2
INTERRUPTED: Final = 130

_COMMANDS: Final = {command.name: command for command in COMMANDS}
_WIDTH: Final = 22
_ALIKE: Final = 0.5
"""From which likeness on a command may be what was meant."""

CODES: Final = (
    "To begin: channelstats import-export EXPORT.zip, then channelstats serve. Exit codes: 0 done; "
    "1 done, except for the problems that were named; 2 wrong usage, or a setting that cannot be "
    "used; 3 not done; 130 interrupted."
)
EPILOG: Final = (
    "A setting is a flag (--slack-name), an environment variable (CHANNELSTATS_SLACK_NAME) or a "
    'line of channelstats.toml in the data folder (slack_name = "…"); the first of them counts. '
    "Every command takes all settings; `channelstats doctor` shows their values and where they "
    "come from."
)


def main(
    arguments: Sequence[str] | None = None,
    *,
    clock: Clock = time.time,
    monotonic: Clock = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> int:
    """Run a command; return its exit code. See `CommandContext` for the clocks."""
    _open_closed_streams()
    parsers = make_parsers()
    given = sys.argv[1:] if arguments is None else list(arguments)
    name = parsers[""].parse_args(given).command
    parser, rest = parsers[name], given[given.index(name) + 1 :]
    # Intermixed, so that settings may stand between the words of `report user NAME`; but before
    # the first word that forgets a `--`, after which nothing is a flag.
    is_mixed = "--" not in rest or not rest[0].startswith("-")
    parsed = (parser.parse_intermixed_args if is_mixed else parser.parse_args)(rest)
    try:
        settings = load(vars(parsed), os.environ)
    except SettingError as error:
        parser.error(str(error))
    context = CommandContext(settings, parsed, os.environ, clock, parser.error, monotonic, sleep)
    try:
        return asyncio.run(_COMMANDS[name].run(context))
    except (Failure, NotFound, ArchiveRefused, SettingError, KeytablesError) as error:
        print(f"channelstats: {error}", file=sys.stderr)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output, such as `head`, has ended
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"channelstats: {where}{error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("channelstats: interrupted; run it again to go on", file=sys.stderr)
        return INTERRUPTED
    return NOT_DONE


def _open_closed_streams() -> None:
    """Let a standard stream that the parent has closed discard what is written to it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - until we end


class Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line that names the help, instead of printing all options."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def make_parsers() -> dict[str, Parser]:
    """The parser of each command by its name, and the one above them under ""."""
    listed = "\n".join(f"  {of.name:<{_WIDTH}}{of.summary}" for of in COMMANDS)
    above = Parser(
        prog="channelstats",
        description="Who writes where and when in a Slack workspace. No message text is stored.\n\n"
        f"commands:\n{listed}",
        epilog=fill(CODES, 80),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    above.add_argument("--version", action="version", version=f"channelstats {program_version()}")
    above.add_argument("command", type=_command_name, metavar="COMMAND", help="one of those above")
    rest = "see channelstats COMMAND --help"
    more = above.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help=rest)
    more.required = False  # or it would be named as missing where there is no command
    parsers = {"": above}
    for command in COMMANDS:
        parser = Parser(
            prog=f"channelstats {command.name}",
            description=f"{command.summary[:1].upper()}{command.summary[1:]}.",
            epilog=EPILOG,
            allow_abbrev=False,
        )
        for add in command.arguments:
            add(parser)
        parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
        parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [settings]"
        add_flags(parser, {OptionGroup.GENERAL, *command.groups})
        parsers[command.name] = parser
    return parsers


def _command_name(text: str) -> str:
    if text in _COMMANDS:
        return text
    longer = [name for name in _COMMANDS if name.startswith(text)]
    near = longer or get_close_matches(text, _COMMANDS, 1, _ALIKE)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    raise argparse.ArgumentTypeError(f"there is no command {text!r}{meant}")
