"""`autopush doctor`: does this machine offer what the service needs, and does it work?

It changes nothing but rows of its own in the store, which it deletes, and prints no secret.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from autopush.clock import Clock
from autopush.commands.checks import Check, Finding, Level, Subject, fail, ok, warn
from autopush.commands.checks.certificates import check_tls
from autopush.commands.checks.installation import check_bridges, check_installation
from autopush.commands.checks.machine import (
    check_data_folder,
    check_disk,
    check_keys,
    check_limits,
    check_logs,
)
from autopush.commands.checks.ports import check_ports, look_at_ports
from autopush.commands.checks.tables import check_store
from autopush.commands.checks.urls import check_clock, check_endpoint_url, check_websocket_url
from autopush.commands.running import INCOMPLETE, run_until_signal
from autopush.settings import StartupError
from autopush.settings.declaration import IniFile
from autopush.settings.sources import Loaded, load
from autopush.telemetry import logs

SETTINGS: Final = "settings"


async def check_settings(subject: Subject) -> Sequence[Finding]:
    """What the start would warn about."""
    given = len(subject.settings.sources)
    return [
        ok(f"autopush {subject.settings.command}; options set: {given}"),
        *(warn(warning, "See `autopush settings`") for warning in subject.warnings),
    ]


CHECKS: Final = (
    Check(SETTINGS, check_settings),
    Check("installation", check_installation),
    Check("data folder", check_data_folder),
    Check("logs", check_logs),
    Check("keys", check_keys),
    Check("disk", check_disk),
    Check("store", check_store, timeout=15.0),
    Check("limits", check_limits),
    Check("ports", check_ports),
    Check("TLS", check_tls),
    Check("bridges", check_bridges),
    Check("endpoint URL", check_endpoint_url),
    Check("WebSocket URL", check_websocket_url),
    Check("clock", check_clock, timeout=12.0),
)
"""All checks, in the order in which they are printed."""


class Line(NamedTuple):
    """A finding and the check that it is of."""

    check: str
    finding: Finding


def run(arguments: argparse.Namespace, files: Mapping[str, Sequence[IniFile]]) -> int:
    """Print what is found; exit code 1 when something does not work.

    `files`: the ini files that each command reads.
    """
    logs.configure(output="none")
    command = arguments.daemon or "serve"
    try:
        loaded = load(arguments, command=command, files=files[command])
    except StartupError as error:
        lines = [Line(SETTINGS, fail(str(error), f"`autopush {command}` does not start with it"))]
        return _report(lines, command, as_json=arguments.json)
    return run_until_signal(_run(loaded, as_json=arguments.json))


async def _run(loaded: Loaded, *, as_json: bool) -> int:
    lines = []
    async for line in examine(loaded, time.time, CHECKS):
        lines.append(line)
        if not as_json:
            _print(line)
    return _report(lines, loaded.settings.command, as_json=as_json, printed=True)


async def examine(loaded: Loaded, clock: Clock, checks: Sequence[Check]) -> AsyncIterator[Line]:
    """Run the checks one after the other."""
    subject = Subject(loaded.settings, clock, loaded.warnings)
    subject = replace(subject, ports=await look_at_ports(loaded.settings))
    for check in checks:
        try:
            async with asyncio.timeout(check.timeout):
                findings = await check.run(subject)
        except TimeoutError:
            found = f"no result within {check.timeout:g} s"
            findings = [fail(found, "See what of it does not answer")]
        except OSError as error:
            findings = [fail(f"{error.filename or check.name}: {error.strerror}", "See its mode")]
        for finding in findings:
            yield Line(check.name, finding)


# ── Output ────────────────────────────────────────────────────────────────────────────────────────

_WIDTH: Final = max(len(check.name) for check in CHECKS)


def _print(line: Line) -> None:
    print(f"{line.finding.level:4}  {line.check:{_WIDTH}}  {line.finding}", flush=True)


def _report(lines: Sequence[Line], command: str, *, as_json: bool, printed: bool = False) -> int:
    """Print what is not yet printed and the sum; returns the exit code."""
    counts = {level: sum(line.finding.level is level for line in lines) for level in Level}
    if as_json:
        print(json.dumps(to_document(lines, command), indent=2))
    else:
        for line in lines if not printed else ():
            _print(line)
        print(f"{counts[Level.FAIL]} failed, {counts[Level.WARN]} to look at")
    return INCOMPLETE if counts[Level.FAIL] else 0


def to_document(lines: Sequence[Line], command: str) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "command": command,
        "ok": all(line.finding.level is not Level.FAIL for line in lines),
        "findings": [
            {
                "check": line.check,
                "level": line.finding.level,
                "found": line.finding.found,
                "advice": line.finding.advice,
            }
            for line in lines
        ],
    }
