"""The command line: `autopush <command>`, and `autokey`.

Rule: a command says what it needs in one place, the rest is shared; whatever keeps it from starting
is one line on stderr and exit code 3, wrong usage is exit code 2.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Final, NoReturn

from .settings import Settings, StartupError
from .settings_flags import add_flags, given_flags, named_files, with_dashes
from .settings_sources import load
from .telemetry import logs
from .version import VERSION

STARTUP_FAILED: Final = 3
_FLAG: Final = re.compile(r"--[a-z][a-z-]{0,40}|-[a-z]")


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: its flags are the options of the table that name it, plus the ini files."""

    name: str
    summary: str
    run: Callable[[Settings], int]


def _serve(settings: Settings) -> int:
    from . import service  # noqa: PLC0415 - `--help` needs none of it

    return service.run(settings)


COMMANDS: Final = (Command("serve", "run the push service on this machine", _serve),)


def _refuse(parser: argparse.ArgumentParser, word: str) -> NoReturn:
    """Exit with code 2, naming the flag that an unknown one resembles."""
    name = word.partition("=")[0]
    if not _FLAG.fullmatch(name):
        parser.error("there is an argument too many")  # it could be a key: not repeated
    # Of an argparse parser this is the only list of its flags.
    near = get_close_matches(name, parser._option_string_actions, 1)
    parser.error(f"unknown flag {name}" + (f"; did you mean {near[0]}?" if near else ""))


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="autopush",
        description="A Web Push service you can run yourself.",
        allow_abbrev=False,
        epilog="`autopush <command> --help` lists the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"autopush {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="<command>")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            allow_abbrev=False,
            usage=f"autopush {command.name} [options]",
            formatter_class=partial(argparse.HelpFormatter, max_help_position=28),
        )
        sub.set_defaults(command=command, parser=sub)
        add_flags(sub, command.name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 2 wrong usage, 3 the start failed."""
    parser = make_parser()
    try:
        words = with_dashes(sys.argv[1:] if argv is None else argv)
        arguments, unknown = parser.parse_known_args(words)
        if unknown:
            _refuse(getattr(arguments, "parser", parser), unknown[0])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2
    command: Command | None = getattr(arguments, "command", None)
    if command is None:
        parser.print_help()
        return 0
    try:
        loaded = load(given_flags(arguments), named_files=named_files(arguments))
        start_logs(loaded.settings)
        log = logs.get("settings")
        for warning in loaded.warnings:
            log.warning(warning)
        return command.run(loaded.settings)
    except StartupError as error:
        print(f"autopush: {error}", file=sys.stderr)
        return STARTUP_FAILED
    finally:
        logs.shutdown()


def start_logs(settings: Settings) -> None:
    """Send logs where the settings say; a process that will fork workers gets no thread for them.

    Raises:
        StartupError: the log file cannot be opened.
    """
    try:
        logs.configure(
            output=settings.log_output,
            level=settings.effective_log_level,
            human=settings.human_logs,
            background=settings.workers == 1,
            version=VERSION,
        )
    except OSError as error:
        raise StartupError(f"cannot log to {settings.log_output}: {error.strerror}") from None


def autokey(argv: Sequence[str] | None = None) -> int:
    """Print a new key, for the options crypto_key and auth_key."""
    from .webpush.keyring import new_key  # noqa: PLC0415 - `autopush` does not need it

    parser = argparse.ArgumentParser(
        prog="autokey", description="Print a new key, for the options crypto_key and auth_key."
    )
    parser.parse_args(argv)
    print(f"Key = {new_key()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
