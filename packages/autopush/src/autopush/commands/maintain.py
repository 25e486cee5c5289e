"""`autopush maintain`, `drop-user` and `delete-uaids`: monthly tables, removal of user agents.

A dry run does the same reads and prints what would be written. Failures are printed and make the
exit code 1; the next run retries. The output identifies user agents but holds no credentials.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Final

from autopush.clock import Clock
from autopush.commands import CommandLine
from autopush.commands.arguments import add_dry_run, add_number
from autopush.commands.running import (
    INCOMPLETE,
    STANDARD_INPUT,
    check_tables_exist,
    opened_engine,
    progress_bar,
    run_until_signal,
)
from autopush.console.audit import note_command
from autopush.jobs import RateLimiter
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store import maintenance
from autopush.store.maintenance import (
    RemovalStep,
    UserRemover,
    drop_old_users,
    find_old_users,
    months_ago,
)
from autopush.store.rotation import (
    CreateTable,
    DropTable,
    RotationStep,
    SetCapacity,
    apply_step,
    find_tables,
    plan_rotation,
)
from autopush.store.tables import Month, uaid_log_hasher
from autopush.store.users import connect_keys, connect_keys_of_day
from autopush.telemetry import logs
from autopush.webpush.identifiers import canonical_uaid
from keytables import Capacity, Engine, KeytablesError


async def open_removal(settings: Settings, engine: Engine) -> UserRemover:
    """Raises StartupError if the store or its router table cannot be opened."""
    try:
        removal = await UserRemover.open(engine, table_plan(settings), key_hash=settings.key_hash)
    except KeytablesError as error:
        raise StartupError(f"cannot open the store {settings.store_place}: {error}") from error
    if removal is None:
        table = settings.router_tablename
        raise StartupError(f"there is no table {table} in the store {settings.store_place}")
    return removal


class Output:
    """Prints results and progress, unless `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def print(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)

    async def drop(
        self, batches: AsyncGenerator[RemovalStep, None], total: int
    ) -> tuple[RemovalStep, bool]:
        """Run all batches; returns their sum and whether none failed. A failure is printed."""
        looked_at = dropped = 0
        try:
            with progress_bar(total, " user agents", quiet=self._quiet) as bar:
                async with aclosing(batches):
                    async for batch in batches:
                        looked_at += batch.checked
                        dropped += batch.dropped
                        bar.update(batch.checked)
        except KeytablesError as error:
            logs.print_error(f"{dropped:,} dropped, then: {error}; run it again for the rest")
            return RemovalStep(looked_at, dropped), False
        except asyncio.CancelledError:
            logs.print_error(f"{dropped:,} dropped so far")
            raise
        return RemovalStep(looked_at, dropped), True


# ── By the calendar ──────────────────────────────────────────────────────────────────────────────


def maintain(settings: Settings, arguments: argparse.Namespace) -> int:
    return run_until_signal(_Maintenance(settings, arguments, time.time).run())


class _Maintenance:
    def __init__(self, settings: Settings, arguments: argparse.Namespace, clock: Clock) -> None:
        self._settings = settings
        self._arguments = arguments
        self._clock = clock
        self._output = Output(quiet=arguments.quiet)

    async def run(self) -> int:
        is_complete = True
        is_named = not self._arguments.quiet
        async with opened_engine(self._settings, self._clock, is_named=is_named) as engine:
            await check_tables_exist(engine, self._settings)
            if self._arguments.only != "users":
                is_complete = await self._maintain_tables(engine)
            if self._arguments.only != "tables":
                is_complete = await self._drop_users(engine) and is_complete
        return 0 if is_complete else INCOMPLETE

    async def _maintain_tables(self, engine: Engine) -> bool:
        """Returns whether every step succeeded; failures are printed."""
        plan, arguments = table_plan(self._settings), self._arguments
        if not plan.rotating:
            self._output.print("tables: message tables do not rotate, nothing to do")
            return True
        try:
            tables = await find_tables(engine, plan)
        except KeytablesError as error:
            place = self._settings.store_place
            raise StartupError(f"cannot open the store {place}: {error}") from error
        now = self._clock()
        idle = Capacity(arguments.idle_read, arguments.idle_write)
        todo = plan_rotation(tables, plan, now, keep=arguments.keep_months, idle=idle)
        if Month.at(now).table(plan.message) not in tables:
            self._output.print("tables: no node has begun this month, so older ones are kept")
        if not todo:
            self._output.print("tables: nothing to do")
        is_complete = True
        for step in todo:
            if arguments.dry_run:
                self._output.print(f"tables: would {_step_text(step)}")
                continue
            try:
                await apply_step(engine, step)
            except KeytablesError as error:
                logs.print_error(f"could not {_step_text(step)}: {error}")
                is_complete = False
            else:
                self._output.print(f"tables: {_step_text(step)}: done")
        return is_complete

    async def _drop_users(self, engine: Engine) -> bool:
        """Returns whether all were dropped; a failure is printed."""
        arguments = self._arguments
        removal = await open_removal(self._settings, engine)
        last = max(arguments.months_ago, arguments.up_to)
        months = months_ago(self._clock(), arguments.months_ago, last)
        seen = f"last seen from {_month_text(months[-1])} to {_month_text(months[0])}"
        limiter = RateLimiter(arguments.rate)
        try:
            keys = _connect_keys(months, hours_only=arguments.hours_only)
            counts = await find_old_users(removal, keys, limiter=limiter)
        except KeytablesError as error:
            logs.print_error(f"could not count user agents {seen}: {error}")
            return False
        total = sum(counts.values())
        if arguments.dry_run:
            self._output.print(f"users: would drop {total:,} {seen}")
            return True
        batches = drop_old_users(
            removal, counts, now=self._clock(), limiter=limiter, batch_size=arguments.batch_size
        )
        (looked_at, dropped), is_complete = await self._output.drop(batches, total)
        if is_complete:
            kept = f", kept {looked_at - dropped:,}" if looked_at > dropped else ""
            self._output.print(f"users: dropped {dropped:,} {seen}{kept}")
        return is_complete


def _connect_keys(months: Iterable[Month], *, hours_only: bool) -> Iterator[int]:
    for month in months:
        yield from connect_keys(month)
        if not hours_only:
            for day in range(1, 32):
                yield from connect_keys_of_day(month, day)


def _step_text(step: RotationStep) -> str:
    match step:
        case CreateTable(table, None):
            return f"make {table}"
        case CreateTable(table, Capacity(read, write)):
            return f"make {table} with {read} read and {write} write units"
        case SetCapacity(table, Capacity(read, write)):
            return f"provision {table} for {read} read and {write} write units"
        case DropTable(table):
            return f"drop {table}"
    raise TypeError(step)


def _month_text(month: Month) -> str:
    return f"{month.year}-{month.month:02}"


# ── By name ───────────────────────────────────────────────────────────────────────────────────────


def drop_user(settings: Settings, arguments: argparse.Namespace) -> int:
    """Returns 1 if a user agent had no record or could not be dropped."""
    return run_until_signal(_drop_user(settings, arguments.uaids, dry_run=arguments.dry_run))


async def _drop_user(settings: Settings, uaids: list[str], *, dry_run: bool) -> int:
    code, verb = 0, "would drop" if dry_run else "dropped"
    async with opened_engine(settings, time.time, is_named=True) as engine:
        removal = await open_removal(settings, engine)
        limiter = RateLimiter(len(uaids))
        in_logs = uaid_log_hasher(settings.key_hash)
        for uaid in uaids:
            try:
                described = await removal.describe(uaid)
                if described is None:
                    logs.print_error(f"{uaid} has no record")
                    code = INCOMPLETE
                    continue
                if not dry_run:
                    note_command(settings.data, "drop-user", user=in_logs(uaid))
                batches = maintenance.delete_uaids(
                    removal, [uaid], limiter=limiter, dry_run=dry_run
                )
                async for _ in batches:
                    print(f"{verb} {uaid}: {_record_text(described)}", flush=True)
            except KeytablesError as error:
                logs.print_error(f"could not drop {uaid}: {error}")
                code = INCOMPLETE
    return code


def _record_text(described: maintenance.UserSummary) -> str:
    channels = "1 channel" if described.channels == 1 else f"{described.channels} channels"
    seen = str(described.last_connect or "")
    connected = f"last connect {seen[:4]}-{seen[4:6]}" if seen else "last connect unknown"
    table = described.table or "no message table"
    return f"{described.router_type}, {table}, {channels}, {connected}"


def delete_uaids(settings: Settings, arguments: argparse.Namespace) -> int:
    """Drop the user agents of a list; the whole list is validated first."""
    return run_until_signal(_delete_uaids(settings, arguments, _read_list(arguments.file)))


async def _delete_uaids(settings: Settings, arguments: argparse.Namespace, uaids: list[str]) -> int:
    output = Output(quiet=arguments.quiet)
    async with opened_engine(settings, time.time, is_named=True) as engine:
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
    """The distinct UAIDs of a list, in its order; raises StartupError at a malformed line."""
    uaids: dict[str, None] = {}
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
        uaids[uaid] = None
    return list(uaids)


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def _add_maintain_arguments(parser: argparse.ArgumentParser) -> None:
    group = add_dry_run(parser)
    group.add_argument("--only", choices=("tables", "users"), help="do one of the two parts")
    add_number(
        group, "--keep-months", 2, (2, 1200), "keep message tables of so many months, this included"
    )
    for way in ("read", "write"):
        about = f"{way} units left to a table of an older month, where tables are provisioned"
        add_number(group, f"--idle-{way}", 5, (1, 1_000_000), about, "UNITS")
    add_number(
        group,
        "--months-ago",
        2,
        (1, 1200),
        "drop user agents that connected last so many calendar months ago or earlier",
    )
    add_number(group, "--up-to", 12, (1, 1200), "look back so many months for them")
    group.add_argument(
        "--hours-only",
        action="store_true",
        help="leave out records whose last_connect names the day; a thirtieth of the reads",
    )
    _add_rate(parser)


def _add_drop_user_arguments(parser: argparse.ArgumentParser) -> None:
    about = "a user agent: 32 hex digits, with or without dashes"
    parser.add_argument("uaids", nargs="+", type=_parse_uaid, metavar="UAID", help=about)
    add_dry_run(parser)


def _add_delete_uaids_arguments(parser: argparse.ArgumentParser) -> None:
    about = "one UAID a line, # begins a comment; - reads standard input"
    parser.add_argument("file", metavar="FILE", help=about)
    add_dry_run(parser)
    _add_rate(parser)


def _add_rate(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("How fast")
    about = "user agents to drop in a second at most; fewer while the store is busy"
    add_number(group, "--rate", 100, (1, 1_000_000), about)
    add_number(group, "--batch-size", 25, (1, 100), "user agents to drop at the same time")
    group.add_argument("--quiet", action="store_true", help="print nothing but errors")


def _parse_uaid(text: str) -> str:
    uaid = canonical_uaid(text)
    if uaid is None:
        raise argparse.ArgumentTypeError(
            f"expected 32 hex digits, with or without dashes, got {len(text)} characters"
        )
    return uaid


COMMANDS: Final = {
    "maintain": CommandLine(maintain, _add_maintain_arguments),
    "drop-user": CommandLine(drop_user, _add_drop_user_arguments, "UAID…"),
    "delete-uaids": CommandLine(delete_uaids, _add_delete_uaids_arguments, "FILE"),
}
