"""What the commands that work on the store take on the command line, beside settings.

Rule: a value that cannot be used is wrong usage, told with what was expected.
"""

import argparse
from collections.abc import Callable
from typing import Final

from autopush.settings.value_types import whole_number
from autopush.webpush.identifiers import canonical_uaid

RATE: Final = 100
IDLE: Final = 5
MONTHS_AGO: Final = 2
UP_TO: Final = 12
KEEP: Final = 2
BATCH: Final = 25


def maintain(parser: argparse.ArgumentParser) -> None:
    """Flags of `autopush maintain`."""
    group = parser.add_argument_group("What to do")
    group.add_argument("--dry-run", action="store_true", help="change nothing; say what would be")
    group.add_argument("--only", choices=("tables", "users"), help="do one of the two parts")
    group.add_argument(
        "--keep-months",
        type=_whole(2, 1200),
        default=KEEP,
        metavar="N",
        help=f"keep the message tables of so many months, this one included [default: {KEEP}]",
    )
    for way in ("read", "write"):
        group.add_argument(
            f"--idle-{way}",
            type=_whole(1, 1_000_000),
            default=IDLE,
            metavar="UNITS",
            help=f"{way} units left to a table of an older month, where tables are provisioned "
            f"[default: {IDLE}]",
        )
    group.add_argument(
        "--months-ago",
        type=_whole(1, 1200),
        default=MONTHS_AGO,
        metavar="N",
        help="drop user agents that connected last so many calendar months ago or earlier "
        f"[default: {MONTHS_AGO}]",
    )
    group.add_argument(
        "--up-to",
        type=_whole(1, 1200),
        default=UP_TO,
        metavar="N",
        help=f"look back so many months for them [default: {UP_TO}]",
    )
    _add_speed(parser)


def drop_user(parser: argparse.ArgumentParser) -> None:
    """Arguments of `autopush drop-user`."""
    parser.add_argument(
        "uaids",
        nargs="+",
        type=_uaid,
        metavar="UAID",
        help="a user agent: 32 hex digits, dashes do not count",
    )
    group = parser.add_argument_group("What to do")
    group.add_argument("--dry-run", action="store_true", help="change nothing; say what would be")


def delete_uaids(parser: argparse.ArgumentParser) -> None:
    """Arguments of `autopush delete-uaids`."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="one UAID a line, # begins a comment; - reads standard input",
    )
    group = parser.add_argument_group("What to do")
    group.add_argument("--dry-run", action="store_true", help="change nothing; say what would be")
    _add_speed(parser)


def _add_speed(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("How fast")
    group.add_argument(
        "--rate",
        type=_whole(1, 1_000_000),
        default=RATE,
        metavar="N",
        help="user agents to drop in a second at most; fewer while the store is busy "
        f"[default: {RATE}]",
    )
    group.add_argument(
        "--batch-size",
        type=_whole(1, 100),
        default=BATCH,
        metavar="N",
        help=f"user agents to drop at the same time [default: {BATCH}]",
    )
    group.add_argument("--quiet", action="store_true", help="say nothing but errors")


def _whole(lowest: int, highest: int) -> Callable[[str], int]:
    kind = whole_number(lowest, highest)

    def parse(text: str) -> int:
        try:
            return int(str(kind.parse(text)))
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected {kind.expected}") from None

    return parse


def _uaid(text: str) -> str:
    uaid = canonical_uaid(text)
    if uaid is None:
        raise argparse.ArgumentTypeError(
            f"expected 32 hex digits, with or without dashes, got {len(text)} characters"
        )
    return uaid
