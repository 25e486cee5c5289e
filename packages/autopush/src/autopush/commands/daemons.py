"""The daemons: `serve`, `connection` and `endpoint`, which run until they are stopped."""

import argparse
import time
from typing import Final

from autopush.commands import DAEMON_FILES, CommandLine
from autopush.settings import Settings, StartupError
from autopush.settings.declaration import DAEMONS
from autopush.settings.sources import load


def run(settings: Settings, arguments: argparse.Namespace) -> int:
    # Here, so that `--help` is fast.
    from autopush.commands.checks import examine_start  # noqa: PLC0415
    from autopush.service import startup  # noqa: PLC0415

    def read_again() -> Settings:
        """The settings as a start would have them now, checked as by one; raises StartupError."""
        command = settings.command
        read = load(arguments, command=command, files=DAEMON_FILES[command]).settings
        problems, _ = examine_start(read, time.time)
        if problems:
            raise StartupError(problems[0])
        return read

    return startup.run(settings, read_again)


COMMANDS: Final = dict.fromkeys(DAEMONS, CommandLine(run))
