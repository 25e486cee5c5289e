"""Arguments that several commands have."""

import argparse

from autopush.settings.declaration import DAEMONS
from autopush.settings.value_types import whole_number


def add_number(
    group: argparse._ArgumentGroup,
    flag: str,
    default: int | None,
    bounds: tuple[int, int],
    about: str,
    metavar: str = "N",
) -> None:
    value_type = whole_number(*bounds)

    def parse(text: str) -> int:
        try:
            return int(str(value_type.parse(text)))
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {value_type.expected}") from None

    if default is not None:
        about = f"{about} [default: {default}]"
    group.add_argument(flag, type=parse, default=default, metavar=metavar, help=about)


def add_dry_run(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    group = parser.add_argument_group("What to do")
    about = "change nothing; print what would be done"
    group.add_argument("--dry-run", action="store_true", help=about)
    return group


def add_daemon(group: argparse._ArgumentGroup, about: str) -> None:
    """`--for`: the daemon whose settings the command loads, as `load_for_daemon` does."""
    about = f"{about} [default: serve]"
    group.add_argument("--for", dest="daemon", choices=DAEMONS, help=about)
