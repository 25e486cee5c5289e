"""Checks of the doctor: the store opens, is whole, and allows what the service does.

They write only rows of their own, which they delete.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autopush.clock import Clock
from autopush.commands.checks import Finding, Subject, fail, ok, warn
from autopush.commands.running import opened_engine
from autopush.keys import existing_crypto_keys, key_file, key_fingerprints
from autopush.service.storage import CONNECTIONS_ADVICE, few_connections, table_plan
from autopush.settings import Settings, StartupError
from autopush.store.preflight import PreflightFailed, are_keys_lost, preflight
from autopush.store.tables import Month, TablePlan, live_tables
from keytables import Engine, KeytablesError
from keytables.stores import PostgresUrl, parse_store

if TYPE_CHECKING:  # a node may lack the libraries of other stores
    from keytables.postgresql.inspection import ServerState
    from keytables.sqlite import StoreCheck

DAY: Final = 86_400.0

KEY_LOST: Final = (
    "Give the doctor the option crypto_key that the service has. If the key is lost, the service "
    "does not start: put it back, from a backup (keys/crypto_key in it) or another node"
)
CREATED: Final = "The next start of the service creates it"

NEWEST: Final = 18
"""The newest version that is tested."""
MAX_DRIFT: Final = 5.0
"""Seconds between the clocks of this machine and of the server."""
MUCH_LOG: Final = 1 << 30
"""Bytes of the log that a standby is behind, or that are kept for one that is away."""
MANY_DEAD: Final = 100_000
"""Dead rows of a table, when there are more of them than of others."""
WRAPAROUND: Final = 1 << 31
"""Age of a transaction at which the server stops to take writes."""


async def check_store(subject: Subject) -> AsyncIterator[Finding]:
    """The store opens, has its tables, and allows every operation that the service needs."""
    settings = subject.settings
    place, path = parse_store(settings.store_url), settings.store_file
    if path is not None:
        exists = os.path.exists(path)  # noqa: ASYNC240
        state = await asyncio.to_thread(_file_state, path) if exists else None
        ports = [getattr(settings, option) for option in settings.listeners.values()]
        if subject.is_running and not is_used_by_listener(path, state, ports):
            problem = f"the service on these ports does not use {path}"
            yield fail(problem, "Give the doctor the options data and store of that service")
        if not exists:
            yield ok(f"{path} will be created at the first start")
            return
        if state is not None and state.is_unclean:
            advice = "`autopush check` says whether it is damaged"
            yield warn(f"{path} was not closed by its last user", advice)
    try:
        async with opened_engine(settings, subject.clock) as engine:
            if isinstance(place, PostgresUrl):
                for finding in await check_server(settings, place, subject.clock):
                    yield finding
            async for finding in _check_tables(engine, settings, subject):
                yield finding
    except StartupError as error:
        yield fail(settings.located(str(error)), "Correct the option store, or what it names")
    except KeytablesError as error:
        problem = f"the store {settings.store_place} failed: {error}"
        yield fail(problem, "See the log of the database")


def _file_state(path: str) -> "StoreCheck | None":
    from keytables.sqlite import check_store as check_file  # noqa: PLC0415 - as in other checks

    try:
        return check_file(path, timeout=0)
    except KeytablesError:  # reported when it is opened
        return None


def is_used_by_listener(path: str, state: "StoreCheck | None", ports: Sequence[int]) -> bool:
    """Whether a process that listens on one of `ports` has the store open; True if unknown."""
    if state is None or not state.is_in_use:
        return False
    from keytables.sqlite.layout import lock_holding_pids  # noqa: PLC0415 - as in other checks

    sockets = _listening_sockets(ports)
    for pid in lock_holding_pids(path):
        try:
            files = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:  # of another user, or it has ended
            return True
        if not sockets.isdisjoint(files):
            return True
    return not sockets


def _listening_sockets(ports: Sequence[int]) -> set[str]:
    """Sockets that listen on `ports`, as /proc/PID/fd names them."""
    sockets = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:  # not Linux, or no IPv6
            continue
        for line in lines:
            # 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 INODE
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) in ports:
                sockets.add(f"socket:[{fields[9]}]")
    return sockets


async def _check_tables(
    engine: Engine, settings: Settings, subject: Subject
) -> AsyncIterator[Finding]:
    plan = table_plan(settings)
    names = await engine.table_names()
    now = subject.clock()
    parts = f", {engine.parts} parts" if engine.parts > 1 else ""
    yield ok(f"{settings.store_place} opens, {len(names)} tables{parts}")
    missing = missing_tables(plan, names, now)
    if missing:
        advice = CREATED if not subject.is_running else "Restart the service: it creates them"
        yield warn(f"missing: {', '.join(missing)}", advice)
    if plan.router in names and await _is_key_lost(engine, plan, settings):
        problem = "its subscriptions were made with another crypto_key than is found here"
        yield fail(problem, KEY_LOST)
    soon = Month.at(now + DAY).table(plan.message)
    if plan.rotating and not missing and soon not in names:
        advice = "A running service creates it; without one, run `autopush maintain`"
        yield warn(f"{soon}, the message table of tomorrow, is missing", advice)
    if missing:
        return
    current = _current(plan, names, now)
    try:
        await preflight(
            engine, plan, current=current, key_hash=settings.key_hash, clock=subject.clock
        )
    except PreflightFailed as error:
        yield fail(str(error), "Give the service this right, or repair the table")
    else:
        tables = f"{plan.router}, {plan.storage} and {current}"
        yield ok(f"reading, conditional writing and deleting works on {tables}")


async def _is_key_lost(engine: Engine, plan: TablePlan, settings: Settings) -> bool:
    try:
        keys = existing_crypto_keys(settings.crypto_key, settings.data)
    except StartupError:
        if key_file(settings.data, "crypto_key").exists():
            return False  # reported by the check of keys
        keys = ()
    return await are_keys_lost(engine, plan, key_fingerprints(keys))


def missing_tables(plan: TablePlan, names: Sequence[str], now: float) -> list[str]:
    """Tables that the service needs now and that do not exist."""
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


# ── A PostgreSQL server: what it keeps, waits for, and runs out of ────────────────────────────────


async def check_server(settings: Settings, store: PostgresUrl, clock: Clock) -> tuple[Finding, ...]:
    """Raises KeytablesError: it does not answer."""
    from keytables.postgresql.inspection import inspect_server  # noqa: PLC0415 - needs asyncpg

    state = await inspect_server(store, clock)
    return tuple(server_findings(state, settings.workers * store.connections))


def server_findings(state: "ServerState", needed: int) -> Iterator[Finding]:
    """`needed`: connections that this service opens at most."""
    limit, used = state.max_connections, state.used_connections
    yield ok(f"PostgreSQL {state.release}, {used} of {limit} connections in use")
    if state.version > NEWEST:
        advice = f"Versions up to {NEWEST} are tested"
        yield warn(f"PostgreSQL {state.version} is newer than this service", advice)
    if few := few_connections(needed, limit):
        yield warn(few, CONNECTIONS_ADVICE)
    if abs(state.ahead) > MAX_DRIFT:
        direction = "ahead of" if state.ahead > 0 else "behind"
        problem = f"the clock of the server is {abs(state.ahead):,.0f} s {direction} ours"
        yield warn(problem, "Set both by NTP: what is stored expires by the clocks of the nodes")
    yield from _safety(state)
    yield from _standbys(state)
    yield from _vacuum(state)


def _safety(state: "ServerState") -> Iterator[Finding]:
    for name, is_on in (("fsync", state.fsync), ("full_page_writes", state.full_page_writes)):
        if not is_on:
            problem = f"{name} is off: messages that were accepted are lost when the machine fails"
            yield fail(problem, f"Set {name} = on in postgresql.conf")


def _standbys(state: "ServerState") -> Iterator[Finding]:
    if state.standbys:
        names = ", ".join(
            f"{standby.name} ({'synchronous' if standby.is_synchronous else 'asynchronous'})"
            for standby in state.standbys
        )
        yield ok(f"standbys: {names}")
    if state.waits_for_standby and not any(each.is_synchronous for each in state.standbys):
        problem = (
            "no standby is synchronous, and synchronous_standby_names wants one: no write ends"
        )
        yield fail(problem, "Start the standby, or change synchronous_standby_names")
    for standby in state.standbys:
        if standby.state not in ("streaming", ""):
            yield warn(f"standby {standby.name} is in state {standby.state}", "Look into its log")
        if standby.behind > MUCH_LOG:
            problem = f"standby {standby.name} is {standby.behind / 1e9:.1f} GB of the log behind"
            yield warn(problem, "After a failover that much would be lost")
    for slot in state.unused_slots:
        if slot.kept > MUCH_LOG:
            problem = f"{slot.kept / 1e9:.1f} GB of the log are kept for slot {slot.name}"
            advice = "Start its standby, or drop the slot: the disk of the server fills up"
            yield warn(problem, advice)


def _vacuum(state: "ServerState") -> Iterator[Finding]:
    if not state.autovacuum:
        advice = "Set autovacuum = on: without it tables only grow, until no write is possible"
        yield fail("autovacuum is off", advice)
    for table in state.tables:
        if table.dead_rows > max(MANY_DEAD, table.rows):
            ago = "never" if table.vacuumed is None else f"{table.vacuumed / 60:,.0f} minutes ago"
            problem = (
                f"table {table.name} has {table.dead_rows:,} dead rows and {table.rows:,} others, "
                f"in {table.size / 1e6:,.0f} MB; last vacuumed: {ago}"
            )
            yield warn(problem, "A long transaction keeps them, or autovacuum is too slow")
    if state.transaction_age > 2 * state.freeze_age:
        share = state.transaction_age / WRAPAROUND
        problem = f"the oldest transaction ID has {share:.0%} of the age at which writes stop"
        advice = "Autovacuum does not keep up: find old transactions, then run VACUUM (FREEZE)"
        yield (fail if share > 0.7 else warn)(problem, advice)
