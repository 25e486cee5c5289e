"""One run at a time writes messages: the row `writer` of Configuration says which.

Rule: whoever writes holds the lease and renews it; who cannot renew it stops. It is taken from
nobody but a run that is dead: its process is gone from this machine, or it was long not renewed.

    writer   owner, since, renewed (seconds), place (machine and its process IDs), pid
"""

import asyncio
import hashlib
import os
import platform
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

from channelstats.tables.attributes import number, text
from keytables import (
    Attr,
    Clock,
    ConditionFailed,
    Item,
    KeytablesError,
    Param,
    TableHandle,
    Update,
    Value,
)

RENEWED_EVERY: Final = 20.0
STALE_AFTER: Final = 180
"""Seconds. In between there is time for a database that is away and a loop that is busy."""

_KEY: Final = ("writer",)
_TAKE: Final = Update(set=("owner", "since", "renewed", "place", "pid"))
_RENEW: Final = Update(set=("renewed",))
_MINE: Final = Attr("owner") == Param("owner")
_FREE: Final = (
    Attr("owner").absent()
    | (Attr("owner") == Param("owner"))
    | (Attr("owner") == Param("dead"))
    | (Attr("renewed") < Param("stale"))
    | (Attr("renewed") > Param("absurd"))
)
_DIGITS: Final = 16

Pause = Callable[[float], Awaitable[None]]


class Taken(Exception):  # noqa: N818 - named for what happened
    """Another run writes, or this one has lost its lease; the text is one line."""


class WriterLease:
    """A context in which no other run writes. ``table`` is Configuration.

    Entering it raises Taken while another run is alive; leaving it does when the lease was lost
    meanwhile, in which case what was going on in it was cancelled.
    """

    def __init__(self, table: TableHandle, clock: Clock, pause: Pause = asyncio.sleep) -> None:
        self._table, self._clock, self._pause = table, clock, pause
        self._owner = token_hex(8)
        self._renewing: asyncio.Task[None] | None = None
        self._lost = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        await self._take()
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
        await asyncio.gather(self._renewing, return_exceptions=True)
        if self._lost:
            task = asyncio.current_task()
            if task is not None and kind is asyncio.CancelledError:
                task.uncancel()
            raise Taken("another import or sync took over; run this again when it is over")
        await self._release()

    async def _take(self) -> None:
        dead = ""
        while True:
            now = int(self._clock())
            values: dict[str, Value] = {
                "owner": self._owner,
                "since": now,
                "renewed": now,
                "place": place(),
                "pid": os.getpid(),
                "dead": dead,
                "stale": now - STALE_AFTER,
                "absurd": now + STALE_AFTER,
            }
            try:
                await self._table.update(_KEY, _TAKE, values, condition=_FREE)
            except ConditionFailed as error:
                found = error.item or {}
                if text(found, "owner") != dead and _is_dead(found):
                    dead = text(found, "owner")
                    continue
                raise Taken(_busy(found)) from None
            return

    async def _keep(self, holder: asyncio.Task[object]) -> None:
        """Renew the lease; when it is lost, cancel the task that holds it."""
        renewed = self._clock()
        while True:
            await self._pause(RENEWED_EVERY)
            try:
                now = self._clock()
                values: dict[str, Value] = {"owner": self._owner, "renewed": int(now)}
                await self._table.update(_KEY, _RENEW, values, condition=_MINE)
                renewed = now
            except ConditionFailed:
                break
            except KeytablesError:
                if self._clock() - renewed > STALE_AFTER / 2:
                    break
        self._lost = True
        holder.cancel()

    async def _release(self) -> None:
        try:
            await self._table.delete(_KEY, condition=_MINE, values={"owner": self._owner})
        except ConditionFailed:
            return  # it is another's by now, and none of ours any more


async def is_held(table: TableHandle, clock: Clock) -> bool:
    """Whether a run that is alive, as far as anybody can tell, writes now."""
    found = await table.get(_KEY)
    if found is None or _is_dead(found):
        return False
    return abs(clock() - (number(found, "renewed") or 0)) <= STALE_AFTER


def _busy(found: Item) -> str:
    since = datetime.fromtimestamp(number(found, "since") or 0, UTC)
    return (
        f"another import or sync has been writing since {since:%Y-%m-%d %H:%M:%S} UTC; "
        "run this again when it is over"
    )


def _is_dead(found: Item) -> bool:
    """Whether the process of a lease ran here and is no more."""
    pid = number(found, "pid")
    if os.name != "posix" or not pid or text(found, "place") != place():
        return False
    try:
        os.kill(pid, 0)  # asks, and does nothing
    except ProcessLookupError:
        return True
    except OSError:
        return False  # somebody else's process is alive too
    return False


def place() -> str:
    """What tells where a process ID means the same: the machine, since it was started, and the
    namespace of its processes.
    """
    about = [platform.node()]
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists():
        about.append(boot.read_text())
    if namespace.exists():
        about.append(str(namespace.stat().st_ino))
    return hashlib.sha256("\n".join(about).encode()).hexdigest()[:_DIGITS]
