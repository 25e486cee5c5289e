"""`autopush delete-uaids FILE`: forget all user agents of a list.

Rule: the whole list is read and judged before anything is deleted.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from typing import Final

from autopush.commands import until_signal
from autopush.commands.dropping import go_through
from autopush.commands.opening import engine_of, removal_of
from autopush.commands.output import Output
from autopush.settings import Settings, StartupError
from autopush.store.maintenance import delete_uaids
from autopush.store.rate_limiter import RateLimiter
from autopush.webpush.identifiers import canonical_uaid

SOMETHING_LEFT: Final = 1
STANDARD_INPUT: Final = "-"


def run(settings: Settings, given: argparse.Namespace) -> int:
    """Delete them; returns the exit code.

    :raises StartupError: the list cannot be read, a line of it is no UAID, or the store cannot be
        opened
    """
    uaids = _read(given.file)
    return until_signal.run(_delete(settings, given, uaids))


async def _delete(settings: Settings, given: argparse.Namespace, uaids: list[str]) -> int:
    output = Output(quiet=given.quiet)
    async with engine_of(settings, time.time) as engine:
        removal = await removal_of(settings, engine)
        steps = delete_uaids(
            removal,
            uaids,
            limiter=RateLimiter(given.rate),
            batch_size=given.batch_size,
            dry_run=given.dry_run,
        )
        (looked_at, dropped), done = await go_through(steps, len(uaids), output)
    if done:
        verb = "would drop" if given.dry_run else "dropped"
        output.say(f"{verb} {dropped:,} of {looked_at:,}; {looked_at - dropped:,} had no record")
    return 0 if done else SOMETHING_LEFT


def _read(file: str) -> list[str]:
    if file == STANDARD_INPUT:
        return parse(sys.stdin, "standard input")
    try:
        with open(file, encoding="utf-8-sig", errors="replace") as lines:
            return parse(lines, file)
    except OSError as error:
        raise StartupError(f"cannot read {file}: {error.strerror}") from None


def parse(lines: Iterable[str], name: str) -> list[str]:
    """The UAIDs of a list, each once.

    :raises StartupError: a line that is neither a UAID nor empty nor a comment
    """
    found: dict[str, None] = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        uaid = canonical_uaid(text)
        if uaid is None:
            raise StartupError(
                f"{name}:{number}: expected a UAID, 32 hex digits with or without dashes, "
                f"got {len(text)} characters; nothing was deleted"
            )
        found[uaid] = None
    return list(found)
