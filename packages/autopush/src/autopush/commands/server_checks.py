"""Findings of the doctor about a PostgreSQL server: what it keeps, waits for, and runs out of."""

from collections.abc import Iterator
from typing import Final

from autopush.clock import Clock
from autopush.commands.checks import Finding, fail, ok, warn
from autopush.service.storage import CONNECTIONS_ADVICE, few_connections
from autopush.settings import Settings
from keytables.postgresql.inspection import ServerState, inspect_server
from keytables.stores import PostgresUrl

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


async def check_server(settings: Settings, store: PostgresUrl, clock: Clock) -> tuple[Finding, ...]:
    """Raises KeytablesError: it does not answer."""
    state = await inspect_server(store, clock)
    return tuple(server_findings(state, settings.workers * store.connections))


def server_findings(state: ServerState, needed: int) -> Iterator[Finding]:
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
        found = f"the clock of the server is {abs(state.ahead):,.0f} s {direction} ours"
        yield warn(found, "Set both by NTP: what is stored expires by the clocks of the nodes")
    yield from _safety(state)
    yield from _standbys(state)
    yield from _vacuum(state)


def _safety(state: ServerState) -> Iterator[Finding]:
    for name, is_on in (("fsync", state.fsync), ("full_page_writes", state.full_page_writes)):
        if not is_on:
            found = f"{name} is off: messages that were accepted are lost when the machine fails"
            yield fail(found, f"Set {name} = on in postgresql.conf")


def _standbys(state: ServerState) -> Iterator[Finding]:
    if state.standbys:
        names = ", ".join(
            f"{standby.name} ({'synchronous' if standby.is_synchronous else 'asynchronous'})"
            for standby in state.standbys
        )
        yield ok(f"standbys: {names}")
    if state.waits_for_standby and not any(each.is_synchronous for each in state.standbys):
        found = "no standby is synchronous, and synchronous_standby_names wants one: no write ends"
        yield fail(found, "Start the standby, or change synchronous_standby_names")
    for standby in state.standbys:
        if standby.state not in ("streaming", ""):
            yield warn(f"standby {standby.name} is in state {standby.state}", "Look into its log")
        if standby.behind > MUCH_LOG:
            found = f"standby {standby.name} is {standby.behind / 1e9:.1f} GB of the log behind"
            yield warn(found, "After a failover that much would be lost")
    for slot in state.unused_slots:
        if slot.kept > MUCH_LOG:
            found = f"{slot.kept / 1e9:.1f} GB of the log are kept for slot {slot.name}"
            advice = "Start its standby, or drop the slot: the disk of the server fills up"
            yield warn(found, advice)


def _vacuum(state: ServerState) -> Iterator[Finding]:
    if not state.autovacuum:
        advice = "Set autovacuum = on: without it tables only grow, until no write is possible"
        yield fail("autovacuum is off", advice)
    for table in state.tables:
        if table.dead_rows > max(MANY_DEAD, table.rows):
            ago = "never" if table.vacuumed is None else f"{table.vacuumed / 60:,.0f} minutes ago"
            found = (
                f"table {table.name} has {table.dead_rows:,} dead rows and {table.rows:,} others, "
                f"in {table.size / 1e6:,.0f} MB; last vacuumed: {ago}"
            )
            yield warn(found, "A long transaction keeps them, or autovacuum is too slow")
    if state.transaction_age > 2 * state.freeze_age:
        share = state.transaction_age / WRAPAROUND
        found = f"the oldest transaction ID has {share:.0%} of the age at which writes stop"
        advice = "Autovacuum does not keep up: find old transactions, then run VACUUM (FREEZE)"
        yield (fail if share > 0.7 else warn)(found, advice)
