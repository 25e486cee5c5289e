"""The daemons: `serve`, `connection` and `endpoint`, which run until they are stopped."""

import argparse
from typing import Final

from autopush.commands import CommandLine
from autopush.settings import Settings
from autopush.settings.declaration import DAEMONS


def run(settings: Settings, _: argparse.Namespace) -> int:
    from autopush.service import startup  # noqa: PLC0415 - here, so that `--help` is fast

    return startup.run(settings)


COMMANDS: Final = dict.fromkeys(DAEMONS, CommandLine(run))
