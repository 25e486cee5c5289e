"""The command line: `autopush <command>`, `autoendpoint`, `autokey` and `endpoint_diagnostic`.

Exit codes: 2 for wrong usage, 3 when the start failed, which is one line on standard error.
"""

import argparse
import logging
import re
import signal
import socket
import sys
import time
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Final, NoReturn

from autopush.commands import (
    DAEMON_FILES,
    SETTINGS_COMMANDS,
    SHELL_COMMANDS,
    STORE_COMMANDS,
    Command,
)
from autopush.settings import OPTIONS, Settings, StartupError
from autopush.settings.declaration import DAEMONS, reason_for_absence
from autopush.settings.sources import add_flags, load, with_dashes
from autopush.telemetry import logs
from autopush.telemetry.log_handlers import open_crash_reports, open_stream
from autopush.version import VERSION

STARTUP_FAILED: Final = 3
INTERRUPTED: Final = 130
"""What shells report for a program that Ctrl-C ended."""
_FLAG: Final = re.compile(r"--[a-z][a-z-]{0,40}|-[a-z]")
_HARMLESS: Final = re.compile(r"true|false|yes|no|on|off|[0-9]{1,5}", re.IGNORECASE)
"""Arguments that are no secret: error messages may show them."""
_WITHOUT_COMMAND: Final = ("-h", "--help", "--version")


def _run(settings: Settings, _: argparse.Namespace) -> int:
    from autopush.service import startup  # noqa: PLC0415 - here, so that `--help` is fast

    return startup.run(settings)


COMMANDS: Final = (
    Command("serve", "run the whole push service on this machine", _run),
    Command(
        "connection",
        "run a connection node of a cluster; `autopush` without a command does so too",
        _run,
        DAEMON_FILES["connection"],
    ),
    Command(
        "endpoint",
        "run an endpoint node of a cluster; `autoendpoint` does so too",
        _run,
        DAEMON_FILES["endpoint"],
    ),
    *STORE_COMMANDS,
    *SHELL_COMMANDS,
    *SETTINGS_COMMANDS,
)

_DEFAULT_COMMAND: Final = "connection"
"""What `autopush` without a command runs, as the original's script does."""


def _refuse(
    parser: argparse.ArgumentParser, command: Command | None, words: Sequence[str], word: str
) -> NoReturn:
    """Exit with code 2 and a hint about `word`, an unknown one of `words`."""
    name = word.partition("=")[0]
    if name in {known.name for known in COMMANDS}:
        parser.error(f"the command comes first: autopush {name} [options]")
    if not _FLAG.fullmatch(name):
        # Most texts could be a key, so they are not shown.
        shown = repr(word) if _HARMLESS.fullmatch(word) else f"one of {len(word)} characters"
        before = words[words.index(word) - 1].partition("=")[0]
        switch = next((row for row in OPTIONS if before in (row.flag, row.off_flag)), None)
        if switch is not None and switch.value_type.is_flag:
            other = switch.off_flag if before == switch.flag else switch.flag
            parser.error(f"{before} takes no value, got {shown}; its opposite is {other}")
        after = f" after {before}" if _FLAG.fullmatch(before) else ""
        parser.error(f"there is an argument too many{after}: {shown}")
    for option in OPTIONS:
        if name in (option.short, option.flag, option.off_flag) and command is not None:
            others = " and ".join(f"`autopush {other}`" for other in option.commands)
            parser.error(f"{name} is an option of {others}, not of `autopush {command.name}`")
    if (reason := reason_for_absence(name.lstrip("-").replace("-", "_"))) is not None:
        parser.error(f"{name} {reason}")
    # argparse has no public list of a parser's flags.
    near = get_close_matches(name, parser._option_string_actions, 1)
    parser.error(f"unknown flag {name}" + (f"; did you mean {near[0]}?" if near else ""))


def make_parser() -> argparse.ArgumentParser:
    wide = partial(argparse.HelpFormatter, max_help_position=28)
    parser = argparse.ArgumentParser(
        prog="autopush",
        formatter_class=wide,
        description="A Web Push service you can run yourself.",
        allow_abbrev=False,
        epilog="`autopush <command> --help` lists the options of a command.",
    )
    parser.add_argument("--version", action="version", version=f"autopush {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="<command>")
    for command in COMMANDS:
        words = " ".join(filter(None, ("autopush", command.name, "[options]", command.usage)))
        sub = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.summary[0].upper() + command.summary[1:] + ".",
            allow_abbrev=False,
            usage=words,
            formatter_class=wide,
        )
        sub.set_defaults(command=command, parser=sub)
        sub.add_argument("--version", action="version", version=f"autopush {VERSION}")
        if command.add_arguments is not None:
            command.add_arguments(sub)
        add_flags(sub, *(command.of_commands or [command.name]), files=command.files)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 2 wrong usage, 3 the start failed."""
    parser = make_parser()
    try:
        argv = sys.argv[1:] if argv is None else argv
        flags = [command.text_flags for command in COMMANDS if command.name in argv[:1]]
        words = with_dashes(argv, *flags)
        if not words or (words[0].startswith("-") and words[0] not in _WITHOUT_COMMAND):
            words = [_DEFAULT_COMMAND, *words]
        arguments, unknown = parser.parse_known_args(words)
        command: Command | None = getattr(arguments, "command", None)
        if unknown:
            _refuse(getattr(arguments, "parser", parser), command, words, unknown[0])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2
    if command is None:
        parser.print_help()
        return 0
    if command.name in DAEMONS:
        # These would end the start; the service unblocks and handles them. Done before there is a
        # thread, as threads inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGUSR2])
    settings = Settings()
    try:
        if command.of_commands:
            return command.run(settings, arguments)
        settings, warnings = load(arguments, command=command.name, files=command.files)
        if command.name in DAEMONS:
            from autopush.commands.checks import start_problems  # noqa: PLC0415 - as in `_run`

            if problem := next(start_problems(settings, time.time), ""):
                raise StartupError(problem)
        start_logs(settings)
        log = logs.get("settings")
        for warning in warnings:
            log.warning(warning)
        return command.run(settings, arguments)
    except StartupError as error:
        logs.print_error(f"autopush: {settings.located(str(error))}")
        return STARTUP_FAILED
    except KeyboardInterrupt:  # before there was a signal handler
        return INTERRUPTED
    finally:
        logs.shutdown()


def start_logs(settings: Settings) -> None:
    """Configure the logs, without a thread in a process that will fork workers."""
    hostname = settings.hostname or socket.gethostname()
    handlers: list[logging.Handler] = []
    if stream := settings.firehose_stream_name:
        handlers.append(open_stream(stream, capacity=settings.log_queue))
    if settings.sentry_dsn:
        try:
            reports = open_crash_reports(
                settings.sentry_dsn,
                release=f"autopush@{VERSION}",
                environment=settings.env,
                hostname=hostname,
            )
        except ValueError:
            raise StartupError("sentry_dsn: its value is malformed") from None
        handlers.append(reports)
    try:
        logs.configure(
            output=settings.log_output,
            level=settings.effective_log_level,
            human=settings.human_logs,
            background=settings.workers == 1,
            program="Autoendpoint" if settings.command == "endpoint" else "Autopush",
            version=VERSION,
            hostname=hostname,
            capacity=settings.log_queue,
            handlers=handlers,
        )
    except OSError as error:
        reason = error.strerror
        raise StartupError(f"log_output: cannot log to {settings.log_output}: {reason}") from None


def autoendpoint(argv: Sequence[str] | None = None) -> int:
    """Run an endpoint node, under the name of the original's script."""
    return main(["endpoint", *(sys.argv[1:] if argv is None else argv)])


def endpoint_diagnostic(argv: Sequence[str] | None = None) -> int:
    """Diagnose an endpoint, under the name of the original's script."""
    return main(["diagnose", *(sys.argv[1:] if argv is None else argv)])


def autokey(argv: Sequence[str] | None = None) -> int:
    """Print a new key, for the options crypto_key and auth_key."""
    from autopush.webpush.tokens import new_key  # noqa: PLC0415 - `autopush` does not need it

    parser = argparse.ArgumentParser(
        prog="autokey", description="Print a new key, for the options crypto_key and auth_key."
    )
    parser.parse_args(argv)
    print(f"Key = {new_key()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
