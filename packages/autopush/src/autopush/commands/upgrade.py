"""`autopush upgrade`: makes a running service start its next version, and prints the outcome."""

import argparse
import signal
import time
from collections.abc import Callable
from typing import Final, TypeVar

from autopush.commands import CommandLine
from autopush.commands.main_process import add_pid, named_service, running_service, send
from autopush.commands.running import INCOMPLETE
from autopush.service.upgrade import START_TIMEOUT, find_next_version
from autopush.settings import Settings

BEGIN_TIMEOUT: Final = 10.0
"""Seconds until the service has started the process of its next version."""
INTERVAL: Final = 0.05
"""Seconds between two checks of the processes."""

T = TypeVar("T")


def upgrade(settings: Settings, arguments: argparse.Namespace) -> int:
    """:raises StartupError: there is no such service"""
    pid = named_service(arguments.pid) if arguments.pid else running_service(settings)
    send(pid, signal.SIGUSR2)
    following = _wait_for(lambda: find_next_version(pid), BEGIN_TIMEOUT)
    if following is None:
        print(f"The service (process {pid}) has started no next version; its log says why.")
        return INCOMPLETE
    is_decided = _wait_for(lambda: following.is_decided, START_TIMEOUT + BEGIN_TIMEOUT)
    if is_decided and following.runs:
        print(f"The next version serves (process {following.pid}); process {pid} ends.")
        return 0
    print("The next version did not start; the service goes on as before. Its log says why.")
    return INCOMPLETE


def _wait_for(check: Callable[[], T], seconds: float) -> T:
    """What `check` returns, as soon as it is true, or after that time."""
    deadline = time.monotonic() + seconds
    while not (result := check()) and time.monotonic() < deadline:
        time.sleep(INTERVAL)
    return result


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pid(parser.add_argument_group("What to do"))


COMMANDS: Final = {"upgrade": CommandLine(upgrade, _add_arguments)}
