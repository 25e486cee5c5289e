"""`autopush reload`: has a running service read its settings again, and prints the outcome."""

import argparse
import signal
import socket
import struct
import time
from typing import Final

import msgspec

from autopush.commands import DAEMON_FILES, CommandLine
from autopush.commands.main_process import add_pid, named_service, running_service, send
from autopush.commands.running import INCOMPLETE
from autopush.service.reload import MAX_ANSWER, REPLY_TIMEOUT, ReloadAnswer, answer_address
from autopush.settings import Settings, StartupError
from autopush.settings.sources import load

ANSWER_TIMEOUT: Final = 2 * REPLY_TIMEOUT
"""Seconds: the service may have to end an earlier reload first."""

_CREDENTIALS: Final = struct.Struct("3i")
"""`struct ucred` of unix(7): process, user and group of who has sent a message."""


def reload(_: Settings, arguments: argparse.Namespace) -> int:
    """:raises StartupError: there is no such service, or another command waits for its answer"""
    # With --pid no settings are needed; those that are wrong the service itself reports.
    if arguments.pid:
        pid = named_service(arguments.pid)
    else:
        loaded = load(arguments, command="reload", files=DAEMON_FILES["serve"])
        pid = running_service(loaded.settings)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as answers:
        answers.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            answers.bind(answer_address(pid))
        except OSError:
            raise StartupError(f"another `autopush reload` waits for process {pid}") from None
        sent_at = time.monotonic()
        send(pid, signal.SIGHUP)
        outcome = _outcome(answers, pid, sent_at)
    if outcome is None:
        print(f"The service (process {pid}) has not answered; its log says what became of it.")
        return INCOMPLETE
    print(outcome)
    return 0 if outcome.is_applied and not outcome.problems else INCOMPLETE


def _outcome(answers: socket.socket, pid: int, sent_at: float) -> ReloadAnswer | None:
    """What that process answers to a signal of that time; None if it does not in time."""
    deadline = sent_at + ANSWER_TIMEOUT
    while (left := deadline - time.monotonic()) > 0:
        answers.settimeout(left)
        try:
            message, control, _, _ = answers.recvmsg(
                MAX_ANSWER, socket.CMSG_SPACE(_CREDENTIALS.size)
            )
        except TimeoutError:
            break
        sender, _, _ = _CREDENTIALS.unpack(control[0][2])  # by the kernel
        if sender != pid:
            continue
        outcome = msgspec.json.decode(message, type=ReloadAnswer)
        if outcome.read_at >= sent_at:  # else that of an earlier signal
            return outcome
    return None


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pid(parser.add_argument_group("What to do"))


COMMANDS: Final = {"reload": CommandLine(reload, _add_arguments)}
