"""The commands. The module of a command has its arguments and does what it says.

A module is imported when one of its commands is named, so that `--help` is fast and a daemon loads
none of the tools.

Rule: a one-shot command may be interrupted anywhere, and may run beside the service and other runs;
the next run completes what was left undone. What it does to the tables is in `autopush.store`.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final, NamedTuple, TypeAlias

from autopush.settings import Settings
from autopush.settings.declaration import DAEMONS, IniFile

DAEMON_FILES: Final = {
    "serve": tuple(IniFile),
    "connection": (IniFile.SHARED, IniFile.CONNECTION),
    "endpoint": (IniFile.SHARED, IniFile.ENDPOINT),
}
"""The ini files that each daemon reads."""

Run: TypeAlias = Callable[[Settings, argparse.Namespace], int]


class CommandLine(NamedTuple):
    """What is written after the name of a command, besides the flags of options, and what runs it.

    `run` returns the exit code; it raises StartupError, with nothing changed, if it cannot begin.
    `usage`: positional arguments in usage lines, such as `UAID…`. `text_flags`: those flags whose
    values may begin with a dash.
    """

    run: Run
    add_arguments: Callable[[argparse.ArgumentParser], None] = lambda _: None
    usage: str = ""
    text_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command has a flag for each option that names it and for each of its ini files.

    `module`: in this package, with `COMMANDS`, a `CommandLine` by name. `of_commands`: others whose
    options it has; then it loads the settings itself, and `run` gets the defaults. `has_settings`:
    without, there are the defaults alone, and no logs.
    """

    name: str
    summary: str
    module: str
    files: tuple[IniFile, ...] = tuple(IniFile)
    of_commands: tuple[str, ...] = ()
    has_settings: bool = True

    def line(self) -> CommandLine:
        """Imports the module."""
        command_line: CommandLine = import_module(f"{__name__}.{self.module}").COMMANDS[self.name]
        return command_line


COMMANDS: Final = (
    Command("serve", "run the whole push service on this machine", "daemons"),
    Command(
        "connection",
        "run a connection node of a cluster; `autopush` without a command does so too",
        "daemons",
        DAEMON_FILES["connection"],
    ),
    Command(
        "endpoint",
        "run an endpoint node of a cluster; `autoendpoint` does so too",
        "daemons",
        DAEMON_FILES["endpoint"],
    ),
    Command(
        "maintain",
        "maintain the monthly tables, and drop user agents not seen for months",
        "maintain",
    ),
    Command(
        "drop-user", "drop single user agents, and print what was on record about them", "maintain"
    ),
    Command("delete-uaids", "drop all user agents of a list", "maintain"),
    Command(
        "diagnose",
        "print what is known of an endpoint, and why a push would not arrive; "
        "`endpoint_diagnostic` does so too",
        "diagnose",
    ),
    Command(
        "backup", "copy the embedded store and the keys, also while the service runs", "backup"
    ),
    Command("restore", "put the store and the keys of a backup in place", "backup"),
    Command(
        "store", "copy a store into one of another kind, also while the service runs", "copy_store"
    ),
    Command(
        "user",
        "manage the users whose user agents alone may connect, with accounts_required",
        "accounts",
    ),
    Command(
        "upgrade",
        "replace the running service by the version installed now, without refusing a connection",
        "upgrade",
    ),
    Command(
        "reload",
        "have the running service read its settings again, without closing a connection",
        "reload",
        of_commands=("reload",),
    ),
    Command("check", "read the whole store, and report what is damaged and what to do", "check"),
    Command("send", "send one push, signed and encrypted", "send", ()),
    Command(
        "test-service",
        "run a push service for tests, in memory and on free ports, until its input ends",
        "push_test_service",
        has_settings=False,
    ),
    Command(
        "keys", "rotate a key that is kept in the data folder, or give up one that is lost", "keys"
    ),
    Command("console-token", "make a token for the pages of the option console", "console"),
    Command("audit", "print what operators have changed", "console"),
    Command(
        "settings",
        "print the settings that a command would have and where each comes from, or sample files",
        "show_settings",
        of_commands=DAEMONS,
    ),
    Command(
        "doctor",
        "check whether this machine offers what the service needs, and whether it is reached",
        "doctor",
        of_commands=DAEMONS,
    ),
    Command(
        "report",
        "print what a bug report needs, without secrets: versions, settings, doctor, errors",
        "report",
        of_commands=DAEMONS,
    ),
    Command(
        "senders",
        "print which senders keep sending to endpoints that are gone, by the running service",
        "senders",
        of_commands=DAEMONS,
    ),
)
