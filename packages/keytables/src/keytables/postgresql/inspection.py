"""What an operator should know of a server: its settings, connections, standbys and tables.

It only reads, and needs no right but to connect; what a role may not see is left out.
"""

import time
from typing import Any, Final, Protocol

import msgspec

from keytables.engine import Clock
from keytables.postgresql.connections import Connector, Session

_SERVER: Final = """
SELECT current_setting('server_version_num')::int / 10000 AS version,
       current_setting('server_version') AS release,
       extract(epoch FROM clock_timestamp())::float8 AS time,
       least(current_setting('max_connections')::int
             - current_setting('superuser_reserved_connections')::int
             - coalesce(current_setting('reserved_connections', true)::int, 0),  -- since 16
             nullif(rolconnlimit, -1), nullif(datconnlimit, -1)) AS max_connections,
       (SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) AS used_connections,
       current_setting('fsync')::bool AS fsync,
       current_setting('full_page_writes')::bool AS full_page_writes,
       current_setting('autovacuum')::bool AS autovacuum,
       current_setting('synchronous_standby_names') <> '' AS waits_for_standby,
       age(datfrozenxid)::bigint AS transaction_age,
       current_setting('autovacuum_freeze_max_age')::bigint AS freeze_age
FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = current_user
"""

_STANDBYS: Final = """
SELECT application_name AS name, coalesce(state, '') AS state,
       coalesce(sync_state IN ('sync', 'quorum'), false) AS is_synchronous,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), 0)::bigint AS behind
FROM pg_stat_replication ORDER BY application_name
"""

_SLOTS: Final = """
SELECT slot_name AS name,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint AS kept
FROM pg_replication_slots WHERE NOT active ORDER BY slot_name
"""

_TABLES: Final = """
SELECT relname AS name, n_live_tup AS rows, n_dead_tup AS dead_rows,
       pg_total_relation_size(relid) AS size,
       extract(epoch FROM now() - greatest(last_autovacuum, last_vacuum))::float8 AS vacuumed
FROM pg_stat_user_tables WHERE schemaname = $1 ORDER BY relname
"""


class Standby(msgspec.Struct, frozen=True):
    """``behind``: bytes of the log that it has not replayed."""

    name: str
    state: str
    is_synchronous: bool
    behind: int


class UnusedSlot(msgspec.Struct, frozen=True):
    """A replication slot that nobody reads. ``kept``: bytes of the log kept for it."""

    name: str
    kept: int


class TableState(msgspec.Struct, frozen=True):
    """As the server estimates it. ``size``: bytes, with indexes; ``vacuumed``: seconds ago."""

    name: str
    rows: int
    dead_rows: int
    size: int
    vacuumed: float | None


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """``ahead``: seconds by which its clock is ahead of ours. ``max_connections``: for this role in
    this database; ``used_connections``: of all, without the one that asked. ``transaction_age``: of
    the oldest transaction ID that is not frozen; from ``freeze_age`` on it is vacuumed for that.
    """

    version: int
    release: str
    ahead: float
    max_connections: int
    used_connections: int
    fsync: bool
    full_page_writes: bool
    autovacuum: bool
    waits_for_standby: bool
    transaction_age: int
    freeze_age: int
    standbys: tuple[Standby, ...]
    unused_slots: tuple[UnusedSlot, ...]
    tables: tuple[TableState, ...]


class ServerAddress(Protocol):
    """See :class:`keytables.stores.PostgresUrl`."""

    @property
    def url(self) -> str: ...
    @property
    def schema(self) -> str: ...
    @property
    def settings(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def connect_timeout(self) -> float: ...


async def inspect_server(store: ServerAddress, clock: Clock = time.time) -> ServerState:
    """Connect and ask. Errors: those of a connection, and Unavailable."""
    connector = Connector(store.url, dict(store.settings), store.connect_timeout)
    session = await connector.connect()
    try:
        before = clock()
        [server] = await _rows(session, _SERVER)
        ahead = server.pop("time") - (before + clock()) / 2
        lists = {
            "standbys": await _rows(session, _STANDBYS),
            "unused_slots": await _rows(session, _SLOTS),
            "tables": await _rows(session, _TABLES, store.schema),
        }
    finally:
        await session.close()
    return msgspec.convert({**server, "ahead": ahead, **lists}, ServerState)


async def _rows(session: Session, sql: str, *values: object) -> list[dict[str, Any]]:
    return [dict(row) for row in await session.fetch(sql, *values)]
