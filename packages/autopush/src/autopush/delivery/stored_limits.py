"""How much may be stored for one user agent: what it does not take must not fill the store.

A push that may have to be stored is charged to its user agent. When what a worker has admitted
since it last counted uses up the user agent's share, the rows in the store are counted, and a new
share is at most a quarter of the limit. What was delivered meanwhile is not among them, so a user
agent that takes its messages costs one short query for each quarter of the limit.

Rule: with `bypass` a push that a connected user agent takes is not charged when it has acked
everything before, what was stored included. So it leaves one such message at most, and no further
one goes to it uncharged until that one is acked.

Rule: with several workers, and several nodes, no more is stored than the limit, a quarter of it for
each worker, and what is on its way. A worker that has started, or forgotten the user agent, begins
with such a quarter.

Rule: what was accepted is never dropped, nor refused when it is saved or moved. A message that
replaces one of its topic, and is no larger, is never refused.

Rule: counting the rows of a user agent that has used up its limit takes a hundredth of the time at
most, and a twentieth while it connects again and again.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from autopush.protocol.effects import Row
from autopush.recently_used import RecentlyUsed
from autopush.store.messages import Stored, UserMessages, row_of, size_of
from autopush.telemetry.limit_refusals import LimitRefusals
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.notification import Notification
from keytables import KeytablesError

MAX_KNOWN: Final = 32_768
"""User agents whose share is known at once."""
UNLIMITED: Final = 1 << 60
PAUSE: Final = 100.0
"""How many times as long as a count took until the next one, when the limit is reached."""
PAUSE_AFTER_CONNECT: Final = 20.0
"""The same when the user agent has connected meanwhile: it may have taken messages."""
SHORTEST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0

_COMMON_SIZE: Final = size_of(None, {"encoding": "aes128gcm"})


class Share:
    """What a worker may still admit for one user agent before it counts again."""

    __slots__ = ("connected_at", "counted_at", "counting", "messages", "seconds", "size", "stored")

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.size = size
        self.stored: Stored | None = None
        """What was counted, if no more than this share is left of the limit."""
        self.counted_at = 0.0
        self.seconds = 0.0
        """How long the count took."""
        self.connected_at = 0
        """When the user agent had connected, as known when the rows were counted."""
        self.counting: asyncio.Task[None] | None = None

    def take(self, size: int) -> bool:
        """Charge a message; False if it does not fit."""
        if self.messages < 1 or self.size < size:
            return False
        self.messages -= 1
        self.size -= size
        return True

    def pause(self, connected_at: int) -> float:
        """Seconds from one count to the next."""
        factor = PAUSE if connected_at == self.connected_at else PAUSE_AFTER_CONNECT
        return min(max(self.seconds * factor, SHORTEST_PAUSE), LONGEST_PAUSE)


class StoredLimits:
    """The limits of one worker; 0 sets none. `monotonic`: seconds since any moment."""

    def __init__(
        self,
        refusals: LimitRefusals,
        *,
        max_messages: int = 0,
        max_bytes: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = Stored(max_messages or UNLIMITED, max_bytes or UNLIMITED)
        self._quarter = Stored(max(1, self._limit.messages // 4), max(1, self._limit.size // 4))
        self._monotonic = monotonic
        self._shares = RecentlyUsed[Share](MAX_KNOWN)
        self._one_count = asyncio.Lock()
        """Two at once would keep other work waiting for twice as long."""
        self._refusals = refusals

    def take(self, notification: Notification) -> bool:
        """Charge a message that may have to be stored. False if the rows have to be counted first:
        then `admit` does it.
        """
        share = self._shares.newest.get(notification.uaid)
        if share is None:
            share = self._recall(notification.uaid)
        data, headers = notification.data, notification.headers
        if data is None:
            size = 0
        elif headers is not None and len(headers) == 1:  # aes128gcm, as all others have more
            size = len(data) + _COMMON_SIZE
        else:
            size = size_of(data, headers)
        return share.take(size)

    async def admit(
        self, notification: Notification, messages: UserMessages, connected_at: int
    ) -> None:
        """Charge a message after counting what is stored, if that may be done again by now.

        `connected_at`: when the user agent connected last, in milliseconds.

        :raises PushError: 429/204, the limit is reached
        """
        uaid = notification.uaid
        share = self._shares.newest.get(uaid) or self._recall(uaid)
        size = size_of(notification.data, notification.headers)
        while not share.take(size):
            if share.counting is not None:
                await asyncio.shield(share.counting)  # of all messages that wait for it
                continue
            wait = 0.0
            if share.stored is not None:
                wait = share.counted_at + share.pause(connected_at) - self._monotonic()
            if wait > 0.0:
                if await self._replaces(notification, messages, share, size):
                    return
                raise self._refusal(share, wait)
            share.counting = asyncio.ensure_future(
                self._count(share, uaid, messages, connected_at, size)
            )

    def _recall(self, uaid: str) -> Share:
        return self._shares.recall(uaid, Share(*self._quarter))

    async def _count(
        self, share: Share, uaid: str, messages: UserMessages, connected_at: int, size: int
    ) -> None:
        try:
            async with self._one_count:
                began = self._monotonic()
                stored = await messages.measure(uaid, self._limit)
                share.counted_at = self._monotonic()
        except KeytablesError:
            # Whether this message needs the store, which fails, is found out when it is stored.
            share.counted_at = self._monotonic()
            if share.stored is None:
                share.messages = max(share.messages, 1 + self._quarter.messages // 100)
                share.size = max(share.size, size, self._quarter.size // 100)
            return
        finally:
            share.counting = None
        share.seconds, share.connected_at = share.counted_at - began, connected_at
        left = Stored(self._limit.messages - stored.messages, self._limit.size - stored.size)
        share.messages = max(0, min(left.messages, self._quarter.messages))
        share.size = max(0, min(left.size, max(self._quarter.size, size)))
        is_rest = left.messages <= share.messages or left.size <= share.size
        share.stored = stored if is_rest else None

    async def _replaces(
        self, notification: Notification, messages: UserMessages, share: Share, size: int
    ) -> bool:
        """Whether the message takes the place of one that is stored, and has room there."""
        row = row_of(notification)
        if row.update_id is None:
            return False
        replaced = await messages.find(notification.uaid, Row(row.sort_key, None))
        if replaced is None:
            return False
        growth = max(0, size - size_of(replaced.data, replaced.headers))
        if growth > share.size:
            return False
        share.size -= growth
        return True

    def _refusal(self, share: Share, wait: float) -> PushError:
        if share.messages < 1:
            self._refusals.add("stored_messages")
            limit = f"{self._limit.messages} (max_stored_messages)"
        else:
            self._refusals.add("stored_bytes")
            limit = f"{self._limit.size} bytes (max_stored_bytes)"
        return PushError(
            Errno.TOO_MANY_STORED,
            f"The user agent does not take its messages: no more than {limit} are stored",
            retry_after=wait,
        )
