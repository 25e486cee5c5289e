"""The store: it opens, has its tables, and lets every operation of the service work on them."""

import asyncio
import os
from collections.abc import Sequence
from typing import Final

from autopush.commands.checks import Finding, Subject, fail, ok, warn
from autopush.commands.running import opened_engine
from autopush.keys import existing_crypto_keys, key_file, key_fingerprints
from autopush.service.storage import table_plan
from autopush.settings import Settings, StartupError
from autopush.store.key_check import is_lost
from autopush.store.preflight import PreflightFailed, preflight
from autopush.store.tables import Month, TablePlan, live_tables
from keytables import Engine, KeytablesError
from keytables.stores import SqliteUrl, parse_store

DAY: Final = 86_400.0
KEY_LOST: Final = (
    "Give the doctor the option crypto_key that the service has. If the key is lost, the service "
    "does not start: put it back, from a backup (keys/crypto_key in it) or another node"
)
CREATED: Final = "The next start of the service creates it"


async def check_store(subject: Subject) -> Sequence[Finding]:
    """Open it as the commands do; what the check writes is under a UAID of its own, and deleted."""
    settings = subject.settings
    place = parse_store(settings.store_url)
    if isinstance(place, SqliteUrl) and not os.path.exists(place.path):  # noqa: ASYNC240
        return [ok(f"{place.path} will be created at the first start")]
    findings = []
    if isinstance(place, SqliteUrl) and await asyncio.to_thread(_is_unclean, place.path):
        advice = "`autopush check` says whether it is damaged"
        findings.append(warn(f"{place.path} was not closed by its last user", advice))
    try:
        async with opened_engine(settings, subject.clock) as engine:
            return [*findings, *await _check_tables(engine, settings, subject)]
    except StartupError as error:
        return [fail(str(error), "Correct the option store, or what it names")]
    except KeytablesError as error:
        found = f"the store {settings.store_place} failed: {error}"
        return [fail(found, "Look into the log of the database")]


def _is_unclean(path: str) -> bool:
    from keytables.sqlite import check_store as check_file  # noqa: PLC0415 - as in other checks

    try:
        return check_file(path, timeout=0).is_unclean
    except KeytablesError:  # opening it says why
        return False


async def _check_tables(engine: Engine, settings: Settings, subject: Subject) -> Sequence[Finding]:
    plan = table_plan(settings)
    names = await engine.table_names()
    now = subject.clock()
    findings = [ok(f"{settings.store_place} opens, {len(names)} tables")]
    missing = missing_tables(plan, names, now)
    if missing:
        advice = CREATED if not subject.is_running else "Restart the service: it creates them"
        findings.append(warn(f"missing: {', '.join(missing)}", advice))
    if plan.router in names and await _is_key_lost(engine, plan, settings):
        found = "its subscriptions were made with another crypto_key than is found here"
        findings.append(fail(found, KEY_LOST))
    soon = Month.at(now + DAY).table(plan.message)
    if plan.rotating and not missing and soon not in names:
        advice = "A running service creates it; without one, run `autopush maintain`"
        findings.append(warn(f"{soon}, the message table of tomorrow, is missing", advice))
    if missing:
        return findings
    current = _current(plan, names, now)
    try:
        await preflight(
            engine, plan, current=current, key_hash=settings.key_hash, clock=subject.clock
        )
    except PreflightFailed as error:
        findings.append(fail(str(error), "Give the service this right, or repair the table"))
    else:
        tables = f"{plan.router}, {plan.storage} and {current}"
        findings.append(ok(f"reading, conditional writing and deleting works on {tables}"))
    return findings


async def _is_key_lost(engine: Engine, plan: TablePlan, settings: Settings) -> bool:
    try:
        keys = existing_crypto_keys(settings.crypto_key, settings.data)
    except StartupError:
        if key_file(settings.data, "crypto_key").exists():
            return False  # the check of keys says what is wrong with it
        keys = ()
    return await is_lost(engine, plan, key_fingerprints(keys))


def missing_tables(plan: TablePlan, names: Sequence[str], now: float) -> list[str]:
    """The tables that the service needs at this time and that there are not."""
    needed = [plan.router, plan.storage]
    if plan.rotating:
        needed.append(Month.at(now).table(plan.message))
    elif not live_tables(plan.message, names, None):
        needed.append(plan.message)
    return [name for name in needed if name not in names]


def _current(plan: TablePlan, names: Sequence[str], now: float) -> str:
    if plan.rotating:
        return Month.at(now).table(plan.message)
    return live_tables(plan.message, names, None)[0]
