"""A command of the command line, as data.

Rule: it loads nothing of what it runs before it runs, so that `--help` answers at once.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from .settings import Settings
from .settings.declaration import IniFile


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand. Its flags are the options of the table that name it, and one for each file.

    `run` gets the settings, and the parsed words for what `add_arguments` added to them.
    """

    name: str
    summary: str
    run: Callable[[Settings, argparse.Namespace], int]
    files: tuple[IniFile, ...] = tuple(IniFile)
    """The ini files it reads."""
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None
    """Adds arguments and flags that are no settings."""
    usage: str = ""
    """How its arguments are written, such as `UAID…`."""
