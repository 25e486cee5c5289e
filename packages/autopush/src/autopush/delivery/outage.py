"""Noticing that this node was out of touch, and reading what it was not notified of meanwhile.

A node that could not notify this one of a stored message repeats the call until it is answered, but
may die before. So a node that was stopped, or cut off from the store, checks by itself whether
something is stored for the user agents that stayed connected to it.

Rule: the check comes later than any node may have stored a message without notifying this one, and
is spread over time.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from autopush.clock import Clock
from autopush.delivery.connected import ConnectedUser, Registry
from autopush.store.rate_limiter import RateLimiter, Sleep
from autopush.telemetry import logs
from keytables import KeytablesError, Throttled, Unavailable

INTERVAL: Final = 1.0
"""Seconds from one probe to the next."""
TOLERANCE: Final = 1.0
"""A probe that is so many seconds late means that others waited for an answer too."""
QUIET_PERIOD: Final = 10.0
"""Seconds after which no node stores a message any more because this one did not answer."""
USERS_PER_SECOND: Final = 200

_log = logs.get(__name__)


class OutageRecovery:
    """See the module.

    `probe` reads something from the store, to see that it answers; None for a store that cannot be
    out of reach. `now` and `sleep` are of one monotonic clock.
    """

    def __init__(
        self,
        registry: Registry,
        probe: Callable[[], Awaitable[object]] | None,
        *,
        now: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._registry = registry
        self._probe = probe
        self._now = now
        self._sleep = sleep
        self._outage_at: float | None = None  # when this node was last out of touch
        self._checking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                await self._watch()
        finally:
            if self._checking is not None:
                self._checking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._checking

    async def _watch(self) -> None:
        began = self._now()
        answered = await self._store_answers()
        await self._sleep(INTERVAL)
        now = self._now()
        if not answered or now > began + INTERVAL + TOLERANCE:
            self._outage_at = now
            return
        is_idle = self._checking is None or self._checking.done()
        if self._outage_at is not None and now >= self._outage_at + QUIET_PERIOD and is_idle:
            self._outage_at = None
            self._checking = asyncio.ensure_future(self._check_all())

    async def _store_answers(self) -> bool:
        if self._probe is not None:
            try:
                await self._probe()
            except KeytablesError:
                return False
        return True

    async def _check_all(self) -> None:
        users = list(self._registry.sockets)
        _log.info("This node was out of touch: checking storage", users=len(users))
        limiter = RateLimiter(USERS_PER_SECOND, clock=self._now, sleep=self._sleep)
        found = 0
        for user in users:
            await limiter.acquire(1)
            try:
                if await limiter.with_retries(partial(_has_stored, user)):
                    found += 1
                    user.check_storage()
            except (Throttled, Unavailable):
                self._outage_at = self._now()
                return
            except KeytablesError:
                user.check_storage()  # the session decides whether to read
        _log.info("Checked storage after an outage", found=found)


async def _has_stored(user: ConnectedUser) -> bool:
    """Asked here and not by the session, which has to end when the store is too busy for it."""
    if user.uaid is None or not user.is_recorded or not user.is_connected:
        return False
    return bool((await user.messages.read(user.uaid, None)).messages)
