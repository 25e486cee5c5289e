"""Looking for a new week from time to time, as long as the dashboard runs.

Rule: what goes wrong is logged, and the next look is taken all the same.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from channelstats.notifications.announcing import Sleep, Told, announce
from channelstats.notifications.weeks import newest_week
from channelstats.settings import Settings
from channelstats.stats import Period
from channelstats.tables import Tables
from keytables import Clock

EVERY: Final = 600
"""Seconds between two looks."""

_log: Final = logging.getLogger("channelstats.notifications")


class Announcer:
    """See the module."""

    def __init__(
        self, tables: Tables, settings: Settings, *, clock: Clock, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._tables, self._settings = tables, settings
        self._clock, self._sleep = clock, sleep
        self._done: Period | None = None

    async def look(self) -> Told | None:
        """Announce the newest week that is there; None where there is nothing to do."""
        week = await newest_week(self._tables, self._settings, self._clock)
        if week is None or week == self._done:
            return None
        told = await announce(
            self._tables, week, self._settings, clock=self._clock, sleep=self._sleep
        )
        if not told.left:
            self._done = week
        return told

    async def run(self) -> None:
        """Look now, and again and again."""
        while True:
            try:
                told = await self.look()
            except Exception:  # noqa: BLE001 - a fault of today must not silence next week
                _log.exception("the new week could not be announced")
            else:
                if told is not None and (told.told or told.left or told.removed):
                    _log.info("%s", told)
            await self._sleep(EVERY)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run as a task of its own."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
