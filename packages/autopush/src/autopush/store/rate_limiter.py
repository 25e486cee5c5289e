"""Limits the rate of background work on the store, and backs off while the store is overloaded.

Rule: background work gives way to requests. A call that is refused with Throttled is retried after
a pause with jitter, and the rate is halved; each success raises it again a little.
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

ATTEMPTS: Final = 8
FIRST_PAUSE: Final = 1.0
"""Seconds, doubled with each attempt."""
LONGEST_PAUSE: Final = 30.0
_RECOVERY: Final = 1.05
_SLOWEST: Final = 1.0


class RateLimiter:
    """`rate`: units a second; `clock`: seconds since any moment."""

    def __init__(
        self, rate: float, *, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._limit = self.rate = rate
        self._clock = clock
        self._sleep = sleep
        self._free_at = clock()
        self._slowed_until = clock()

    async def acquire(self, count: int) -> None:
        """Wait until the units acquired before are used up, then take `count` more."""
        now = self._clock()
        if now < self._free_at:
            await self._sleep(self._free_at - now)
            now = self._clock()
        self._free_at = max(now, self._free_at) + count / self.rate

    async def with_retries(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make an idempotent call, and retry it while the store is overloaded.

        :raises Throttled: at the last of several attempts, about a minute in all
        """
        for attempt in range(ATTEMPTS - 1):
            try:
                result = await call()
            except Throttled:
                self._slow_down()
                longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**attempt)
                pause = longest * random.uniform(0.5, 1)  # noqa: S311 - spreads load
                await self._sleep(pause)
            else:
                self.rate = min(self._limit, self.rate * _RECOVERY)
                return result
        return await call()

    def _slow_down(self) -> None:
        # Calls made together are refused together: that counts as one refusal.
        now = self._clock()
        if now >= self._slowed_until:
            self.rate = max(min(self.rate, _SLOWEST), self.rate / 2)
            self._slowed_until = now + FIRST_PAUSE / 2
