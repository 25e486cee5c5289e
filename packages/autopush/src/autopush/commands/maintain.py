"""`autopush maintain`: the tables of months, then user agents not seen for months.

Rule: a dry run reads what the real run would and says what that would do. Whatever could not be
done is named on standard error and makes the exit code 1; running it again does the rest.
"""

import argparse
import time
from typing import Final

from autopush.clock import Clock
from autopush.commands import until_signal
from autopush.commands.dropping import go_through
from autopush.commands.opening import engine_of, removal_of
from autopush.commands.output import Output, complain
from autopush.service.opening import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.maintenance import drop_old_users, find_old_users, months_ago
from autopush.store.rate_limiter import RateLimiter
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
from keytables import Capacity, Engine, KeytablesError

SOMETHING_LEFT: Final = 1


def run(settings: Settings, given: argparse.Namespace) -> int:
    """Maintain the store; returns the exit code.

    :raises StartupError: the store cannot be opened
    """
    return until_signal.run(_maintain(settings, given, time.time))


async def _maintain(settings: Settings, given: argparse.Namespace, clock: Clock) -> int:
    done, output = True, Output(quiet=given.quiet)
    async with engine_of(settings, clock) as engine:
        if given.only != "users":
            done = await _tables(engine, settings, given, clock, output)
        if given.only != "tables":
            done = await _users(engine, settings, given, clock, output) and done
    return 0 if done else SOMETHING_LEFT


# ── tables of months ─────────────────────────────────────────────────────────────────────────────


async def _tables(
    engine: Engine, settings: Settings, given: argparse.Namespace, clock: Clock, output: Output
) -> bool:
    plan = table_plan(settings)
    if not plan.rotating:
        output.say("tables: one message table for good, nothing to do")
        return True
    try:
        found = await find_tables(engine, plan)
    except KeytablesError as error:
        raise StartupError(f"cannot open the store {settings.store_place}: {error}") from error
    idle = Capacity(given.idle_read, given.idle_write)
    todo = plan_rotation(found, plan, clock(), keep=given.keep_months, idle=idle)
    if Month.at(clock()).table(plan.message) not in found:
        output.say("tables: no node has begun this month, so older tables are left alone")
    if not todo:
        output.say("tables: nothing to do")
    done = True
    for step in todo:
        if given.dry_run:
            output.say(f"tables: would {_words(step)}")
            continue
        try:
            await apply_step(engine, step)
        except KeytablesError as error:
            complain(f"could not {_words(step)}: {error}")
            done = False
        else:
            output.say(f"tables: {_words(step)}: done")
    return done


def _words(step: RotationStep) -> str:
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


# ── user agents not seen for months ──────────────────────────────────────────────────────────────


async def _users(
    engine: Engine, settings: Settings, given: argparse.Namespace, clock: Clock, output: Output
) -> bool:
    removal = await removal_of(settings, engine)
    months = months_ago(clock(), given.months_ago, max(given.months_ago, given.up_to))
    seen = f"last seen from {_name(months[-1])} to {_name(months[0])}"
    limiter = RateLimiter(given.rate)
    try:
        found = await find_old_users(removal, months, limiter=limiter)
    except KeytablesError as error:
        complain(f"could not count user agents {seen}: {error}")
        return False
    total = sum(found.values())
    if given.dry_run:
        output.say(f"users: would drop {total:,} {seen}")
        return True
    run = drop_old_users(removal, found, limiter=limiter, batch_size=given.batch_size)
    (looked_at, dropped), done = await go_through(run, total, output)
    if done:
        left = f", left {looked_at - dropped:,} alone" if looked_at > dropped else ""
        output.say(f"users: dropped {dropped:,} {seen}{left}")
    return done


def _name(month: Month) -> str:
    return f"{month.year}-{month.month:02}"
