"""What of a store is damaged, in words.

Rule: nothing is changed, and no process writes meanwhile unless one had the store open before: for
SQLite the first damaged frame of the log is its end, and the next write overwrites what is behind.
"""

import os
import re
import struct
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
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

_MAX_FAULTS: Final = 100
"""Faults of one table that SQLite is asked for."""

_INTERRUPT_INTERVAL: Final = 100_000
"""Instructions of SQLite between two looks at the clock. While it looks, Python can raise what a
signal leads to."""

_UNREADABLE: Final = "it cannot be read"

_EMPTY: Final = "the file is empty: it has no tables"

_LOG_HEADER: Final = 32
_FRAME_HEADER: Final = 24

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
    log = Path(f"{path}-wal")
    damage: list[str] = []
    log_damage = ""
    try:
        with closing(UsageLock(path)) as usage:
            is_in_use = not usage.try_exclude()
            if is_in_use and not usage.try_share():
                raise StoreLocked(f"{path} is being restored or checked")
            is_unclean = not is_in_use and log.exists() and log.stat().st_size > 0
            if not is_in_use and not os.path.getsize(path):
                # SQLite would delete the log of an empty file, even to read it.
                return StoreCheck((_EMPTY,), is_unclean=is_unclean)
            with closing(open_to_read(path)) as connection:
                with suppress(apsw.NotADBError, apsw.CorruptError):  # found again below
                    check_owner(connection, path)
                    if is_unclean:
                        log_damage = _log_damage(connection, log)
                if log_damage:
                    damage.append(log_damage)
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
        is_complete=is_complete,
        is_unclean=is_unclean,
        is_in_use=is_in_use,
    )


def _log_damage(connection: apsw.Connection, log: Path) -> str:
    """Say how many transactions of the log SQLite does not read, as they are behind a frame that is
    damaged; empty if there are none. One may be what was being written when the power was cut.

    The format is that of https://sqlite.org/fileformat2.html#walformat: a header of 32 bytes with
    two salts, then frames, each of 24 bytes and a page. A frame with other salts was left behind
    when the log started over.
    """
    page_size: int = connection.execute("PRAGMA page_size").get
    frames_read, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    commits: list[int] = []
    with log.open("rb") as file:
        header = file.read(_LOG_HEADER)
        salts = header[16:24] if _is_sound(header) else file.read(16)[8:]
        for number in range((log.stat().st_size - _LOG_HEADER) // (_FRAME_HEADER + page_size)):
            file.seek(_LOG_HEADER + number * (_FRAME_HEADER + page_size))
            frame = file.read(_FRAME_HEADER)
            # Of the last frame of a transaction, bytes 4 to 8 are the size of the file.
            if frame[8:16] == salts != bytes(8) and any(frame[4:8]):
                commits.append(number)
    lost = sum(number >= frames_read for number in commits)
    if lost < 2:
        return ""
    return f"the log is damaged: of its {len(commits)} transactions the last {lost} cannot be read"


def _is_sound(header: bytes) -> bool:
    """Whether the header of a log has the checksum that is written in it."""
    if len(header) < _LOG_HEADER:
        return False
    order = ">" if header[3] & 1 else "<"
    words = struct.unpack(f"{order}6I", header[:24])
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return header[24:] == struct.pack(">2I", first, second)


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
            if monotonic() > deadline:
                return False
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


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
