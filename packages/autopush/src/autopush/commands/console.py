"""`autopush console-token` and `autopush audit`: who may use the console, and what was changed."""

import argparse
import json
import time
from typing import Final

from autopush.commands import CommandLine
from autopush.console.audit import AuditLog, note_command
from autopush.console.session import ACT, ROLES, ConsoleTokens
from autopush.service.data_folder import check_folder
from autopush.settings import Settings, StartupError


def make_token(settings: Settings, arguments: argparse.Namespace) -> int:
    check_folder(settings.data)
    note_command(settings.data, "console-token", role=arguments.role)
    try:
        print(ConsoleTokens(settings.data).make(arguments.role))
    except OSError as error:
        raise StartupError(f"data: cannot write {error.filename}: {error.strerror}") from None
    return 0


def print_audit(settings: Settings, arguments: argparse.Namespace) -> int:
    check_folder(settings.data)
    try:
        for line in AuditLog(settings.data, time.time).lines():
            print(json.dumps(line) if arguments.json else _text(line))
    except OSError as error:
        raise StartupError(f"data: cannot read {error.filename}: {error.strerror}") from None
    return 0


def _text(line: dict[str, object]) -> str:
    rest = " ".join(f"{name}={line[name]}" for name in line if name not in ("at", "by", "action"))
    return f"{line.get('at')}  {line.get('action')}  {rest}  ({line.get('by')})"


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_role(parser: argparse.ArgumentParser) -> None:
    about = "look: sees the pages; act: also drops users and revokes tokens"
    group = parser.add_argument_group("What to make")
    group.add_argument("--role", choices=ROLES, default=ACT, help=f"{about} [default: {ACT}]")


def _add_json(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to print")
    group.add_argument("--json", action="store_true", help="print one JSON object per line")


COMMANDS: Final = {
    "console-token": CommandLine(make_token, _add_role),
    "audit": CommandLine(print_audit, _add_json),
}
"""By name."""
