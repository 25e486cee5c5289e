"""`autopush drop-user UAID…` and `autopush delete-uaids FILE`: dropping user agents by name.

Rule: what is printed identifies a user agent, but holds nothing that could be used in its name.
"""

import argparse
import sys
import time
from collections.abc import Iterable

from autopush.commands.running import (
    INCOMPLETE,
    STANDARD_INPUT,
    Output,
    open_removal,
    opened_engine,
    print_error,
    run_until_signal,
)
from autopush.jobs import RateLimiter
from autopush.settings import Settings, StartupError
from autopush.store import maintenance
from autopush.webpush.identifiers import canonical_uaid
from keytables import KeytablesError


def drop_user(settings: Settings, arguments: argparse.Namespace) -> int:
    """Drop the named user agents; exit code 1: one had no record, or could not be dropped.

    Raises:
        StartupError: the store cannot be opened.
    """
    return run_until_signal(_drop_user(settings, arguments.uaids, dry_run=arguments.dry_run))


async def _drop_user(settings: Settings, uaids: list[str], *, dry_run: bool) -> int:
    code, verb = 0, "would drop" if dry_run else "dropped"
    async with opened_engine(settings, time.time) as engine:
        removal = await open_removal(settings, engine)
        limiter = RateLimiter(len(uaids))
        for uaid in uaids:
            try:
                described = await removal.describe(uaid)
                if described is None:
                    print_error(f"{uaid} has no record")
                    code = INCOMPLETE
                    continue
                batches = maintenance.delete_uaids(
                    removal, [uaid], limiter=limiter, dry_run=dry_run
                )
                async for _ in batches:
                    print(f"{verb} {uaid}: {_record_text(described)}", flush=True)
            except KeytablesError as error:
                print_error(f"could not drop {uaid}: {error}")
                code = INCOMPLETE
    return code


def _record_text(described: maintenance.UserSummary) -> str:
    channels = "1 channel" if described.channels == 1 else f"{described.channels} channels"
    seen = str(described.last_connect or "")
    connected = f"last connect {seen[:4]}-{seen[4:6]}" if seen else "last connect unknown"
    table = described.table or "no message table"
    return f"{described.router_type}, {table}, {channels}, {connected}"


def delete_uaids(settings: Settings, arguments: argparse.Namespace) -> int:
    """Drop the user agents of a list, which is read and checked as a whole before.

    Raises:
        StartupError: the list cannot be read, a line of it is no UAID, or the store cannot be
            opened.
    """
    return run_until_signal(_delete_uaids(settings, arguments, _read_list(arguments.file)))


async def _delete_uaids(settings: Settings, arguments: argparse.Namespace, uaids: list[str]) -> int:
    output = Output(quiet=arguments.quiet)
    async with opened_engine(settings, time.time) as engine:
        batches = maintenance.delete_uaids(
            await open_removal(settings, engine),
            uaids,
            limiter=RateLimiter(arguments.rate),
            batch_size=arguments.batch_size,
            dry_run=arguments.dry_run,
        )
        (looked_at, dropped), is_complete = await output.drop(batches, len(uaids))
    if not is_complete:
        return INCOMPLETE
    verb = "would drop" if arguments.dry_run else "dropped"
    output.print(f"{verb} {dropped:,} of {looked_at:,}; {looked_at - dropped:,} had no record")
    return 0


def _read_list(file: str) -> list[str]:
    if file == STANDARD_INPUT:
        return parse_list(sys.stdin, "standard input")
    try:
        with open(file, encoding="utf-8-sig", errors="replace") as lines:
            return parse_list(lines, file)
    except OSError as error:
        raise StartupError(f"cannot read {file}: {error.strerror}") from None


def parse_list(lines: Iterable[str], name: str) -> list[str]:
    """The UAIDs of a list, each once.

    Raises:
        StartupError: a line that is neither a UAID nor empty nor a comment.
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
