"""The table Subscription: the browsers that are notified of a new weekly report.

Rule: a row is known by a digest of its endpoint, and only `add` makes one; whatever else is noted
about a row that is gone meanwhile is dropped.

    endpoint, p256dh, auth  what the browser gave
    vapid                   the public key that it subscribed with: another one cannot send to it
    created_at              seconds
    announced               `yyyy-mm-dd`: the newest week, by its first day, that they know of
    not_before              seconds: somebody is sending to it until then, or was asked to wait
    failing_since           seconds: nothing has come through since then
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import date
from typing import Final

import msgspec

from channelstats.tables.items import struct_of, text, without_empty
from keytables import Attr, Condition, ConditionFailed, Param, TableHandle, Update, Values

_PAGE: Final = 100
"""Rows read at once: a dashboard serves pages meanwhile."""

_IS_THERE: Final = Attr("endpoint").exists()
_IS_NEW: Final = Attr("endpoint").absent()
_IS_DUE: Final = (
    _IS_THERE
    & (Attr("announced").absent() | (Attr("announced") < Param("week")))
    & (Attr("not_before").absent() | (Attr("not_before") <= Param("now")))
)
_IS_MINE: Final = _IS_THERE & (Attr("not_before") == Param("lease"))

_KEYS: Final = Update(set=("p256dh", "auth", "vapid"))
_CLAIM: Final = Update(set={"not_before": Param("lease")})
_ANNOUNCED: Final = Update(set={"announced": Param("week")}, remove=("not_before", "failing_since"))
_FAILED: Final = Update(set=("not_before", "failing_since"))


class Subscription(msgspec.Struct, frozen=True):
    """A row. The endpoint is a secret: whoever has it can disturb its owner."""

    endpoint: str
    p256dh: str
    auth: str
    vapid: str = ""
    created_at: int = 0
    announced: str = ""
    not_before: int = 0
    failing_since: int = 0

    def __repr__(self) -> str:
        return f"<subscription {id_of(self.endpoint)[:8]}>"

    def waits_for(self, week: date, now: float) -> bool:
        """Whether they can be notified of that week now."""
        return self.announced < week.isoformat() and self.not_before <= now


def id_of(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode()).hexdigest()


class Subscriptions:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def all(self) -> list[Subscription]:
        return [one async for page in self._pages() for one in page]

    async def at_least(self, count: int) -> bool:
        """Whether there are so many."""
        found = 0
        async for page in self._pages():
            found += len(page)
            if found >= count:
                return True
        return False

    async def knows(self, endpoint: str) -> bool:
        return await self._table.get(_key(endpoint)) is not None

    async def add(self, new: Subscription) -> bool:
        """Store a subscription, of a known one only the keys; return whether it was new."""
        item = without_empty(
            {"subscription_id": id_of(new.endpoint), **msgspec.structs.asdict(new)}
        )
        try:
            await self._table.put(item, condition=_IS_NEW)
        except ConditionFailed:
            keys = {"p256dh": new.p256dh, "auth": new.auth, "vapid": new.vapid}
            await self._if(_IS_THERE, new.endpoint, _KEYS, keys)
            return False
        return True

    async def remove(self, endpoint: str) -> None:
        await self._table.delete(_key(endpoint))

    async def claim(self, endpoint: str, week: date, now: int, lease: int) -> bool:
        """Take it on oneself, until ``lease``, to notify them of a week; false when somebody else
        is at it or they know.
        """
        values: Values = {"week": week.isoformat(), "now": now, "lease": lease}
        return await self._if(_IS_DUE, endpoint, _CLAIM, values)

    async def note_announced(self, endpoint: str, week: date, lease: int) -> bool:
        """Note, with the lease of the claim, that they know of a week."""
        values: Values = {"week": week.isoformat(), "lease": lease}
        return await self._if(_IS_MINE, endpoint, _ANNOUNCED, values)

    async def failed(self, endpoint: str, lease: int, not_before: int, since: int) -> bool:
        """Give the claim back: nothing may be sent before, and nothing came through since."""
        values = {"lease": lease, "not_before": not_before, "failing_since": since}
        return await self._if(_IS_MINE, endpoint, _FAILED, values)

    async def _pages(self) -> AsyncIterator[list[Subscription]]:
        """All of them; between two pages others get their turn."""
        page = await self._table.scan(limit=_PAGE)
        yield [struct_of(Subscription, item) for item in page.items if text(item, "endpoint")]
        while page.cursor is not None:
            await asyncio.sleep(0)
            page = await self._table.scan(limit=_PAGE, after=page.cursor)
            yield [struct_of(Subscription, item) for item in page.items if text(item, "endpoint")]

    async def _if(
        self, condition: Condition, endpoint: str, update: Update, values: Values
    ) -> bool:
        try:
            await self._table.update(_key(endpoint), update, values, condition=condition)
        except ConditionFailed:
            return False
        return True


def _key(endpoint: str) -> tuple[str]:
    return (id_of(endpoint),)
