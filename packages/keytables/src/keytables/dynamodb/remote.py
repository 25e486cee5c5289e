"""One table's way to the database: calls, its verdicts as our errors, and what counts as alive.

The one rule: a verdict of the database leaves the engine as one of our errors, or is judged here.
"""

from typing import Any, Final, Protocol

from keytables.dynamodb.client import Reply
from keytables.dynamodb.codec import Wire, WireItem, dumps, loads, wire
from keytables.dynamodb.retries import PATIENCE, ServiceError
from keytables.engine import Clock
from keytables.errors import (
    ItemTooLarge,
    KeytablesError,
    SchemaError,
    TableNotFound,
    Unavailable,
)
from keytables.schema import Table
from keytables.values import MAX_ITEM_SIZE, Item, KeyTuple, Scalar

__all__ = ["REFUSED", "Caller", "Remote", "key_wire", "translate"]

REFUSED: Final = "ConditionalCheckFailedException"


class Caller(Protocol):
    """What a table needs of the client."""

    async def call(
        self, operation: str, body: bytes, *, table: str | None = None, patience: float = PATIENCE
    ) -> Reply: ...


class Remote:
    """A table of the database. ``name`` is its name there, with the prefix of the store."""

    def __init__(self, client: Caller, table: Table, name: str, clock: Clock) -> None:
        self.table, self.name, self.clock = table, name, clock
        self._client = client
        self._get = dumps({"TableName": name, "ConsistentRead": True})[:-1]
        self._shows_refused = False

    async def call(self, operation: str, body: bytes, *, patience: float = PATIENCE) -> Reply:
        """Call an operation. Raises ServiceError for a condition that does not hold, and one of our
        errors for anything else.
        """
        try:
            return await self._client.call(operation, body, table=self.name, patience=patience)
        except ServiceError as error:
            if error.code == REFUSED:
                raise
            raise translate(error, operation, self.table.name) from error

    async def answer(
        self, operation: str, body: bytes, *, patience: float = PATIENCE
    ) -> dict[str, Any]:
        """Call an operation without a condition and return its answer."""
        return loads((await self.call(operation, body, patience=patience)).body)

    async def get(self, key: bytes) -> WireItem | None:
        """Return the item of a key (a member in JSON), alive or not."""
        found: WireItem | None = (await self.answer("GetItem", b"%b,%b}" % (self._get, key))).get(
            "Item"
        )
        return found

    async def refused(self, error: ServiceError, key: bytes) -> WireItem | None:
        """Return the item that the condition of a write was judged on.

        Not every server tells; then it is the item of now.
        """
        item: WireItem | None = loads(error.body).get("Item")
        if item is not None:
            self._shows_refused = True
        elif not self._shows_refused:
            return await self.get(key)
        return item

    def alive(self, item: Item, now: float) -> bool:
        """Whether an item has not expired."""
        if self.table.expiry is None:
            return True
        end = item.get(self.table.expiry)
        if isinstance(end, bool) or not isinstance(end, int | float):
            return True
        return not 0 < end <= now

    def key(self, key: KeyTuple) -> dict[str, Wire]:
        """Return a checked key as it is sent."""
        partition = self.table.partition
        found = {partition.name: key_wire(key[0])}
        if self.table.sort is not None:
            found[self.table.sort.name] = key_wire(key[1])
        return found


def key_wire(value: Scalar) -> Wire:
    """Return the checked value of a key as it is sent."""
    found = wire(value, "a key")
    assert found is not None
    return found


def translate(error: ServiceError, operation: str, table: str) -> KeytablesError:
    """Return one of our errors for a verdict of the database."""
    what = f"{operation} on table {table!r}"
    match error.code:
        case "ResourceNotFoundException":
            return TableNotFound(table)
        case "ValidationException" if error.message.startswith("Item size"):
            return ItemTooLarge(None, MAX_ITEM_SIZE)
        case "ValidationException" if "incorrect data type" in error.message:
            return SchemaError(f"{what}: a set operation meets an attribute that is not a set")
        case "ValidationException":
            return SchemaError(f"{what} is refused: {error.message}")
    return Unavailable(f"{what} fails: {error.code}")
