"""A lease, held in one row of a table: of all processes that share it, one at a time does the work.

Rule: a lease that is not renewed ends, so a holder that died is replaced; a holder that lost it
stops. The work itself must tolerate two holders at once: a process may be suspended for longer than
its lease, and notices only when it continues.

    holder       a random name that each `Lease` makes for itself
    held_until   seconds since the epoch
    since        seconds at which the holder acquired it
    place, pid   with ``names_process``: the scope and number of its process

Other attributes of the row stay as they are. Times in the future, left by a clock that was wrong,
are ignored.
"""

import asyncio
import hashlib
import os
import platform
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

from keytables.engine import Clock, TableHandle
from keytables.errors import ConditionFailed, KeytablesError
from keytables.expressions import Attr, Condition, Param, Update
from keytables.values import Item, KeyTuple, Value, Values

RENEWALS: Final = 6
"""Renewals per duration of a lease."""

_ATTRIBUTES: Final = ("holder", "held_until", "since", "place", "pid")
_IS_MINE: Final = Attr("holder") == Param("holder")
_IS_FREE: Final = (
    Attr("holder").absent()
    | _IS_MINE
    | (Attr("holder") == Param("gone"))
    | Attr("held_until").absent()
    | (Attr("held_until") <= Param("now"))
    | (Attr("held_until") > Param("latest"))
)
_IS_NOBODYS: Final = Attr("holder").absent()

Pause = Callable[[float], Awaitable[object]]


class LeaseLost(Exception):  # noqa: N818 - no error
    """Another holder has taken it, or it could not be renewed for too long."""


class Lease:
    """One holder's lease of the work that a row stands for.

    Acquire, renew and release it; or enter it as a context once it is acquired, which renews it in
    the background and releases it at the end. When it is lost, the task in the context is
    cancelled, and leaving the context raises :class:`LeaseLost`. Call :meth:`confirm` right before
    work that must not be done twice: a suspended process continues before its renewal notices the
    loss.

    ``seconds``: its duration without renewal. ``names_process``: it is free at once when its
    holder's process ran on this machine and is gone; not for work that outlives the process. Every
    method may fail as a write to the table does.
    """

    def __init__(
        self,
        table: TableHandle,
        key: KeyTuple,
        clock: Clock,
        *,
        seconds: int,
        names_process: bool = False,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._table, self._key, self._clock = table, key, clock
        self._seconds, self._pause = seconds, pause
        self._holder = token_hex(16)
        self._about: dict[str, Value] = (
            {"place": place(), "pid": os.getpid()} if names_process else {}
        )
        self._held_until = 0.0
        self._renewing: asyncio.Task[None] | None = None
        self._is_lost = False

    async def acquire(self, also: Condition | None = None, values: Values | None = None) -> bool:
        """Acquire it if it is free and the row fulfils ``also``; return whether it is now held."""
        now = int(self._clock())
        claim = {
            "holder": self._holder,
            "held_until": now + self._seconds,
            "since": now,
            **self._about,
        }
        given = {**(values or {}), **claim, "now": now, "latest": now + self._seconds, "gone": ""}
        condition = _IS_FREE if also is None else _IS_FREE & also
        while True:
            try:
                await self._table.update(
                    self._key, Update(set=tuple(claim)), given, condition=condition
                )
            except ConditionFailed as error:
                row = error.item or {}
                if row.get("holder") == given["gone"] or not _is_process_gone(row):
                    return False
                given["gone"] = row.get("holder")
            else:
                self._held_until = now + self._seconds
                return True

    async def renew(self, noted: Values | None = None) -> bool:
        """Extend it and set attributes of the row (None removes one); return whether it is held."""
        until = int(self._clock()) + self._seconds
        if not await self._write({**(noted or {}), "held_until": until}):
            return False
        self._held_until = until
        return True

    async def confirm(self) -> None:
        """Renew it, unless it is held for at least half its duration anyway. Raises LeaseLost."""
        if self._is_due() and not await self.renew():
            raise LeaseLost

    def _is_due(self) -> bool:
        return self._held_until - self._clock() < self._seconds / 2

    async def release(self, noted: Values | None = None) -> bool:
        """Release it; attributes as in :meth:`renew`. Returns whether it was still held."""
        if not await self._write({**(noted or {}), **dict.fromkeys(_ATTRIBUTES)}):
            return False
        # A row that holds nothing but its key is deleted.
        left = await self._table.get(self._key) or {}
        if len(left) == len(self._key):
            with suppress(ConditionFailed):  # acquired by another holder
                await self._table.delete(self._key, condition=_IS_NOBODYS)
        return True

    async def held_since(self) -> int | None:
        """Return when its holder acquired it, in seconds since the epoch; None: it is free."""
        row = await self._table.get(self._key) or {}
        until, since, now = row.get("held_until"), row.get("since"), int(self._clock())
        if "holder" not in row or not isinstance(until, int | float):
            return None
        if not now < until <= now + self._seconds or _is_process_gone(row):
            return None
        return int(since) if isinstance(since, int | float) else now

    async def _write(self, noted: Values) -> bool:
        given = {name: value for name, value in noted.items() if value is not None}
        update = Update(set=tuple(given), remove=tuple(noted.keys() - given.keys()))
        try:
            await self._table.update(
                self._key, update, {**given, "holder": self._holder}, condition=_IS_MINE
            )
        except ConditionFailed:
            return False
        return True

    # ── as a context ─────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._is_lost = False
        self._renewing = asyncio.create_task(self._keep(task))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._renewing is not None
        self._renewing.cancel()
        try:
            await asyncio.wait([self._renewing])
        except asyncio.CancelledError:
            if not self._is_lost:
                raise
        if not self._is_lost:
            await self.release()
            return
        task = asyncio.current_task()
        is_cancelled_besides = task is not None and task.uncancel() > 0
        if not (is_cancelled_besides and kind is asyncio.CancelledError):
            raise LeaseLost

    async def _keep(self, holder: asyncio.Task[object]) -> None:
        """Renew it periodically; cancel the holder's task when it is lost."""
        while True:
            await self._pause(self._seconds / RENEWALS)
            try:
                if not await self.renew():
                    break
            except KeytablesError:  # may be temporary
                if self._is_due():
                    break
        self._is_lost = True
        holder.cancel()


def _is_process_gone(row: Item) -> bool:
    """Whether the holder's process ran on this machine and has ended."""
    pid = row.get("pid")
    if os.name != "posix" or not isinstance(pid, int) or pid <= 0 or row.get("place") != place():
        return False
    try:
        os.kill(pid, 0)  # signal 0: only a check
    except ProcessLookupError:
        return True
    except OSError:
        return False  # no permission: the process of another user
    return False


@cache
def place() -> str:
    """Return a digest of the scope of process IDs: machine, boot and PID namespace."""
    about = [platform.node()]
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists():
        about.append(boot.read_text())
    if namespace.exists():
        about.append(str(namespace.stat().st_ino))
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:16]
