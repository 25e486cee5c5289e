"""Which node took the last message for a user agent: the next one goes there without a read.

An entry is made of a router record when the node on it has taken a message, and used for a minute
at most. A message by way of an entry is for that node to refuse: it takes it only for a user agent
that is connected there and has subscribed to the channel (`Nodes.push_if_subscribed`).

Rule: an entry decides only where to ask first. After any other answer than that the message was
taken, it is removed, and the store decides.

Rule: no message that has to be stored goes by way of an entry, so its user's message table may have
changed.
"""

import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from autopush.recently_used import RecentlyUsed
from autopush.store import UserRecord

MAX_CACHED: Final = 32_768
"""User agents, of which half are always known; each takes about 400 bytes."""
CACHED_FOR: Final = 60.0
"""Seconds. For so long a user agent that was dropped, or has moved to another node, gets messages
on its old connection, if its old node could not be called to end that.
"""


class CachedUser(Struct, frozen=True):
    """A user agent that was connected to another node a moment ago.

    `connected_at`: as in the router record, in milliseconds.
    """

    node_id: str
    connected_at: int
    expires: float


class NodeCache:
    """The entries of one worker, by UAID. `monotonic`: seconds since any moment."""

    def __init__(
        self, *, max_users: int = MAX_CACHED, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._users = RecentlyUsed[CachedUser](max_users)
        self._monotonic = monotonic

    def __len__(self) -> int:
        return len(self._users)

    def add(self, record: UserRecord, node_id: str) -> None:
        """Note that the node on a record, which was read just now, has taken a message."""
        expires = self._monotonic() + CACHED_FOR
        self._users.forget(record.uaid)
        self._users.recall(record.uaid, CachedUser(node_id, record.connected_at, expires))

    def find(self, uaid: str) -> CachedUser | None:
        """Where that user agent was, if it is known."""
        user = self._users.find(uaid)
        if user is not None and self._monotonic() >= user.expires:
            self._users.forget(uaid)
            return None
        return user

    def remove(self, uaid: str) -> None:
        """The next message for that user agent reads its record."""
        self._users.forget(uaid)
