"""How often each method may be called, and how much it gives at once.

Rule: no more calls of a method than its tier allows in any minute; what Slack says about one method
holds only that method. Messages are posted one a second, so that no channel gets more of them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from keytables import Clock

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
"""Waits so many seconds, as `asyncio.sleep` does."""

_MINUTE: Final = 61.0
"""A second more than a minute: calls do not take equally long to get there."""


class AppKind(StrEnum):
    """Whose app a token belongs to. An unlisted one is sold, but not in Slack's Marketplace."""

    INTERNAL = "internal"
    MARKETPLACE = "marketplace"
    UNLISTED = "unlisted"


class Limit(msgspec.Struct, frozen=True):
    """Calls in a minute, or in as many ``seconds``, and items to ask for in one."""

    per_minute: int
    items: int = 0
    seconds: float = _MINUTE


_LIMITS: Final = {
    "users.list": Limit(20, 200),
    "conversations.list": Limit(20, 200),
    "conversations.members": Limit(100, 200),
    "conversations.history": Limit(50, 200),
    "conversations.replies": Limit(50, 200),
    "conversations.join": Limit(50, 1),
    "auth.test": Limit(100, 1),
    "chat.getPermalink": Limit(50),
    "chat.postMessage": Limit(1, seconds=1.0),
    "conversations.info": Limit(50),
    "conversations.leave": Limit(50),
    "conversations.setTopic": Limit(20),
    "files.completeUploadExternal": Limit(100),
    "files.getUploadURLExternal": Limit(100),
}
_UNLISTED: Final = dict.fromkeys(("conversations.history", "conversations.replies"), Limit(1, 15))


def limits(kind: AppKind) -> dict[str, Limit]:
    """The limit of each method."""
    return _LIMITS | _UNLISTED if kind is AppKind.UNLISTED else _LIMITS


class RateLimiter:
    """The turns of one method, in the order they are asked for: so many in a minute, or in as many
    ``seconds``. ``clock`` never goes back.
    """

    def __init__(
        self, per_minute: int, *, clock: Clock, sleep: Sleep, seconds: float = _MINUTE
    ) -> None:
        self._clock, self._sleep, self._seconds = clock, sleep, seconds
        self._taken: deque[float] = deque(maxlen=per_minute)
        self._held_until = 0.0
        self._order = asyncio.Lock()

    async def acquire(self) -> None:
        """Wait until the method may be called, and count the call."""
        async with self._order:
            while (wait := self._free_at() - self._clock()) > 0:
                await self._sleep(wait)
            self._taken.append(self._clock())

    def hold(self, seconds: float) -> float:
        """Give no turn for so long; return by how much that is longer than before."""
        now = self._clock()
        before, self._held_until = self._held_until, max(self._held_until, now + seconds)
        return self._held_until - max(before, now)

    def _free_at(self) -> float:
        if len(self._taken) < (self._taken.maxlen or 1):
            return self._held_until
        return max(self._held_until, self._taken[0] + self._seconds)
