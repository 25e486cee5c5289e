"""How often each method of the Web API may be called, and how much it gives at once.

Slack says when a method is called too often (429, Retry-After), and how long to wait. Only what is
so slow that most calls would be refused is paced beforehand, by ``pause``.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
"""Waits so many seconds, as `asyncio.sleep` does."""


class AppKind(StrEnum):
    """Whose app a token belongs to. An unlisted one is sold, but not in Slack's Marketplace."""

    INTERNAL = "internal"
    MARKETPLACE = "marketplace"
    UNLISTED = "unlisted"


class Limit(msgspec.Struct, frozen=True):
    """Calls in a minute, items to ask for in one, and seconds from one call to the next."""

    per_minute: int
    items: int = 0
    pause: float = 0.0


_LIMITS: Final = {
    "users.list": Limit(20, 200),
    "conversations.list": Limit(20, 200),
    "conversations.members": Limit(100, 200),
    "conversations.history": Limit(50, 200),
    "conversations.replies": Limit(50, 200),
    "chat.postMessage": Limit(60, pause=1.0),  # a channel takes one message a second
}
# A second more than a minute: calls do not take equally long to get there.
_UNLISTED: Final = dict.fromkeys(
    ("conversations.history", "conversations.replies"), Limit(1, 15, pause=61.0)
)


def limits(kind: AppKind) -> dict[str, Limit]:
    """The limits of the methods that have one of interest."""
    return _LIMITS | _UNLISTED if kind is AppKind.UNLISTED else _LIMITS
