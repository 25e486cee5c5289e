"""`autopush senders`: senders that keep sending to endpoints that are gone, by `/senders`."""

import argparse
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec

from autopush.api.senders import PAGE, GoneReport
from autopush.commands import CommandLine
from autopush.commands.arguments import add_daemon
from autopush.commands.network_checks import ProbeFailed, fetch, port_url
from autopush.commands.running import INCOMPLETE, load_for_daemon, run_until_signal
from autopush.settings import Settings, StartupError
from autopush.telemetry import logs
from autopush.webpush.syntax import decode_base64url


def run(_defaults: Settings, arguments: argparse.Namespace) -> int:
    """Returns 1 if the service, or one of its workers, does not answer."""
    logs.configure(output="none")
    settings = load_for_daemon(arguments).settings
    purpose = "router" if settings.has_sockets else "metrics"
    if not settings.has_endpoint:
        raise StartupError(f"`autopush {settings.command}` has no senders")
    if not (option := settings.listeners.get(purpose)) or not getattr(settings, option):
        raise StartupError(f"{purpose}_port: name the port of the running service")
    return run_until_signal(_run(port_url(settings, purpose, PAGE)))


async def _run(url: str) -> int:
    try:
        answer = await fetch(url, verify=False)
    except ProbeFailed as failure:
        logs.print_error(f"{url}: {failure}")
        return INCOMPLETE
    try:
        report = msgspec.json.decode(answer.body, type=GoneReport)
    except (msgspec.MsgspecError, RecursionError):
        logs.print_error(f"{url}: status {answer.status}, and no report")
        return INCOMPLETE
    print("\n".join(to_lines(report)))
    if report.answered == report.workers:
        return 0
    logs.print_error(
        f"{report.workers - report.answered} of {report.workers} workers did not answer"
    )
    return INCOMPLETE


def to_lines(report: GoneReport) -> Iterator[str]:
    yield f"{'thumbprint':<16}  {'key':<13}  {'sent':>9}  {'delayed':>9}  {'refused':>9}"
    for each in report.senders:
        name = f"{'without VAPID':<31}"
        if each.key:
            thumbprint = sha256(decode_base64url(each.key)).hexdigest()[:16]
            name = f"{thumbprint}  {each.key[:12]}…"
        yield f"{name}  {each.sent:>9}  {each.delayed:>9}  {each.refused:>9}"


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("What to ask")
    add_daemon(group, "the command that runs here")


COMMANDS: Final = {"senders": CommandLine(run, _add_arguments)}
