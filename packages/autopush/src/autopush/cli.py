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
from typing import TYPE_CHECKING, Final, NoReturn

from autopush.commands import COMMANDS, Command
from autopush.settings import OPTIONS, STARTUP_FAILED, Settings, StartupError
from autopush.settings.declaration import DAEMONS, reason_for_absence
from autopush.settings.sources import add_flags, load, with_dashes
from autopush.telemetry import logs
from autopush.telemetry.log_handlers import open_crash_reports, open_stream
from autopush.version import VERSION

if TYPE_CHECKING:
    from autopush.commands.checks import Finding

INTERRUPTED: Final = 130
"""What shells report for a program that Ctrl-C ended."""
_FLAG: Final = re.compile(r"--[a-z][a-z-]{0,40}|-[a-z]")
_HARMLESS: Final = re.compile(r"true|false|yes|no|on|off|[0-9]{1,5}", re.IGNORECASE)
"""Arguments that are no secret: error messages may show them."""
_WITHOUT_COMMAND: Final = ("-h", "--help", "--version")
_BY_NAME: Final = {command.name: command for command in COMMANDS}
_DEFAULT_COMMAND: Final = "connection"
"""What `autopush` without a command runs, as the original's script does."""


def _refuse(
    parser: argparse.ArgumentParser, command: Command, words: Sequence[str], word: str
) -> NoReturn:
    """Exit with code 2 and a hint about `word`, which is an unknown one of `words`."""
    name = word.partition("=")[0]
    if name in _BY_NAME:
        parser.error(f"the command comes first: autopush {name} [options]")
    if not _FLAG.fullmatch(name):
        # Most texts could be a key, so they are not shown.
        described = repr(word) if _HARMLESS.fullmatch(word) else f"one of {len(word)} characters"
        before = ["", *words][words.index(word)].partition("=")[0]
        switch = next((row for row in OPTIONS if before in (row.flag, row.off_flag)), None)
        if switch is not None and switch.value_type.is_flag:
            other = switch.off_flag if before == switch.flag else switch.flag
            parser.error(f"{before} takes no value, got {described}; its opposite is {other}")
        after = f" after {before}" if _FLAG.fullmatch(before) else ""
        parser.error(f"unexpected argument{after}: {described}")
    for option in OPTIONS:
        if name in (option.short, option.flag, option.off_flag):
            others = " and ".join(f"`autopush {other}`" for other in option.commands)
            parser.error(f"{name} is an option of {others}, not of `autopush {command.name}`")
    if (reason := reason_for_absence(name.lstrip("-").replace("-", "_"))) is not None:
        parser.error(f"{name} {reason}")
    # argparse has no public list of a parser's flags.
    near = get_close_matches(name, parser._option_string_actions, 1)
    parser.error(f"unknown flag {name}" + (f"; did you mean {near[0]}?" if near else ""))


def _parse_name(words: Sequence[str]) -> NoReturn:
    """Print help or the version, or refuse a command that there is not; exits."""
    parser = _new_parser("autopush")
    parser.description = "A Web Push service you can run yourself."
    parser.epilog = "`autopush <command> --help` lists the options of a command."
    commands = parser.add_subparsers(title="commands", metavar="<command>")
    for command in COMMANDS:
        commands.add_parser(command.name, help=command.summary)
    parser.parse_args(words)
    raise AssertionError("a command of that name exists")


def make_parser(command: Command) -> argparse.ArgumentParser:
    """The parser of what comes after the command's name."""
    parser, line = _new_parser(f"autopush {command.name}"), command.line()
    parser.usage = f"{parser.prog} [options] {line.usage}".rstrip()
    parser.description = command.summary[0].upper() + command.summary[1:] + "."
    line.add_arguments(parser)
    if command.has_settings:
        add_flags(parser, *(command.of_commands or [command.name]), files=command.files)
    return parser


def _new_parser(prog: str) -> argparse.ArgumentParser:
    wide = partial(argparse.HelpFormatter, max_help_position=28)
    parser = argparse.ArgumentParser(prog, formatter_class=wide, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"autopush {VERSION}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 2 wrong usage, 3 the start failed."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0].startswith("-") and words[0] not in _WITHOUT_COMMAND):
        words = [_DEFAULT_COMMAND, *words]
    try:
        command = _BY_NAME.get(words[0]) or _parse_name(words[:1])
        line, parser = command.line(), make_parser(command)
        words = with_dashes(words[1:], line.text_flags)
        arguments, unknown = parser.parse_known_args(words)
        if unknown:
            _refuse(parser, command, words, unknown[0])
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 2
    if command.name in DAEMONS:
        # Here, so that `--help` is fast.
        from autopush.service.first_process import go_on_in_a_child  # noqa: PLC0415

        go_on_in_a_child()
        # These would end the start; the service unblocks and handles them. Done before there is a
        # thread, as threads inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP, signal.SIGUSR2])
    settings = Settings()
    try:
        if command.of_commands or not command.has_settings:
            return line.run(settings, arguments)
        settings, warnings = load(arguments, command=command.name, files=command.files)
        findings: Sequence[Finding] = ()
        if command.name in DAEMONS:
            # Here, so that `--help` is fast.
            from autopush.commands.checks import examine_start  # noqa: PLC0415

            problems, findings = examine_start(settings, time.time)
            if problems:
                raise StartupError(problems[0])
        start_logs(settings)
        log = logs.get("settings")
        for warning in warnings:
            log.warning(warning)
        for finding in findings:
            log.warning(finding.found, advice=finding.advice)
        return line.run(settings, arguments)
    except StartupError as error:
        logs.print_error(settings.located(str(error)))
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
            background=not settings.is_supervised,
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
