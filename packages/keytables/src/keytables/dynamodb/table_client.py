"""Calls of a store, whose errors are those of :mod:`keytables.errors`; calls about one table, and
batches of items.

Rule: what the database leaves unprocessed is requested again, until nothing is left or time is up.
"""

import asyncio
from collections.abc import Container, Iterable, Sequence
from typing import Any, Final

from keytables.dynamodb.client import ApiClient, ApiResponse
from keytables.dynamodb.codec import AttributeMap, AttributeValue, dumps, encode_value, loads
from keytables.dynamodb.connections import PoolExhausted
from keytables.dynamodb.retries import CALL_TIMEOUT, RetryPolicy, ServiceError
from keytables.engine import Clock
from keytables.errors import (
    ItemTooLarge,
    KeytablesError,
    SchemaError,
    TableNotFound,
    Throttled,
    Unavailable,
)
from keytables.failures import FailureReports
from keytables.retries import Attempts
from keytables.schema import Table
from keytables.values import MAX_ITEM_SIZE, Item, KeyTuple, Scalar

CONDITION_FAILED: Final = "ConditionalCheckFailedException"
_REJECTED: Final = (CONDITION_FAILED,)

MAX_BATCH_WRITES: Final = 25
MAX_BATCH_KEYS: Final = 100
MAX_BATCH_BYTES: Final = 15 << 20
"""Bytes of one request; DynamoDB takes 16 MB."""


class StoreClient:
    """The calls of one store. ``prefix`` begins the names of its tables in the database.

    Reports each call that failed after all its attempts: Unavailable, or Throttled by the server.
    """

    def __init__(self, client: ApiClient, failures: FailureReports, prefix: str = "") -> None:
        self.prefix, self.failures = prefix, failures
        self._client = client
        self._is_closed = False

    async def call(
        self,
        operation: str,
        body: bytes,
        table: str = "",
        *,
        expected: Container[str] = (),
        time_limit: float = CALL_TIMEOUT,
    ) -> ApiResponse:
        """``table``: its name, without the prefix. Raises KeytablesError; ServiceError only with a
        code that is ``expected``: the caller decides what it means.
        """
        name = self.prefix + table if table else None
        try:
            return await self._client.call(operation, body, table=name, time_limit=time_limit)
        except ServiceError as error:
            if error.code in expected:
                raise
            failure = to_keytables_error(error, operation, table)
            self.failures.report(failure)
            raise failure from error
        except KeytablesError as error:
            if not self._is_closed and not isinstance(error.__cause__, PoolExhausted):
                self.failures.report(error)
            raise

    async def close(self) -> None:
        self._is_closed = True
        await self._client.close()


class TableClient:
    """``name``: the table's name in the database, with the prefix of the store."""

    def __init__(
        self, store: StoreClient, table: Table, clock: Clock, retries: RetryPolicy
    ) -> None:
        self.table, self.name, self.clock = table, store.prefix + table.name, clock
        self._store, self._retries = store, retries
        self._get_head = request_head(self.name, ConsistentRead=True)
        self._shows_rejecting_item = False

    def is_live(self, item: Item, now: float) -> bool:
        if self.table.expiry is None:
            return True
        expiry = item.get(self.table.expiry)
        if isinstance(expiry, bool) or not isinstance(expiry, int | float):
            return True
        return not 0 < expiry <= now

    def encode_key(self, key: KeyTuple) -> dict[str, AttributeValue]:
        encoded = {self.table.partition.name: encode_key_value(key[0])}
        if self.table.sort is not None:
            encoded[self.table.sort.name] = encode_key_value(key[1])
        return encoded

    async def call(
        self, operation: str, body: bytes, *, time_limit: float = CALL_TIMEOUT
    ) -> ApiResponse:
        """Raises ServiceError for a condition that does not hold, otherwise a KeytablesError."""
        return await self._store.call(
            operation, body, self.table.name, expected=_REJECTED, time_limit=time_limit
        )

    async def request(
        self, operation: str, body: bytes, *, time_limit: float = CALL_TIMEOUT
    ) -> dict[str, Any]:
        """Call an operation without a condition and return the object of its response."""
        return loads((await self.call(operation, body, time_limit=time_limit)).body)

    async def get(self, key: bytes) -> AttributeMap | None:
        """Return the item of a key (a member in JSON), expired or not."""
        response = await self.request("GetItem", b"%b,%b}" % (self._get_head, key))
        item: AttributeMap | None = response.get("Item")
        return item

    async def rejecting_item(self, error: ServiceError, key: bytes) -> AttributeMap | None:
        """Return the item that failed a condition: sent with the error, or as it is at present."""
        item: AttributeMap | None = loads(error.body).get("Item")
        if item is not None:
            self._shows_rejecting_item = True
        elif not self._shows_rejecting_item:
            return await self.get(key)
        return item

    # --- batches ------------------------------------------------------------------------------

    async def get_all(
        self, keys: Sequence[AttributeMap], names: Sequence[str] = ()
    ) -> list[AttributeMap]:
        """Return the items, or these attributes, of different keys, expired or not. Raises
        Throttled.
        """
        options: dict[str, object] = {"ConsistentRead": True}
        if names:
            placeholders = {f"#{number}": name for number, name in enumerate(names)}
            options["ProjectionExpression"] = ", ".join(placeholders)
            options["ExpressionAttributeNames"] = placeholders
        all_items: list[AttributeMap] = []
        for start in range(0, len(keys), MAX_BATCH_KEYS):
            left: Sequence[AttributeMap] = keys[start : start + MAX_BATCH_KEYS]
            attempts = self._batch_attempts()
            while True:
                body = dumps({"RequestItems": {self.name: {**options, "Keys": left}}})
                response = await self._batch_request("BatchGetItem", body)
                items = response.get("Responses", {}).get(self.name, [])
                all_items += items
                left = response.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
                if not left:
                    break
                if not items:
                    await self._wait(attempts, "BatchGetItem")
        return all_items

    def write_requests(self, writes: Sequence[object]) -> list[bytes]:
        """Return requests for these members of BatchWriteItem, of different items. Raises
        SchemaError.
        """
        requests: list[bytes] = []
        for start in range(0, len(writes), MAX_BATCH_WRITES):
            requests += self._split(writes[start : start + MAX_BATCH_WRITES])
        return requests

    def _split(self, writes: Sequence[object]) -> list[bytes]:
        request = dumps({"RequestItems": {self.name: writes}})
        if len(request) <= MAX_BATCH_BYTES or len(writes) == 1:
            return [request]
        half = len(writes) // 2
        return [*self._split(writes[:half]), *self._split(writes[half:])]

    async def write_all(self, requests: Iterable[bytes]) -> None:
        """Apply the writes of these requests. Raises Throttled; some may then be applied."""
        for request in requests:
            left: bytes = request
            attempts = self._batch_attempts()
            while True:
                response = await self._batch_request("BatchWriteItem", left)
                unprocessed = response.get("UnprocessedItems", {}).get(self.name)
                if not unprocessed:
                    break
                left = dumps({"RequestItems": {self.name: unprocessed}})
                await self._wait(attempts, "BatchWriteItem")

    def _batch_attempts(self) -> Attempts:
        deadline = asyncio.get_running_loop().time() + self._retries.batch_timeout
        return Attempts(self._retries.backoff, deadline)

    async def _batch_request(self, operation: str, body: bytes) -> dict[str, Any]:
        return await self.request(operation, body, time_limit=self._retries.batch_timeout)

    async def _wait(self, attempts: Attempts, operation: str) -> None:
        too_late = Throttled(
            f"{operation} on table {self.table.name!r}: the database leaves items unprocessed"
        )
        try:
            await attempts.wait(too_late)
        except Throttled as error:
            self._store.failures.report(error)
            raise


def request_head(table_name: str, **members: object) -> bytes:
    """Return the beginning of a request on a table: JSON without its closing brace."""
    return dumps({"TableName": table_name, **members})[:-1]


def encode_key_value(value: Scalar) -> AttributeValue:
    """Return the checked value of a key attribute in DynamoDB's form."""
    encoded = encode_value(value, "a key")
    assert encoded is not None
    return encoded


def to_keytables_error(error: ServiceError, operation: str, table: str) -> KeytablesError:
    subject = f"{operation} on table {table!r}" if table else operation
    match error.code:
        case "ResourceNotFoundException":
            return TableNotFound(table)
        case "ValidationException" if error.message.startswith("Item size"):
            return ItemTooLarge(None, MAX_ITEM_SIZE)
        case "ValidationException" if "incorrect data type" in error.message:
            return SchemaError(f"{subject}: a set operation needs an attribute that is a set")
        case "ValidationException":
            return SchemaError(f"{subject} is refused: {error.message}")
    return Unavailable(f"{subject} fails: {error.code}")
