"""The table Subscription: browsers and mail addresses that are notified of a new weekly report.

Rule: the key of a row is a digest of its endpoint, and only `add` creates one; an update of a row
that was removed meanwhile is dropped. A run that sends to it holds its lease.

    endpoint, p256dh, auth  what the browser gave; `mailto:` and an address alone for mail
    vapid                   the public key that it subscribed with: another one cannot send to it
    created_at              seconds
    announced               `yyyy-mm-dd`: the newest week, by its first day, that they know of
    not_before              seconds: the push service wants nothing before
    failing_since           seconds: nothing has come through since then
    warned                  the week, by its first day, within which they were last told of
                            something, and the bounds of that: `2024-03-10 threads.unanswered>5 …`
"""

import asyncio
import hashlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from typing import Final

import msgspec

from channelstats.tables.items import everything, struct_of, text, without_empty
from keytables import (
    Attr,
    Clock,
    Condition,
    ConditionFailed,
    Param,
    TableHandle,
    Update,
    Values,
)
from keytables.lease import Lease

MAILTO: Final = "mailto:"

_PAGE: Final = 100
"""Rows read at once: a dashboard serves pages meanwhile."""

HELD: Final = 300
"""Seconds that the lease of a subscription lasts: more than all attempts and waits together."""

_IS_THERE: Final = Attr("endpoint").exists()
_IS_NEW: Final = Attr("endpoint").absent()
_MAY_BE_TOLD: Final = _IS_THERE & (
    Attr("not_before").absent() | (Attr("not_before") <= Param("at"))
)
_IS_DUE: Final = _MAY_BE_TOLD & (Attr("announced").absent() | (Attr("announced") < Param("week")))

_IS_AS_WARNED: Final = _MAY_BE_TOLD & (Attr("warned") == Param("warned"))
_IS_UNWARNED: Final = _MAY_BE_TOLD & Attr("warned").absent()


class Subscription(msgspec.Struct, frozen=True):
    """A row. The endpoint is a secret: anyone who knows it can send to its owner."""

    endpoint: str
    p256dh: str
    auth: str
    vapid: str = ""
    created_at: int = 0
    announced: str = ""
    not_before: int = 0
    failing_since: int = 0
    warned: str = ""

    def __repr__(self) -> str:
        return f"<subscription {id_of(self.endpoint)[:8]}>"

    @property
    def address(self) -> str:
        """Where mail goes; "" for a browser."""
        return self.endpoint.removeprefix(MAILTO) if self.endpoint.startswith(MAILTO) else ""

    def waits_for(self, week: date) -> bool:
        """Whether it was not notified of that week."""
        return self.announced < week.isoformat()

    def warned_of(self, week: date) -> frozenset[str]:
        """The bounds that it was warned of in that week."""
        start, *bounds = self.warned.split() or [""]
        return frozenset(bounds if start == week.isoformat() else ())


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
        """The lease for notifying a subscription of a week; None if another run holds it, or it was
        notified or removed. Release it with `announced` or `failed`.
        """
        values: Values = {"week": week.isoformat(), "at": int(clock())}
        return await self._lease(endpoint, clock, _IS_DUE, values)

    async def lease_to_warn(self, one: Subscription, clock: Clock) -> Lease | None:
        """The same for a warning; None also if another warning was sent since ``one`` was read.
        Release it with `warned` or `failed`.
        """
        values: Values = {"warned": one.warned, "at": int(clock())}
        same = _IS_AS_WARNED if one.warned else _IS_UNWARNED
        return await self._lease(one.endpoint, clock, same, values)

    async def _lease(
        self, endpoint: str, clock: Clock, due: Condition, values: Values
    ) -> Lease | None:
        lease = Lease(self._table, _key(endpoint), clock, seconds=HELD, names_process=True)
        return lease if await lease.acquire(due, values) else None


def announced(week: date) -> Values:
    """The columns of a subscription that was notified of a week."""
    return {"announced": week.isoformat(), "not_before": None, "failing_since": None}


def warned(one: Subscription, week: date, bounds: Iterable[str]) -> Values:
    """The columns of one that was warned of bounds before the end of that week."""
    told = sorted({*one.warned_of(week), *bounds})
    warned_of = " ".join((week.isoformat(), *told))
    return {"warned": warned_of, "not_before": None, "failing_since": None}


def failed(not_before: int, since: int) -> Values:
    """The columns of one that has failed since then and may be tried again at ``not_before``."""
    return {"not_before": not_before, "failing_since": since}


def _key(endpoint: str) -> tuple[str]:
    return (id_of(endpoint),)
