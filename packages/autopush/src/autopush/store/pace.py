"""The speed of work nobody waits for: so many a second, fewer while the store is overloaded.

Rule: it is never in the way of those who are waiting. What the store refuses for being too busy is
tried again after a pause, at half the speed; that comes back slowly.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from autopush.clock import Clock
from keytables import Throttled

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

TRIES: Final = 8
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
_RECOVERY: Final = 1.05
_SLOWEST: Final = 1.0


class Pace:
    """Spaces work out. `rate`: things a second; `clock` need not tell the time of day."""

    def __init__(
        self, rate: float, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._limit = self.rate = rate
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()
        self._slowed_until = clock()

    async def wait_for(self, count: int) -> None:
        """Wait until `count` more may be done; the time they take is owed by the next ones."""
        now = self._clock()
        if now < self._free_at:
            await self._sleep(self._free_at - now)
            now = self._clock()
        self._free_at = max(now, self._free_at) + count / self.rate

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that may be repeated, and repeat it while the store is too busy.

        :raises Throttled: it still was at the last of several tries, about a minute in all
        """
        for number in range(TRIES - 1):
            try:
                answer = await call()
            except Throttled:
                self._slow_down()
                longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**number)
                pause = longest * random.uniform(0.5, 1)  # noqa: S311 - spreads load
                await self._sleep(pause)
            else:
                self.rate = min(self._limit, self.rate * _RECOVERY)
                return answer
        return await call()

    def _slow_down(self) -> None:
        # Calls made together are refused together: that is one refusal.
        now = self._clock()
        if now >= self._slowed_until:
            self.rate = max(min(self.rate, _SLOWEST), self.rate / 2)
            self._slowed_until = now + FIRST_PAUSE / 2
