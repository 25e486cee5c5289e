"""Router records: who a user is, where it is connected, which message table is its own.

Rule: a record is changed attribute by attribute and under a condition, never overwritten, so that
two nodes that hold the same user for a moment cannot undo each other's writes.
"""

from collections.abc import Awaitable
from typing import Final

from msgspec import Struct

from autopush.clock import Clock
from autopush.store import last_connect
from autopush.store.hasher import Hasher
from autopush.store.tables import (
    CLEAR_NODE,
    CONNECT,
    CONNECT_THIS_MONTH,
    CREATE,
    IS_NEWEST,
    IS_THAT_CONNECTION,
)
from tablestore import ConditionFailed, Item, Returning, TableHandle, Value

RECORD_VERSION: Final = 1
WEBPUSH: Final = "webpush"


class UserRecord(Struct, frozen=True):
    """One row of the router table.

    `connected_at`: ms; `node_id`: base URL of the node that holds the connection.
    """

    uaid: str
    router_type: str
    connected_at: int
    node_id: str | None = None
    current_month: str | None = None
    last_connect: int | None = None
    record_version: int = 0


def _record(uaid: str, item: Item) -> UserRecord | None:
    router_type, connected_at = item.get("router_type"), item.get("connected_at")
    if not isinstance(router_type, str) or not isinstance(connected_at, int):
        return None
    node_id = item.get("node_id")
    month = item.get("current_month", item.get("curmonth"))
    access, version = item.get("last_connect"), item.get("record_version")
    return UserRecord(
        uaid,
        router_type,
        connected_at,
        node_id if isinstance(node_id, str) else None,
        month if isinstance(month, str) else None,
        access if isinstance(access, int) else None,
        version if isinstance(version, int) else 0,
    )


class Users:
    """The router table. UAIDs are hashed on the way in when the deployment has a key for that."""

    def __init__(self, table: TableHandle, hasher: Hasher, clock: Clock) -> None:
        self._table = table
        self._hash = hasher
        self._clock = clock
        self.name = table.table.name

    async def get(self, uaid: str) -> UserRecord | None:
        """The user's record; one that misses what every record must have is dropped and counts
        as absent.
        """
        item = await self._table.get((self._hash(uaid),))
        if item is None:
            return None
        record = _record(uaid, item)
        if record is None:
            await self.drop(uaid)
        return record

    async def connect(
        self, record: UserRecord, node_id: str, connected_at: int
    ) -> UserRecord | None:
        """Note that a known user is connected here; returns the record as it was before.

        None when a newer connection is on record.
        """
        now = self._clock()
        update = CONNECT
        values: dict[str, Value] = {
            "node_id": node_id,
            "connected_at": connected_at,
            "router_type": record.router_type,
        }
        if not last_connect.is_this_month(record.last_connect, now):
            update = CONNECT_THIS_MONTH
            values["last_connect"] = last_connect.make(now)
        try:
            old = await self._table.update(
                (self._hash(record.uaid),),
                update,
                values,
                condition=IS_NEWEST,
                returning=Returning.OLD,
            )
        except ConditionFailed:
            return None
        # A record that vanished since it was read is the one that was read.
        return (_record(record.uaid, old) if old else None) or record

    def create(self, uaid: str, node_id: str, connected_at: int, month: str) -> Awaitable[object]:
        """Write a new Web Push user.

        Repeating it changes nothing but the garbage-collection key.
        """
        return self._table.update(
            (self._hash(uaid),),
            CREATE,
            {
                "node_id": node_id,
                "connected_at": connected_at,
                "router_type": WEBPUSH,
                "last_connect": last_connect.make(self._clock()),
                "record_version": RECORD_VERSION,
                "current_month": month,
            },
        )

    async def clear_node(self, record: UserRecord) -> bool:
        """Note that the user is not connected there any more, unless it has connected again
        since.
        """
        try:
            await self._table.update(
                (self._hash(record.uaid),),
                CLEAR_NODE,
                {"node_id": record.node_id, "connected_at": record.connected_at},
                condition=IS_THAT_CONNECTION,
            )
        except ConditionFailed:
            return False
        return True

    async def drop(self, uaid: str) -> None:
        """Forget the user."""
        await self._table.delete((self._hash(uaid),))
