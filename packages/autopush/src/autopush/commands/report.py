"""`autopush report`: what a bug report needs, in one text that can be pasted anywhere.

Rule: no secret is in it: settings as `autopush settings` shows them, findings as `autopush doctor`
does, and names of metrics with their numbers.
"""

import argparse
import platform
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from autopush.commands import CommandLine
from autopush.commands.arguments import add_daemon
from autopush.commands.checks import Subject
from autopush.commands.doctor import CHECKS, examine
from autopush.commands.network_checks import ProbeFailed, fetch, find_port_uses, port_url
from autopush.commands.running import load_for_daemon, run_until_signal
from autopush.commands.show_settings import render_text
from autopush.settings import Settings, StartupError
from autopush.settings.sources import Loaded
from autopush.telemetry import logs
from autopush.version import VERSION

LIBRARIES: Final = ("keytables", "uvloop", "cryptography", "msgspec", "orjson", "aiohttp", "h2")
FAILURES: Final = ("error", "failure", "refused", "lost", "gone")
"""Words in the names of metrics that count what went wrong."""


def run(_: Settings, arguments: argparse.Namespace) -> int:
    """Print the report, also of a service that could not start."""
    logs.configure(output="none")
    try:
        loaded = load_for_daemon(arguments)
    except StartupError as error:
        print("\n".join([*_versions(), "", "## Settings", "", f"They cannot be used: {error}"]))
        return 0
    return run_until_signal(_print(loaded))


async def _print(loaded: Loaded) -> int:
    async for line in report_lines(loaded):
        print(line, flush=True)
    return 0


async def report_lines(loaded: Loaded) -> AsyncIterator[str]:
    settings = loaded.settings
    for line in _versions():
        yield line
    yield "\n## Settings\n"
    yield render_text(settings)
    yield "\n## Doctor\n"
    ports = await find_port_uses(settings)
    async for doctor_line in examine(Subject(settings, time.time, loaded.warnings, ports), CHECKS):
        yield f"{doctor_line.finding.level:4}  {doctor_line.check}  {doctor_line.finding}"
    yield "\n## Counted since the start\n"
    for line in [line async for line in _counted(settings)] or ["Nothing went wrong."]:
        yield line


def _versions() -> Iterator[str]:
    at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
    yield f"# autopush report, {at}\n"
    yield f"autopush {VERSION}, Python {platform.python_version()}"
    yield f"{platform.platform()}, {' '.join(platform.libc_ver())}".rstrip(", ")
    yield ", ".join(f"{name} {_version(name)}" for name in LIBRARIES)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


async def _counted(settings: Settings) -> AsyncIterator[str]:
    """What the running service has counted as failed or refused."""
    purpose = "router" if settings.has_sockets else "metrics"
    if purpose not in settings.listeners:
        yield "Unknown: `metrics_port` is not set."
        return
    try:
        answer = await fetch(port_url(settings, purpose, "/metrics"), verify=False)
        families = list(text_string_to_metric_families(answer.body.decode()))
    except (ProbeFailed, ValueError) as failure:
        yield f"Unknown: the service does not answer: {failure}"
        return
    for family in families:
        if any(word in family.name for word in FAILURES):
            for sample in family.samples:
                if sample.value and sample.name.endswith("_total"):
                    labels = ", ".join(f"{name}={value}" for name, value in sample.labels.items())
                    yield f"{sample.name.removesuffix('_total')} {labels}: {sample.value:g}"


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to report")
    add_daemon(group, "the command that runs here")


COMMANDS: Final = {"report": CommandLine(run, _add_arguments)}
