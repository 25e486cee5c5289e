"""What of a store is damaged, in words.

Rule: nothing is changed, and no process writes meanwhile unless one had the store open before. The
log is read before SQLite reads it: for SQLite the first damaged frame is its end, and the next
write overwrites what is behind.
"""

import os
import re
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, cast

import apsw

from keytables.errors import Unavailable
from keytables.sqlite.database import (
    StoreLocked,
    check_owner,
    check_sqlite,
    open_to_read,
    reason_of,
)
from keytables.sqlite.locks import UsageLock
from keytables.sqlite.log_file import LogState, is_unclean, read_log

__all__ = ["StoreCheck", "check_store", "find_damage"]

_MAX_FAULTS: Final = 100
"""Faults of one table that SQLite is asked for."""

_INTERRUPT_INTERVAL: Final = 100_000
"""Instructions of SQLite between two looks at the clock. While it looks, Python can raise what a
signal leads to."""

_UNREADABLE: Final = "it cannot be read"

_EMPTY: Final = "the file is empty: it has no tables"

_PAGE: Final = re.compile(r"\bpage (\d+)\b")
_INDEX_FAULT: Final = re.compile(r"missing from index|entries in index|non-unique entry in index")


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """The result of :func:`check_store`.

    ``damage``: what is damaged, a sentence each. ``log_damage``: the one of them that is of the
    log, if there is one: what cannot be read of it is dropped when the store is opened next.
    ``is_complete``: whether all of the store was read in the time. ``is_unclean``: whether the last
    process that had it open did not close it. ``is_in_use``: a process has it open; then its log
    was not checked.
    """

    damage: tuple[str, ...] = ()
    log_damage: str = ""
    is_complete: bool = True
    is_unclean: bool = False
    is_in_use: bool = False


def check_store(path: str | os.PathLike[str], *, timeout: float) -> StoreCheck:
    """Check the store at ``path``, for about ``timeout`` seconds at most. Blocks.

    Processes that open it meanwhile wait. A store that does not exist is not damaged. Raises
    StoreLocked: it is being replaced or checked; Unavailable: it is of another program or a newer
    version, or cannot be read for another reason than damage.
    """
    path = os.fspath(path)
    check_sqlite()
    if not os.path.exists(path):
        return StoreCheck()
    deadline = monotonic() + timeout
    log = f"{path}-wal"
    try:
        with closing(UsageLock(path)) as usage:
            is_in_use = not usage.try_exclude()
            if is_in_use and not usage.try_share():
                raise StoreLocked(f"{path} is being restored or checked")
            state = LogState()
            unclean = not is_in_use and is_unclean(log)
            if unclean:
                state = read_log(log, is_late=lambda: monotonic() > deadline)
            log_damage = _log_damage(state)
            damage = [log_damage] if log_damage else []
            if not is_in_use and not os.path.getsize(path):
                # SQLite would delete the log of an empty file, even to read it.
                return StoreCheck(
                    (*damage, _EMPTY),
                    log_damage=log_damage,
                    is_complete=state.is_complete,
                    is_unclean=unclean,
                )
            with closing(open_to_read(path)) as connection:
                with suppress(apsw.NotADBError, apsw.CorruptError):  # found again below
                    check_owner(connection, path)
                is_complete = find_damage(connection, damage.append, deadline=deadline)
    except apsw.BusyError as error:
        raise StoreLocked(f"cannot check {path}: another process keeps it locked") from error
    except apsw.Error as error:
        raise Unavailable(f"cannot check {path}: {reason_of(error)}") from error
    except OSError as error:
        raise Unavailable(f"cannot check {path}: {error.strerror}") from error
    return StoreCheck(
        tuple(damage),
        log_damage=log_damage,
        is_complete=is_complete and state.is_complete,
        is_unclean=unclean,
        is_in_use=is_in_use,
    )


def find_damage(
    connection: apsw.Connection,
    found: Callable[[str], None],
    *,
    deadline: float = float("inf"),
) -> bool:
    """Call ``found`` with what is damaged in the file, a sentence each.

    Returns whether all of it was read before the ``deadline`` of the monotonic clock. Raises errors
    of SQLite that are no damage.
    """
    connection.set_progress_handler(lambda: monotonic() > deadline, _INTERRUPT_INTERVAL)
    try:
        trees = _trees(connection)
        known = len(trees)
        # Table by table, so that there is a result of some when there is no time for all.
        for table in dict.fromkeys(trees.values()):
            faults = _faults(connection, f"integrity_check({_quoted(table)})")
            if faults:
                known = 0
                found(_table_damage(table, faults))
        # The list of free pages belongs to none of them.
        for fault in _faults(connection, f"quick_check({_MAX_FAULTS})") if known else ():
            found(f"the list of free pages is damaged: {fault}")
            break
    except apsw.NotADBError:
        found("the head of the file is damaged: nothing of it can be read")
    except apsw.CorruptError as error:
        found(f"the list of tables is damaged: nothing can be read ({error})")
    except apsw.InterruptError:
        return False
    finally:
        connection.set_progress_handler(None)
    return True


def _trees(connection: apsw.Connection) -> dict[int, str]:
    """Root pages of tables and indexes to the table, as it is named in the file."""
    rows = connection.execute("SELECT rootpage, tbl_name FROM sqlite_schema WHERE rootpage > 0")
    return {cast(int, page): cast(str, table) for page, table in rows}


def _faults(connection: apsw.Connection, pragma: str) -> list[str]:
    """What a check of SQLite says, a line each; empty if there is nothing."""
    lines: list[str] = []
    try:
        for (text,) in connection.execute(f"PRAGMA {pragma}"):
            lines += str(text).splitlines()
    except apsw.CorruptError:
        lines.append(_UNREADABLE)
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def _table_damage(table: str, faults: list[str]) -> str:
    name = table.rpartition("~")[0] or table
    pages = sorted({int(page) for fault in faults for page in _PAGE.findall(fault)})
    if not pages and all(_INDEX_FAULT.search(fault) for fault in faults):
        return f"table {name!r}: an index does not fit the rows ({faults[0]})"
    place = f" (damaged page {', '.join(map(str, pages[:10]))})" if pages else ""
    return f"table {name!r}: some of its rows cannot be read{place}"


def _log_damage(state: LogState) -> str:
    """Empty if there is none."""
    if state.is_header_damaged:
        return (
            f"the head of the log is damaged: its {_count(state.commits, 'transaction')} "
            f"({_count(state.pages, 'page')}) cannot be read"
        )
    if state.lost_commits:
        return (
            f"the log is damaged: of its {_count(state.commits, 'transaction')} the last "
            f"{state.lost_commits} ({_count(state.lost_pages, 'page')}) cannot be read"
        )
    return ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
