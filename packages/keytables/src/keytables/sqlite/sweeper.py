"""Removing expired items.

The one rule: it is never in anyone's way. Expired items are invisible already, so they go a few at
a time, between other writes, and processes that share a file do it at different moments.

A sweep must go faster than items can expire, or the file grows: so while it finds as much as it
takes, it goes on at once. A transaction of it still holds less than one of other writes may, and
the loop has its turn between two writes.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final

from keytables.errors import KeytablesError

__all__ = ["AT_ONCE", "BATCH", "Sweeper"]

BATCH: Final = 50
"""Rows of one write: about 0.3 ms."""

AT_ONCE: Final = 4
"""Writes submitted together: about 1.5 ms of the turn."""

_PAUSE: Final = 0.01
"""Seconds until a last look for more, once little was found."""


class Sweeper:
    """Calls ``sweep_some`` about every ``interval`` seconds, and on while it has more to do.

    ``sweep_some`` removes at most ``BATCH * AT_ONCE`` rows and returns how many. There is one
    timer.
    """

    __slots__ = ("_interval", "_loop", "_sweep_some", "_task", "_timer")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sweep_some: Callable[[], Awaitable[int]],
        interval: float,
    ) -> None:
        self._loop, self._sweep_some, self._interval = loop, sweep_some, interval
        self._task: asyncio.Task[None] | None = None
        self._arm()

    def _arm(self) -> None:
        pause = self._interval * random.uniform(0.5, 1.5)  # noqa: S311 - spreads processes out
        self._timer = self._loop.call_later(pause, self._start)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._sweep())

    async def _sweep(self) -> None:
        # A store that cannot be written tells those who write; the sweep comes round again.
        with contextlib.suppress(KeytablesError):
            while count := await self._sweep_some():
                if count < BATCH * AT_ONCE:
                    await asyncio.sleep(_PAUSE)
        self._arm()

    async def close(self) -> None:
        """Stop; wait for the write that is on its way."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._timer.cancel()
