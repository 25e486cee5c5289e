"""What was sent where, in the table Configuration: a row for each report, period and destination.

Rule: a row is a lease too. A run acquires it before it sends and changes it only while it holds it;
the lease of a killed run expires.

    key      sent <kind> <ID of the channel or user, or -> <start>-<days> <ID of the destination>
    channel  channel that the message is in: of direct messages, where it went to a person
    ts       its timestamp
    done     seconds at which all of it was there, its file too
"""

from collections.abc import Callable
from datetime import date
from typing import Final

import msgspec

from channelstats.tables.items import everything, struct_of, text
from keytables import Attr, Clock, TableHandle, Value
from keytables.lease import Lease

_PREFIX: Final = "sent "
_ISO: Final = len("yyyy-mm-dd")

HELD: Final = 150
"""Seconds that the lease of a report lasts without renewal: more than two requests take."""

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
