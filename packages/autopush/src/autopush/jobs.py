"""Background work: repeated jobs, and a rate limiter that gives way to requests."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from autopush.clock import Clock
from autopush.telemetry import logs
from keytables import Throttled
from keytables.retries import Backoff

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

ATTEMPTS: Final = 8
LONGEST_PAUSE: Final = 30.0
PAUSES: Final = Backoff(1.0, LONGEST_PAUSE, jitter=0.5)
_RECOVERY: Final = 1.05
_SLOWEST: Final = 1.0

_log: Final = logs.get(__name__)


async def repeat(
    job: Callable[[], Awaitable[None]],
    pause: Callable[[], float],
    name: str,
    *,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Repeat a job until cancelled, `pause()` seconds apart; log its exceptions under `name`."""
    while True:
        try:
            await job()
        except Exception as error:  # noqa: BLE001 - see above
            _log.exception("Unexpected error", error=error, where=name)
        await sleep(pause())


class RateLimiter:
    """Paces background work on the store: a call refused with Throttled is retried after a pause
    and halves the rate, and each success raises it a little.

    `rate`: units a second; `clock`: seconds from any origin.
    """

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

        :raises Throttled: by the last of several attempts, about a minute in all
        """
        for failures in range(1, ATTEMPTS):
            try:
                result = await call()
            except Throttled:
                self._slow_down()
                await self._sleep(PAUSES.delay(failures))
            else:
                self.rate = min(self._limit, self.rate * _RECOVERY)
                return result
        return await call()

    def _slow_down(self) -> None:
        # Calls made together are refused together: that counts as one refusal.
        now = self._clock()
        if now >= self._slowed_until:
            self.rate = max(min(self.rate, _SLOWEST), self.rate / 2)
            self._slowed_until = now + PAUSES.first / 2
