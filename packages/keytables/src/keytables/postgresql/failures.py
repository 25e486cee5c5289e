"""Errors of the database and of its connections, as the errors of this package.

Rule: no error text has a password: texts of the client's configuration are not passed on.
"""

import asyncio
from typing import Final

import asyncpg

from keytables.errors import (
    AccessRefused,
    KeytablesError,
    SchemaError,
    StorageFull,
    StoreDamaged,
    TableNotFound,
    Throttled,
    Unavailable,
)


class ConnectionLost(Unavailable):
    """The connection broke, or nothing came back in time. A write may have been applied."""


class NotApplied(Unavailable):
    """The database gave up the transaction. The caller gets Throttled."""


class NotSent(NotApplied):
    """No connection was obtained in time. The caller gets OutOfReach."""


ENDED: Final = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "08000", "08003", "08006"})
"""The server ends the session, or does not begin one: it stops, starts or recovers."""

_READ_ONLY: Final = "25006"
"""The server is a standby by now: another one is the primary."""

_CONFLICTS: Final = frozenset({"40001", "40P01", "40003"})
_TOO_LATE: Final = {
    "57014": "the database canceled a statement that took too long",
    "55P03": "the database did not get a lock in time",
}
_FULL: Final = frozenset({"53100"})
_MISSING: Final = frozenset({"42P01", "3F000", "42703", "42P10", "42704"})
_DAMAGED: Final = frozenset({"XX001", "XX002"})


def translate(error: Exception, operation: str = "", table: str = "") -> KeytablesError:
    """Return the KeytablesError for an error of asyncpg, of the system, or of a timeout."""
    if isinstance(error, KeytablesError):
        return error
    if isinstance(error, asyncpg.PostgresError):
        return _of_server(error, operation, table)
    if isinstance(error, TimeoutError | asyncio.CancelledError):
        return ConnectionLost("the database did not answer in time")
    if isinstance(error, asyncpg.DataError):
        return SchemaError("a value cannot be sent to the database")
    if isinstance(error, OSError):
        reason = error.strerror or type(error).__name__
        return ConnectionLost(f"the connection to the database failed: {reason}")
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return ConnectionLost("the connection to the database is closed")
    return Unavailable(f"the store failed: {type(error).__name__}")


def _of_server(error: "asyncpg.PostgresError", operation: str, table: str) -> KeytablesError:
    state: str = error.sqlstate or ""
    reason = error.args[0] if error.args else type(error).__name__
    if state in ENDED or state == _READ_ONLY or not state:
        return ConnectionLost(f"the database ended the connection: {reason}")
    text = f"the database refused it: {reason}"
    if state in _CONFLICTS:
        return NotApplied(text)
    if state in _TOO_LATE:
        return Throttled(_TOO_LATE[state])
    if state in _FULL:
        return StorageFull("there is no space left on the disk of the database")
    if state in _MISSING and table:
        return TableNotFound(table)
    if state == "42501":
        # A commit changes several tables, so the reason is what names the one concerned.
        right = f"{operation} in SQL ({reason})"
        return AccessRefused(operation or "the statement", table or None, right)
    if state in _DAMAGED:
        return StoreDamaged(text)
    if state == "54000":
        return SchemaError("the keys of the item are too long together for an index of PostgreSQL")
    if state.startswith("22"):
        return SchemaError(text)
    return Unavailable(text)
