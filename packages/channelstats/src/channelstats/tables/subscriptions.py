"""The table Subscription: the browsers and mail addresses that are told of a new weekly report.

Rule: a row is known by a digest of its endpoint, and only `add` makes one; whatever else is noted
about a row that is gone meanwhile is dropped. Whoever sends to it holds its lease.

    endpoint, p256dh, auth  what the browser gave; `mailto:` and an address alone for mail
    vapid                   the public key that it subscribed with: another one cannot send to it
    created_at              seconds
    announced               `yyyy-mm-dd`: the newest week, by its first day, that they know of
    not_before              seconds: the push service wants nothing before
    failing_since           seconds: nothing has come through since then
"""

import asyncio
import hashlib
from contextlib import suppress
from datetime import date
from typing import Final

import msgspec

from channelstats.tables.items import everything, struct_of, text, without_empty
from keytables import Attr, Clock, ConditionFailed, Param, TableHandle, Update, Values
from keytables.lease import Lease

MAILTO: Final = "mailto:"

_PAGE: Final = 100
"""Rows read at once: a dashboard serves pages meanwhile."""

HELD: Final = 300
"""Seconds that the lease of a subscription lasts: more than all attempts and waits together."""

_IS_THERE: Final = Attr("endpoint").exists()
_IS_NEW: Final = Attr("endpoint").absent()
_IS_DUE: Final = (
    _IS_THERE
    & (Attr("announced").absent() | (Attr("announced") < Param("week")))
    & (Attr("not_before").absent() | (Attr("not_before") <= Param("at")))
)


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

    @property
    def address(self) -> str:
        """Where mail goes; "" for a browser."""
        return self.endpoint.removeprefix(MAILTO) if self.endpoint.startswith(MAILTO) else ""

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
        """All of them; between two pages others get their turn."""
        found: list[Subscription] = []
        async for items in everything(self._table, _PAGE):
            found += [struct_of(Subscription, item) for item in items if text(item, "endpoint")]
            await asyncio.sleep(0)
        return found

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
            with suppress(ConditionFailed):  # it was removed meanwhile
                keys = {"p256dh": new.p256dh, "auth": new.auth, "vapid": new.vapid}
                update = Update(set=tuple(keys))
                await self._table.update(_key(new.endpoint), update, keys, condition=_IS_THERE)
            return False
        return True

    async def remove(self, endpoint: str) -> None:
        await self._table.delete(_key(endpoint))

    async def remove_id(self, key: str) -> None:
        """Remove the subscription with that `id_of`."""
        await self._table.delete((key,))

    async def lease_if_due(self, endpoint: str, week: date, clock: Clock) -> Lease | None:
        """The right to notify them of a week now, and to note what came of it; None when somebody
        else is at it, or they know, or are gone. Release it with `announced` or `failed`.
        """
        lease = Lease(self._table, _key(endpoint), clock, seconds=HELD, names_process=True)
        values: Values = {"week": week.isoformat(), "at": int(clock())}
        return lease if await lease.acquire(_IS_DUE, values) else None


def announced(week: date) -> Values:
    """What is noted of one who knows of a week now."""
    return {"announced": week.isoformat(), "not_before": None, "failing_since": None}


def failed(not_before: int, since: int) -> Values:
    """What is noted of one to whom nothing came through since then; nothing may be sent before."""
    return {"not_before": not_before, "failing_since": since}


def _key(endpoint: str) -> tuple[str]:
    return (id_of(endpoint),)
