"""What is reported while the embedded store is opened: damage after an end without closing, a file
without content, and another process that has it locked.

Rule: none of it ends the start. A damaged store is served as far as it can be read, since that is
more than nothing; one that cannot be opened at all ends it, with a line of its own.
"""

import asyncio
import os
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, TypeVar

from autopush.settings import Settings
from autopush.telemetry import logs
from keytables import Unavailable
from keytables.stores import SqliteUrl, parse_store

NOTICE_AFTER: Final = 1.0
"""Seconds of waiting after which it is logged."""
DAMAGE_ADVICE: Final = (
    "run autopush check, then restore a backup; it is served as far as it is read"
)
LOG_ADVICE: Final = (
    "nothing is to be done: this start drops what cannot be read, the messages that were accepted "
    "last, and acks"
)
EMPTY_ADVICE: Final = "if there were user agents in it, stop the service and restore a backup"
INCOMPLETE_ADVICE: Final = "run autopush check, which reads all of it"

_LOCKS: Final = Path("/proc/locks")
_LOCK_FILES: Final = ("", "-shm", "-open", "-turn", "-queue")
"""Endings of the files beside a store on which processes have locks."""

_log: Final = logs.get(__name__)

T = TypeVar("T")


def report_empty_file(settings: Settings) -> None:
    """Log that the file of an embedded store exists and is empty: it becomes a new store."""
    place = parse_store(settings.store_url)
    if not isinstance(place, SqliteUrl):
        return
    with suppress(OSError):
        is_empty = os.path.getsize(place.path) == 0
        # A process that makes a new store at this moment has its locks.
        if is_empty and not os.path.exists(f"{place.path}-wal") and not lock_holders(place.path):
            _log.warning(
                "The file of the store is empty: it becomes a new store",
                store=settings.store_place,
                advice=EMPTY_ADVICE,
            )


def report_damage(settings: Settings) -> None:
    """Check an embedded store which its last user did not close, and log what is damaged. Blocks,
    for about `store_check_timeout` seconds.
    """
    place = parse_store(settings.store_url)
    if not isinstance(place, SqliteUrl) or not settings.store_check_timeout:
        return
    from keytables.sqlite import check_store  # noqa: PLC0415 - a node on DynamoDB may lack it

    store, began = settings.store_place, monotonic()
    # Opening it, a moment later, reports all else that is wrong with it, and waits for a lock.
    with suppress(Unavailable):
        if not check_store(place.path, timeout=0).is_unclean:
            return
        found = check_store(place.path, timeout=settings.store_check_timeout)
        for damage in found.damage:
            advice = LOG_ADVICE if damage == found.log_damage else DAMAGE_ADVICE
            _log.error("The store is damaged", store=store, damage=damage, advice=advice)
        seconds = round(monotonic() - began, 1)
        if not found.is_complete:
            event = "The store was not closed, and too large to be checked in the time"
            _log.warning(event, store=store, seconds=seconds, advice=INCOMPLETE_ADVICE)
        elif not found.damage:
            _log.info("The store was not closed, and is not damaged", store=store, seconds=seconds)


async def with_notice(opening: Awaitable[T], settings: Settings) -> T:
    """The result of opening the store; if that takes a while, who has it locked is logged."""
    task = asyncio.ensure_future(opening)
    try:
        await asyncio.wait([task], timeout=NOTICE_AFTER)
        place = parse_store(settings.store_url)
        if not task.done() and isinstance(place, SqliteUrl):
            _log.warning(
                "Waiting for another process that has the store locked",
                store=settings.store_place,
                locked_by=lock_holders(place.path),
            )
        return await task
    finally:
        task.cancel()


def lock_holders(path: str) -> list[str]:
    """The other processes that have locks on the store at `path`: their names and ids, as far as
    this one may know them. Empty where the system is not Linux.
    """
    inodes: set[int] = set()
    for ending in _LOCK_FILES:
        with suppress(OSError):
            inodes.add(os.stat(f"{path}{ending}").st_ino)
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return []
    pids: dict[int, None] = {}
    for line in lines:
        # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:10010671 0 EOF; with "->" of one that waits
        fields = line.split()
        if "->" in fields or len(fields) < 6:
            continue
        pid, inode = fields[4], fields[5].rpartition(":")[2]
        if pid.isdigit() and inode.isdigit() and int(inode) in inodes and int(pid) != os.getpid():
            pids[int(pid)] = None
    return [f"{_name_of(pid)} (pid {pid})" for pid in pids]


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "a process"
