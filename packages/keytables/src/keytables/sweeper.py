"""Calls the removal of expired items periodically.

A timed sweep deletes nothing while the clock may be wrong (:mod:`keytables.clock_guard`). Items
must be removed faster than they can expire, or the store grows: a sweep that finds as many as it
takes continues at once.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final

from keytables.clock_guard import ClockGuard
from keytables.errors import KeytablesError

_PAUSE: Final = 0.01
"""Seconds until the next removal after one that found few."""


class Sweeper:
    """Calls ``remove_some`` about every ``interval`` seconds until it returns 0, despite errors.

    ``full``: it returns as many when more may be left. Errors that are no failure of the database
    go to ``report``; the others are reported where it was read or written.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        remove_some: Callable[[], Awaitable[int]],
        interval: float,
        *,
        full: int,
        guard: ClockGuard,
        report: Callable[[Exception], None],
    ) -> None:
        self._full, self._guard, self._report = full, guard, report
        self._loop, self._remove_some, self._interval = loop, remove_some, interval
        self._task: asyncio.Task[None] | None = None
        self._set_timer()

    def _set_timer(self) -> None:
        delay = self._interval * random.uniform(0.5, 1.5)  # noqa: S311 - not for cryptography
        self._timer = self._loop.call_later(delay, self._start)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._sweep())

    async def _sweep(self) -> None:
        try:
            while not self._guard.jump() and (count := await self._remove_some()):
                if count < self._full:
                    await asyncio.sleep(_PAUSE)
        except KeytablesError:
            pass  # the next sweep tries again
        except Exception as error:  # noqa: BLE001 - without this it would never sweep again
            self._report(error)
        self._set_timer()

    async def close(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._timer.cancel()
