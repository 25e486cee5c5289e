"""What was sent where, and who is notified of a new weekly report.

Reports in Slack, in the table Configuration: a row for each report, period and destination. Rule: a
row is a lease too. A run acquires it before it sends and changes it only while it holds it; the
lease of a killed run expires.

    key      sent <kind> <ID of the channel or user, or -> <start>-<days> <ID of the destination>
    channel  channel that the message is in: of direct messages, where it went to a person
    ts       its timestamp
    done     seconds at which all of it was there, its file too

Browsers and mail addresses, in the table Subscription. Rule: the key of a row is a digest of its
endpoint, and only `add` creates one; an update of a row that was removed meanwhile is dropped.
Whoever sends holds the lease, the one row without endpoint.

    endpoint, p256dh, auth  what the browser gave; `mailto:` and an address alone for mail
    vapid                   the public key that it subscribed with: another one cannot send to it
    created_at              seconds
    announced               `yyyy-mm-dd`: the newest week, by its first day, that they know of
    failing_since           seconds: nothing has come through since then; 0: the last one came
    warned                  the week, by its first day, within which they were last told of
                            something, and the bounds of that: `2024-03-10 threads.unanswered>5 …`
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date
from typing import Final

import msgspec

from channelstats.tables.items import everything, struct_of, text, without_empty
from keytables import Attr, Clock, ConditionFailed, TableHandle, Update, Value
from keytables.lease import Lease

_PREFIX: Final = "sent "
_ISO: Final = len("yyyy-mm-dd")

HELD: Final = 150
"""Seconds that a lease lasts without renewal: more than two requests or one message take."""

NOT_DONE: Final = Attr("done").absent()


class SentKey(msgspec.Struct, frozen=True):
    """Which report went where. ``subject`` is the ID of a channel or a user, if it is about one."""

    kind: str
    subject: str
    start: date
    days: int
    destination: str

    def __str__(self) -> str:
        period = f"{self.start.isoformat()}-{self.days}"
        return f"{_PREFIX}{self.kind} {self.subject or '-'} {period} {self.destination}"


class Sent(msgspec.Struct, frozen=True):
    """A row; see the module."""

    channel: str = ""
    ts: str = ""
    done: int = 0


class SentReports:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    async def get(self, key: SentKey) -> Sent | None:
        item = await self._table.get((str(key),))
        return None if item is None else struct_of(Sent, item)

    def lease(self, key: SentKey, clock: Clock) -> Lease:
        """The right to send a report and to change its row."""
        return Lease(self._table, (str(key),), clock, seconds=HELD, names_process=True)

    async def forget(self, uid: str) -> None:
        """Delete the rows of what a person was sent, or what was sent about them."""
        await self._delete(lambda name: uid in name.split())

    async def expire(self, before: date) -> None:
        """Delete the rows of reports on periods that began earlier."""
        await self._delete(lambda name: name.split()[-2][:_ISO] < before.isoformat())

    async def _delete(self, old: Callable[[str], bool]) -> None:
        async for items in everything(self._table):
            names = [name for item in items if (name := text(item, "key")).startswith(_PREFIX)]
            await self._table.batch_write(deletes=[(name,) for name in names if old(name)])


def columns_of(row: Sent) -> dict[str, Value]:
    """The attributes of a row; None for those that it has not."""
    return {name: value or None for name, value in msgspec.structs.asdict(row).items()}


MAILTO: Final = "mailto:"

_PAGE: Final = 100
"""Rows read at once: a dashboard serves pages meanwhile."""


class Subscription(msgspec.Struct, frozen=True):
    """A row. The endpoint is a secret: anyone who knows it can send to its owner."""

    endpoint: str
    p256dh: str
    auth: str
    vapid: str = ""
    created_at: int = 0
    announced: str = ""
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


def warned(week: date, bounds: Iterable[str]) -> str:
    """The column of one that was warned of all these bounds before the end of that week."""
    return " ".join((week.isoformat(), *sorted(bounds)))


class Subscriptions:
    """See the module."""

    def __init__(self, table: TableHandle) -> None:
        self._table = table

    def lease(self, clock: Clock) -> Lease:
        """The right to send to subscribers."""
        return Lease(self._table, ("lease",), clock, seconds=HELD, names_process=True)

    async def all(self) -> list[Subscription]:
        """All of them; between two pages others get their turn."""
        subscriptions: list[Subscription] = []
        async for items in everything(self._table, _PAGE):
            subscriptions += [
                struct_of(Subscription, row) for row in items if text(row, "endpoint")
            ]
            await asyncio.sleep(0)
        return subscriptions

    async def knows(self, endpoint: str) -> bool:
        return await self._table.get(_key(endpoint)) is not None

    async def add(self, new: Subscription) -> bool:
        """Store a subscription, of a known one only the keys; return whether it was new."""
        row = without_empty({"subscription_id": id_of(new.endpoint), **msgspec.structs.asdict(new)})
        try:
            await self._table.put(row, condition=Attr("endpoint").absent())
        except ConditionFailed:
            await self.note(new.endpoint, p256dh=new.p256dh, auth=new.auth, vapid=new.vapid)
            return False
        return True

    async def note(self, endpoint: str, **columns: Value) -> None:
        """Set columns of a subscription, unless it was removed meanwhile."""
        update, is_there = Update(set=tuple(columns)), Attr("endpoint").exists()
        with suppress(ConditionFailed):
            await self._table.update(_key(endpoint), update, columns, condition=is_there)

    async def remove(self, endpoint: str) -> None:
        await self._table.delete(_key(endpoint))

    async def remove_id(self, key: str) -> None:
        """Remove the subscription with that `id_of`."""
        await self._table.delete((key,))


def _key(endpoint: str) -> tuple[str]:
    return (id_of(endpoint),)
