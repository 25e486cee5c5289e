"""`autopush maintain`: the monthly tables, then user agents not seen for months.

Rule: a dry run reads what the real run would and prints what that would do. What could not be done
is printed as an error and makes the exit code 1; running it again does the rest.
"""

import argparse
import time
from collections.abc import Iterable, Iterator

from autopush.clock import Clock
from autopush.commands.running import (
    INCOMPLETE,
    Output,
    open_removal,
    opened_engine,
    print_error,
    run_until_signal,
)
from autopush.jobs import RateLimiter
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.maintenance import drop_old_users, find_old_users, months_ago
from autopush.store.rotation import (
    CreateTable,
    DropTable,
    RotationStep,
    SetCapacity,
    apply_step,
    find_tables,
    plan_rotation,
)
from autopush.store.tables import Month
from autopush.store.users import connect_keys, connect_keys_of_day
from keytables import Capacity, Engine, KeytablesError


def maintain(settings: Settings, arguments: argparse.Namespace) -> int:
    """Maintain the store; returns the exit code.

    Raises:
        StartupError: the store cannot be opened.
    """
    return run_until_signal(_Maintenance(settings, arguments, time.time).run())


class _Maintenance:
    """One run."""

    def __init__(self, settings: Settings, arguments: argparse.Namespace, clock: Clock) -> None:
        self._settings = settings
        self._arguments = arguments
        self._clock = clock
        self._output = Output(quiet=arguments.quiet)

    async def run(self) -> int:
        is_complete = True
        async with opened_engine(self._settings, self._clock) as engine:
            if self._arguments.only != "users":
                is_complete = await self._maintain_tables(engine)
            if self._arguments.only != "tables":
                is_complete = await self._drop_users(engine) and is_complete
        return 0 if is_complete else INCOMPLETE

    async def _maintain_tables(self, engine: Engine) -> bool:
        """Returns whether all plan_rotation were taken; those that failed are printed."""
        plan, arguments = table_plan(self._settings), self._arguments
        if not plan.rotating:
            self._output.print("tables: message tables do not rotate, nothing to do")
            return True
        try:
            found = await find_tables(engine, plan)
        except KeytablesError as error:
            place = self._settings.store_place
            raise StartupError(f"cannot open the store {place}: {error}") from error
        now = self._clock()
        idle = Capacity(arguments.idle_read, arguments.idle_write)
        todo = plan_rotation(found, plan, now, keep=arguments.keep_months, idle=idle)
        if Month.at(now).table(plan.message) not in found:
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
                print_error(f"could not {_step_text(step)}: {error}")
                is_complete = False
            else:
                self._output.print(f"tables: {_step_text(step)}: done")
        return is_complete

    async def _drop_users(self, engine: Engine) -> bool:
        """Returns whether all were dropped; what failed is printed."""
        arguments = self._arguments
        removal = await open_removal(self._settings, engine)
        last = max(arguments.months_ago, arguments.up_to)
        months = months_ago(self._clock(), arguments.months_ago, last)
        seen = f"last seen from {_month_text(months[-1])} to {_month_text(months[0])}"
        limiter = RateLimiter(arguments.rate)
        try:
            keys = _connect_keys(months, hours_only=arguments.hours_only)
            found = await find_old_users(removal, keys, limiter=limiter)
        except KeytablesError as error:
            print_error(f"could not count user agents {seen}: {error}")
            return False
        total = sum(found.values())
        if arguments.dry_run:
            self._output.print(f"users: would drop {total:,} {seen}")
            return True
        batches = drop_old_users(
            removal, found, now=self._clock(), limiter=limiter, batch_size=arguments.batch_size
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
