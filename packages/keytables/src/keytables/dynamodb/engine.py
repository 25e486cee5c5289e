"""The DynamoDB engine: opens the client, hands out tables.

The one rule: all handles of one table know each other's writes, and nothing is sent once the store
is closed.
"""

import re
import time
from typing import Final, Protocol, Self

from keytables.dynamodb.client import Client
from keytables.dynamodb.handle import DynamoTable
from keytables.dynamodb.order import Order, Room
from keytables.dynamodb.remote import Caller, Remote
from keytables.dynamodb.tables import Tables
from keytables.engine import Clock, Engine, TableHandle
from keytables.errors import SchemaError
from keytables.schema import Capacity, Table

__all__ = ["DynamoEngine"]

MAX_CALLS: Final = 10_000
"""Calls that wait for a connection, as long as one may take; further ones are Throttled."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")


class Connected(Caller, Protocol):
    """A client that can be closed."""

    async def close(self) -> None: ...


class DynamoEngine(Engine):
    """Tables in DynamoDB, or in a database that speaks its protocol.

    Belongs to the event loop it was opened on.
    """

    def __init__(
        self,
        client: Connected,
        *,
        prefix: str = "",
        alternator: bool = False,
        clock: Clock = time.time,
    ) -> None:
        self._client, self._clock = client, clock
        self._tables = Tables(client, prefix, alternator=alternator)
        self._room = Room()
        self._orders: dict[str, Order] = {}
        self._handles: dict[str, DynamoTable] = {}

    @classmethod
    async def open(
        cls,
        *,
        region: str = "",
        endpoint: str | None = None,
        prefix: str = "",
        connections: int = 50,
        alternator: bool = False,
        clock: Clock = time.time,
    ) -> Self:
        """Find credentials and the database; nothing is read or written yet.

        ``region`` empty: the one of the AWS environment, else us-east-1. ``endpoint``: URL of a
        server in place of the region's. ``prefix``: begins the names of all tables there.
        ``connections`` at most to one server. ``alternator``: the server is one of a ScyllaDB
        cluster. Raises Unavailable: no such region, no credentials; ValueError: no such URL.
        """
        client = await Client.open(
            region=region,
            endpoint=endpoint,
            connections=connections,
            alternator=alternator,
            clock=clock,
            max_waiting=MAX_CALLS,
        )
        return cls(client, prefix=prefix, alternator=alternator, clock=clock)

    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> TableHandle:
        name = self._tables.name(table.name)
        if not _NAME.fullmatch(name):
            raise SchemaError(
                f"table name {name!r}: expected 3 to 255 of letters, digits, '_', '-', '.'"
            )
        await self._tables.ensure(table, capacity)
        return self._handle(table)

    async def open_table(self, table: Table) -> TableHandle:
        await self._tables.check(table)
        return self._handle(table)

    def _handle(self, table: Table) -> DynamoTable:
        handle = self._handles.get(table.name)
        if handle is None or handle.table != table:
            order = self._orders.setdefault(table.name, Order(self._room))
            name = self._tables.name(table.name)
            remote = Remote(self._client, table, name, self._clock)
            handle = self._handles[table.name] = DynamoTable(remote, order)
        return handle

    async def drop_table(self, name: str) -> None:
        if name in self._orders:
            await self._orders[name].all_settled()
        await self._tables.drop(name)
        self._handles.pop(name, None)

    async def table_names(self) -> list[str]:
        return await self._tables.names()

    async def capacity(self, name: str) -> Capacity | None:
        return await self._tables.capacity(name)

    async def set_capacity(self, name: str, capacity: Capacity) -> None:
        await self._tables.set_capacity(name, capacity)

    async def close(self) -> None:
        self._room.closed = True
        for order in list(self._orders.values()):
            await order.all_settled()
        await self._client.close()
