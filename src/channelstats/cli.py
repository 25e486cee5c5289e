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
from collections.abc import Sequence
from functools import partial
from typing import Final

from channelstats.commands import COMMANDS
from channelstats.commands.call import Call, Failure
from channelstats.lookup import NotFound
from channelstats.settings import TABLE, SettingError, environment, load
from channelstats.slack.zip_checks import Refused
from tablestore import TablestoreError

USAGE: Final = 2
NOT_DONE: Final = 3
INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parsers = make_parsers()
    given = parsers[""].parse_args(arguments)
    command = next(command for command in COMMANDS if command.name == given.command)
    wrong = parsers[command.name].error
    try:
        settings = load(vars(given), environment())
        call = Call(settings, given, environment(), time.time, wrong)
        return asyncio.run(command.run(call))
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


def make_parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command by its name, and the one above them under ""."""
    above = argparse.ArgumentParser(
        prog="channelstats",
        description="Who talks where and when in a Slack workspace. No text is kept.",
        allow_abbrev=False,
    )
    below = above.add_subparsers(dest="command", required=True, metavar="COMMAND")
    make = partial(below.add_parser, parents=[_shared()], allow_abbrev=False)
    parsers = {"": above}
    for command in COMMANDS:
        parser = make(command.name, help=command.help, description=command.help)
        command.flags(parser)
        parsers[command.name] = parser
    return parsers


def _shared() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = shared.add_argument_group("settings")
    group.add_argument("--config", metavar="FILE", help="file of settings (TOML)")
    for setting in TABLE:
        text = f"{setting.help} ({setting.variable})"
        group.add_argument(setting.flag, metavar=setting.metavar, help=text)
    shared.add_argument("--quiet", action="store_true", help="say nothing but errors")
    return shared
