"""`autopush doctor`: checks of the system, the network and the store, after those of a start.

It writes only rows of its own to the store, which it deletes, and prints no secret.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from autopush.commands import CommandLine
from autopush.commands.arguments import add_daemon
from autopush.commands.checks import START_CHECKS, Check, Finding, Level, Subject, fail
from autopush.commands.machine_checks import check_capacity, check_disk, check_limits
from autopush.commands.network_checks import (
    check_clock,
    check_credentials,
    check_endpoint_url,
    check_ports,
    check_websocket_url,
    find_port_uses,
)
from autopush.commands.running import INCOMPLETE, load_for_daemon, run_until_signal
from autopush.commands.store_checks import check_store
from autopush.settings import Settings, StartupError
from autopush.settings.sources import Loaded
from autopush.telemetry import logs

CHECKS: Final = (
    *START_CHECKS,
    Check("disk", check_disk),
    Check("limits", check_limits),
    Check("capacity", check_capacity),
    Check("ports", check_ports),
    Check("store", check_store, timeout=15.0),
    Check("providers", check_credentials, timeout=30.0),
    Check("endpoint URL", check_endpoint_url),
    Check("WebSocket URL", check_websocket_url),
    Check("clock", check_clock, timeout=12.0),
)
"""In the order in which they run and are printed."""


class Line(NamedTuple):
    check: str
    finding: Finding


def run(_: Settings, arguments: argparse.Namespace) -> int:
    """Print the findings; returns 1 if a check failed."""
    logs.configure(output="none")
    try:
        loaded = load_for_daemon(arguments)
    except StartupError as error:
        command = arguments.daemon or "serve"
        line = Line(
            CHECKS[0].name, fail(str(error), f"`autopush {command}` does not start with it")
        )
        if not arguments.json:
            _print(line)
        return _report([line], command, as_json=arguments.json)
    return run_until_signal(_run(loaded, arguments))


async def _run(loaded: Loaded, arguments: argparse.Namespace) -> int:
    ports = await find_port_uses(loaded.settings)
    subject = Subject(loaded.settings, time.time, loaded.warnings, ports, arguments.live)
    lines = []
    async for line in examine(subject, CHECKS):
        lines.append(line)
        if not arguments.json:
            _print(line)
    return _report(lines, loaded.settings.command, as_json=arguments.json)


async def examine(subject: Subject, checks: Sequence[Check]) -> AsyncIterator[Line]:
    """Run the checks in turn; an error or a timeout becomes a finding."""
    for check in checks:
        findings: list[Finding] = []
        try:
            async with asyncio.timeout(check.timeout):
                results = check.run(subject)
                if isinstance(results, AsyncIterator):
                    async for finding in results:  # one by one: those before a failure count too
                        findings.append(finding)  # noqa: PERF401 - see above
                else:
                    findings.extend(results)
        except StartupError as error:
            findings.append(fail(subject.settings.located(str(error)), check.advice))
        except ModuleNotFoundError as error:
            advice = "See the check of the installation"
            findings.append(fail(f"{error.name} is not installed", advice))
        except TimeoutError:
            text = f"no result within {check.timeout:g} s"
            findings.append(fail(text, "See what of it does not answer"))
        except OSError as error:
            text = f"{error.filename or check.name}: {error.strerror}"
            findings.append(fail(text, "See its mode"))
        for finding in findings:
            yield Line(check.name, finding)


# ── Output ────────────────────────────────────────────────────────────────────────────────────────

_WIDTH: Final = max(len(check.name) for check in CHECKS)


def _print(line: Line) -> None:
    print(f"{line.finding.level:4}  {line.check:{_WIDTH}}  {line.finding}", flush=True)


def _report(lines: Sequence[Line], command: str, *, as_json: bool) -> int:
    """Print all as JSON, or the totals; returns the exit code."""
    counts = Counter(line.finding.level for line in lines)
    is_ok = not counts[Level.FAIL]
    if as_json:
        findings = [{"check": line.check, **line.finding._asdict()} for line in lines]
        print(json.dumps({"command": command, "ok": is_ok, "findings": findings}, indent=2))
    else:
        print(f"{counts[Level.FAIL]} failed, {counts[Level.WARN]} to look at")
    return 0 if is_ok else INCOMPLETE


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to check")
    add_daemon(group, "the command that is to run here")
    group.add_argument("--json", action="store_true", help="print one JSON object")
    about = "ask providers of bridges for access tokens; nothing is sent to a device"
    group.add_argument("--live", action="store_true", help=about)


COMMANDS: Final = {"doctor": CommandLine(run, _add_arguments)}
