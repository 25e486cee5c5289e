"""The main process of a running service: how commands find it, and send it a signal."""

import argparse
import os
import signal
from pathlib import Path
from typing import Final

from autopush.commands.arguments import add_number
from autopush.service import first_process
from autopush.service.upgrade import find_next_version
from autopush.settings import Settings, StartupError

PROGRAMS: Final = frozenset({"autopush", "autoendpoint"})
MAX_INTERPRETER_WORDS: Final = 8


def add_pid(group: argparse._ArgumentGroup) -> None:
    about = "the main process of the service [default: the one that has the store open]"
    add_number(group, "--pid", None, (1, 2**22), about, "PID")


def named_service(pid: int) -> int:
    """`pid`, or if that is process 1 of a container the main process that it has started.

    :raises StartupError: it has none
    """
    try:
        if first_process.__name__.encode() not in _command_line(pid).split(b"\0"):
            return pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # `send` says what is wrong
        return pid
    services = [int(child) for child in children if _is_service(int(child))]
    if len(services) != 1:
        raise StartupError(f"process {pid} has no main process of a service at the moment")
    return services[0]


def send(pid: int, number: signal.Signals) -> None:
    """:raises StartupError: it is no main process of a service, or that of another user"""
    if not _takes_signal(pid, number):
        raise StartupError(f"process {pid} is not the main process of a service")
    if (main := _main_process_of(pid)) != pid:
        # A worker would end, or do nothing.
        raise StartupError(f"process {pid} is a worker of a service: its main process is {main}")
    if not _is_service(pid):
        raise StartupError(
            f"process {pid} is not the main process of a service: its command line is that of "
            "another program"
        )
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise StartupError(f"there is no process {pid}") from None
    except PermissionError:
        raise StartupError(f"process {pid} is that of another user") from None


def _takes_signal(pid: int, number: int) -> bool:
    """Whether the signal is handled there, or waits until it is: it would end any other process.
    True of one that does not exist.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return True
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return any(int(fields[name], 16) >> (number - 1) & 1 for name in ("SigCgt", "SigBlk"))


def _is_service(pid: int) -> bool:
    """Whether it runs a daemon of ours, by its command line: other programs handle signals in their
    own ways. True of one that does not exist.
    """
    try:
        interpreter, *words = _command_line(pid).decode("utf-8", "replace").split("\0")
    except OSError:
        return True
    if Path(interpreter).name in PROGRAMS:
        return True
    if not Path(interpreter).name.startswith("python"):
        return False
    for word, following in zip(words[:MAX_INTERPRETER_WORDS], [*words[1:], ""], strict=False):
        if word == "-c":
            return False
        if word == "-m":
            return following.partition(".")[0] == "autopush"
        if Path(word).name in PROGRAMS:
            return True
    return False


def running_service(settings: Settings) -> int:
    """The main process of the service that has the configured store open.

    :raises StartupError: there is none, or more than one
    """
    if (path := settings.store_file) is None:
        raise StartupError("the store is not embedded: name the main process with --pid")
    from keytables.sqlite.layout import lock_holding_pids  # noqa: PLC0415 - not on DynamoDB

    main_processes = {_main_process_of(pid) for pid in lock_holding_pids(path)}
    if len(main_processes) != 1:
        which = "several processes have" if main_processes else "no process has"
        raise StartupError(f"{which} {path} open: name the main process with --pid")
    return main_processes.pop()


def _main_process_of(pid: int) -> int:
    """The supervisor of a worker, which has its command line; else the process itself."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        parent = int(stat.rpartition(") ")[2].split()[1])
        if _command_line(parent) != _command_line(pid):
            return pid
    except OSError:  # it has ended
        return pid
    # A next version is a child with that command line, too.
    following = find_next_version(parent)
    return pid if following is not None and following.pid == pid else parent


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
