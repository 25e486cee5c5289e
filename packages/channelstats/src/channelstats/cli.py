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
from typing import Final

from channelstats.commands import COMMANDS, Parser, program_version
from channelstats.slack.rate_limits import Sleep
from keytables import Clock

_COMMANDS: Final = {command.name: command for command in COMMANDS}
_OWN_FLAGS: Final = ("-h", "--help", "--version")
_WIDTH: Final = 22
_ALIKE: Final = 0.5
"""From which likeness on a command may be what was meant."""

CODES: Final = (
    "To begin: channelstats import-export EXPORT.zip, then channelstats serve. Exit codes: 0 done; "
    "1 done, except for the problems that were named; 2 wrong usage, or a setting that cannot be "
    "used; 3 not done; 130 interrupted."
)


def main(
    arguments: Sequence[str] | None = None,
    *,
    clock: Clock = time.time,
    monotonic: Clock = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> int:
    """Run a command; return its exit code. See `CommandContext` for the clocks."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # the parent has closed it
            setattr(sys, stream, Path(os.devnull).open("w"))  # noqa: SIM115 - until we end
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = make_parser()
    if words and words[0].startswith("-") and words[0] not in _OWN_FLAGS:
        where = f"channelstats COMMAND {words[0]}"
        parser.error(f"{words[0]}: options come after the command: {where}")
    name = parser.parse_args(words[:1]).command
    from channelstats.commands import context  # noqa: PLC0415 - here, so that `--help` is fast

    return context.run(_COMMANDS[name], words[1:], clock=clock, monotonic=monotonic, sleep=sleep)


def make_parser() -> Parser:
    """The parser of the command's name; what comes after it is that command's."""
    listed = "\n".join(f"  {command.name:<{_WIDTH}}{command.summary}" for command in COMMANDS)
    parser = Parser(
        prog="channelstats",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="Who writes where and when in a Slack workspace. No message text is stored.\n\n"
        f"commands:\n{listed}",
        epilog=fill(CODES, 80),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"channelstats {program_version()}")
    about = "one of those above; see channelstats COMMAND --help"
    parser.add_argument("command", type=_command_name, metavar="COMMAND", help=about)
    return parser


def _command_name(text: str) -> str:
    if text in _COMMANDS:
        return text
    longer = [name for name in _COMMANDS if name.startswith(text)]
    near = longer or get_close_matches(text, _COMMANDS, 1, _ALIKE)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    raise argparse.ArgumentTypeError(f"there is no command {text!r}{meant}")
