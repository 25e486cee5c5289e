"""Noticing that this node was out of touch, and looking for what it was not told of meanwhile.

Rule: whoever could not tell this node of a stored message asks again until it answers, but may die
before. So a node that was stopped, or cut off from the store, looks by itself whether something is
stored for the user agents that stayed connected to it: later than anybody may have stored it
unheard, and slowly.
"""

import asyncio
import contextlib
import time
from functools import partial
from typing import Final

from autopush.clock import Clock
from autopush.connection.registry import Registry
from autopush.connection.user_agent import UserAgentConnection
from autopush.store import PushStore
from autopush.store.push_store import UNUSED_UAID
from autopush.store.rate_limiter import RateLimiter, Sleep
from autopush.telemetry import logs
from keytables import KeytablesError, Throttled, Unavailable

BEAT: Final = 1.0
"""Seconds from one look at the own pulse to the next."""
LATE: Final = 1.0
"""A beat that takes so many seconds too long means that others waited for an answer too."""
SETTLED: Final = 10.0
"""Seconds after which nobody stores a message any more because this node did not answer."""
USERS_A_SECOND: Final = 200

_log = logs.get(__name__)


class Lookout:
    """See the module. `now` and `sleep` are of one steady clock."""

    def __init__(
        self,
        registry: Registry,
        store: PushStore,
        *,
        now: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._registry = registry
        self._store = store
        self._now = now
        self._sleep = sleep
        self._missed: float | None = None  # when this node was last out of touch
        self._looking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """For ever; cancel it."""
        try:
            while True:
                await self._beat()
        finally:
            if self._looking is not None:
                self._looking.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._looking

    async def _beat(self) -> None:
        began = self._now()
        answered = await self._store_answers()
        await self._sleep(BEAT)
        now = self._now()
        if not answered or now > began + BEAT + LATE:
            self._missed = now
        elif self._missed is not None and now >= self._missed + SETTLED and not self._is_looking:
            self._missed = None
            self._looking = asyncio.ensure_future(self._look_for_all())

    @property
    def _is_looking(self) -> bool:
        return self._looking is not None and not self._looking.done()

    async def _store_answers(self) -> bool:
        try:
            await self._store.users.get(UNUSED_UAID)
        except KeytablesError:
            return False
        return True

    async def _look_for_all(self) -> None:
        connections = list(self._registry.sockets)
        _log.info("This node was out of touch: looking for what it missed", users=len(connections))
        limiter = RateLimiter(USERS_A_SECOND, clock=self._now, sleep=self._sleep)
        found = 0
        for connection in connections:
            await limiter.acquire(1)
            try:
                if await limiter.with_retries(partial(_has_stored, connection)):
                    found += 1
                    connection.check_storage()
            except (Throttled, Unavailable):
                self._missed = self._now()
                return
            except KeytablesError:
                connection.check_storage()  # the session knows what to do
        _log.info("Looked for what this node missed", found=found)


async def _has_stored(connection: UserAgentConnection) -> bool:
    """Asked here and not by the session, which has to end when the store is too busy for it."""
    uaid = connection.session.uaid
    if uaid is None or connection.deferred or not connection.here:
        return False
    return bool((await connection.messages.read(uaid, None)).messages)
