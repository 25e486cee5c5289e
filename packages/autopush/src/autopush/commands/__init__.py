"""The commands that work on the store and end: `maintain`, `drop-user`, `delete-uaids`.

Rule: they may be cut short anywhere and run beside the service and beside each other; what one run
leaves undone, the next one does. What they do stands in `autopush.store`.
"""

import argparse
from typing import Final

from autopush.command import Command
from autopush.commands import arguments
from autopush.settings import Settings


def _maintain(settings: Settings, given: argparse.Namespace) -> int:
    from autopush.commands.maintain import run  # noqa: PLC0415 - `--help` needs none of it

    return run(settings, given)


def _drop_user(settings: Settings, given: argparse.Namespace) -> int:
    from autopush.commands.drop_user import run  # noqa: PLC0415

    return run(settings, given)


def _delete_uaids(settings: Settings, given: argparse.Namespace) -> int:
    from autopush.commands.delete_uaids import run  # noqa: PLC0415

    return run(settings, given)


TOOLS: Final = (
    Command(
        "maintain",
        "care for the tables of months, and drop user agents not seen for months",
        _maintain,
        add_arguments=arguments.maintain,
    ),
    Command(
        "drop-user",
        "forget single user agents, and say what was on record about them",
        _drop_user,
        add_arguments=arguments.drop_user,
        usage="UAID…",
    ),
    Command(
        "delete-uaids",
        "forget all user agents of a list",
        _delete_uaids,
        add_arguments=arguments.delete_uaids,
        usage="FILE",
    ),
)
