"""The commands: a module for each idea, with its arguments and what it does.

`context` says what a command is, what it is given, and how it is run.

They are listed here; the module of a command is imported when it runs, so that `--help` is fast.

Rule: a command opens the store, does one thing and closes it; what it cannot do is a `Failure` of
one line.
"""

import argparse
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Final, NamedTuple, NoReturn

DONE: Final = 0
WITH_PROBLEMS: Final = 1
USAGE: Final = 2
NOT_DONE: Final = 3
"""Exit codes."""
_SWITCH_VALUES: Final = frozenset(["true", "false", "yes", "no", "on", "off", "1", "0"])


class Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line that names the help, instead of printing all options."""

    def refuse_switch_values(self, words: Sequence[str]) -> None:
        """Refuse `--switch yes`, whose `yes` argparse would take for another argument."""
        for flag, word in pairwise(words):
            action = self._option_string_actions.get(flag)
            if action is not None and action.nargs == 0 and word.lower() in _SWITCH_VALUES:
                self.error(f"{flag} takes no value, got {word!r}")

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: error: {message}; see {self.prog} --help\n")


class ListedCommand(NamedTuple):
    """A command, and the module whose function of that name is a `Command`."""

    name: str
    summary: str
    module: str


COMMANDS: Final = (
    ListedCommand("import-export", "import a Slack export: a zip or a folder", "import_"),
    ListedCommand("sync", "read users, channels and messages from Slack", "sync"),
    ListedCommand("report", "make a report, and send it if asked to", "report"),
    ListedCommand("serve", "serve the dashboard", "serve"),
    ListedCommand("login", "show the token by which a person logs in to the dashboard", "serve"),
    ListedCommand("send-weekly", "send every report of a week to where it belongs", "send"),
    ListedCommand("notify", "notify subscribers of the dashboard about a weekly report", "send"),
    ListedCommand("warn", "alert on goals already missed this week", "send"),
    ListedCommand("mail", "list, add or remove addresses that get the weekly mail", "send"),
    ListedCommand(
        "rebuild-firstposts", "find everybody's first post again in all stored messages", "maintain"
    ),
    ListedCommand(
        "import-members",
        "import when accounts were created, from Slack's list of members",
        "import_",
    ),
    ListedCommand("forget", "remove a person from the store for good", "maintain"),
    ListedCommand("copy", "copy the store, to another engine or without names", "maintain"),
    ListedCommand("note", "note something on a date, which charts then show", "maintain"),
    ListedCommand("doctor", "check the store, the settings and the tokens", "doctor"),
    ListedCommand("demo", "show the dashboard of a made-up workspace", "demo"),
)
"""In the order in which `channelstats --help` lists them."""


def program_version() -> str:
    try:
        return version("channelstats")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"
