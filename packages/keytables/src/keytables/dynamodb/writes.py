"""Writes on their way to the database: their order, and what became of a conditional one.

Rules: writes of one item reach the database one after the other, in the order submitted; those of
different items at the same time. A write whose response was lost is known by what it left: when its
condition fails in a later attempt, and the item is as this write leaves it, the write was applied.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import ClassVar, Final, TypeVar

from keytables.dynamodb.client import ApiResponse
from keytables.dynamodb.codec import AttributeMap, decode_item, dumps, equal_items, loads
from keytables.dynamodb.retries import ServiceError
from keytables.dynamodb.table_client import TableClient
from keytables.dynamodb.templates import BoundExpression, create_request
from keytables.errors import ConditionFailed, Throttled, Unavailable
from keytables.expressions import Returning
from keytables.values import Item, KeyTuple, Scalar

__all__ = ["DeleteItem", "InFlightLimit", "PutItem", "UpdateItem", "WriteSequencer"]

_T = TypeVar("_T")

MAX_ATTEMPTS: Final = 10
"""Of a conditional write whose item is changed by others each time."""


class InFlightLimit:
    """How much one engine may have on its way: so many writes, of so many bytes.

    A write may be larger than what is left, but none begins when nothing is left. ``max_wait``:
    seconds that a write waits for earlier ones; after that it is Throttled, and not sent.
    """

    def __init__(
        self, max_writes: int = 10_000, max_bytes: int = 64 << 20, max_wait: float = 30.0
    ) -> None:
        self._writes, self._bytes = max_writes, max_bytes
        self.max_wait = max_wait
        self._closed = False

    def acquire(self, writes: int, size: int) -> None:
        """Count writes in. Raises Throttled, and Unavailable once the limit is closed."""
        if self._closed:
            raise Unavailable("the store is closed")
        if self._writes <= 0 or self._bytes <= 0:
            raise Throttled("too many writes are on their way to the database")
        self._writes -= writes
        self._bytes -= size

    def release(self, writes: int, size: int) -> None:
        self._writes += writes
        self._bytes += size

    def close(self) -> None:
        """Let no write begin any more."""
        self._closed = True


class WriteSequencer:
    """The writes of one table that are not complete, and the reads that wait for them."""

    def __init__(self, limit: InFlightLimit) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._last: dict[Scalar, dict[KeyTuple, asyncio.Task[None]]] = {}
        """The last write of each item, by partitions."""

    def submit(
        self, keys: Sequence[KeyTuple], size: int, write: Callable[[], Awaitable[_T]]
    ) -> asyncio.Future[_T]:
        """Call ``write``, which writes the items of these keys, once earlier writes are complete.

        It goes on when the future is cancelled. Raises Throttled and Unavailable; the future may
        fail with Throttled too, if the earlier writes take too long.
        """
        self._limit.acquire(len(keys), size)
        earlier: set[asyncio.Task[None]] = set()
        for key in keys:
            partition = self._last.get(key[0])
            if partition is not None and key in partition:
                earlier.add(partition[key])
        result: asyncio.Future[_T] = self._loop.create_future()
        task = self._loop.create_task(self._run(keys, size, earlier, write, result))
        for key in keys:
            self._last.setdefault(key[0], {})[key] = task
        return result

    async def wait_for_item(self, key: KeyTuple) -> None:
        """Wait for the writes of an item submitted until now."""
        partition = self._last.get(key[0])
        if partition is not None and (task := partition.get(key)) is not None:
            await asyncio.wait((task,))

    async def wait_for_partition(self, value: Scalar) -> None:
        """Wait for the writes of a partition submitted until now."""
        partition = self._last.get(value)
        if partition is not None:
            await asyncio.wait(set(partition.values()))

    async def wait_for_all(self) -> None:
        """Wait for every write submitted until now."""
        if self._last:
            await asyncio.wait({task for tasks in self._last.values() for task in tasks.values()})

    async def _run(
        self,
        keys: Sequence[KeyTuple],
        size: int,
        earlier: Collection[asyncio.Task[None]],
        write: Callable[[], Awaitable[_T]],
        result: asyncio.Future[_T],
    ) -> None:
        try:
            if earlier:
                deadline = self._loop.time() + self._limit.max_wait
                await asyncio.wait(earlier)
                if self._loop.time() > deadline:
                    raise Throttled("the writes before it took too long")
            value = await write()
            if not result.done():
                result.set_result(value)
        except asyncio.CancelledError:  # the loop ends
            result.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - passed on by the future
            if not result.done():
                result.set_exception(error)
        finally:
            del result  # it refers to the error, and that to this frame
            self._limit.release(len(keys), size)
            self._forget(keys)

    def _forget(self, keys: Iterable[KeyTuple]) -> None:
        own = asyncio.current_task()
        for key in keys:
            partition = self._last[key[0]]
            if partition[key] is own:
                del partition[key]
                if not partition:
                    del self._last[key[0]]


class _ConditionalWrite(ABC):
    """A write that has a condition, of the caller's or for expiry, or that returns an item.

    ``key``: the item's key as a member in JSON; ``item``: the whole item as JSON, for a put.
    ``has_condition``: the caller gave one; ``holds_for_missing_item``: and it does.
    """

    __slots__ = (
        "expression",
        "has_condition",
        "holds_for_missing_item",
        "key",
        "maybe_applied",
        "request",
        "returning",
        "table",
    )

    operation: ClassVar[str]

    def __init__(
        self,
        table: TableClient,
        expression: BoundExpression,
        key: bytes,
        *,
        item: bytes | None = None,
        has_condition: bool,
        holds_for_missing_item: bool,
        returning: Returning = Returning.NOTHING,
    ) -> None:
        self.table, self.expression, self.key = table, expression, key
        self.request = expression.request(key if item is None else b'"Item":' + item)
        self.has_condition = has_condition
        self.holds_for_missing_item = holds_for_missing_item
        self.returning = returning
        self.maybe_applied = False

    @property
    def size(self) -> int:
        """Bytes of the request."""
        return len(self.request.begin) + len(self.request.end)

    async def __call__(self) -> Item | None:
        """Do the write; return what it was asked to. Raises KeytablesError."""
        table, request = self.table, self.request
        try:
            for _ in range(MAX_ATTEMPTS):
                now = table.clock()
                try:
                    response = await table.call(self.operation, request.at(now))
                except ServiceError as error:
                    stored = await self._rejecting_item(error)
                else:
                    self.maybe_applied = self.maybe_applied or response.maybe_applied
                    return self.result(response, now)
                item = None if stored is None else decode_item(stored)
                is_live = item is not None and table.is_live(item, now)
                if self.maybe_applied and self.is_applied(stored, is_live=is_live):
                    return self.result_if_applied(item)
                if is_live and self.has_condition:
                    raise ConditionFailed(item)
                if not is_live and not self.holds_for_missing_item:
                    raise ConditionFailed(None)
                if not is_live:
                    done, result = await self.on_missing_item(expired=item is not None, now=now)
                    if done:
                        return result
            raise Throttled(
                f"{self.operation} on table {table.table.name!r}: the item changes all the time"
            )
        except Throttled as error:
            if not self.maybe_applied:
                raise
            raise Unavailable(f"{error}; an earlier attempt may have been applied") from error

    def result(self, _response: ApiResponse, _now: float) -> Item | None:
        """Return the result of a write that was applied at the time ``now``."""
        return None

    @abstractmethod
    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:
        """Return whether an earlier attempt of this write can have left what is stored."""

    def result_if_applied(self, _stored: Item | None) -> Item | None:
        """Return the result of a write that an earlier attempt has applied."""
        return None

    async def on_missing_item(
        self,
        *,
        expired: bool,  # noqa: ARG002
        now: float,  # noqa: ARG002
    ) -> tuple[bool, Item | None]:
        """Do what this write does where there is no item, or an expired one. Returns whether that
        completes it, and its result; if it does not, the write is tried again.
        """
        return False, None

    async def _rejecting_item(self, error: ServiceError) -> AttributeMap | None:
        self.maybe_applied = self.maybe_applied or error.maybe_applied
        return await self.table.rejecting_item(error, self.key)


class PutItem(_ConditionalWrite):
    """Stores an item if the condition holds."""

    __slots__ = ()

    operation = "PutItem"

    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:  # noqa: ARG002
        # Live or not: the item may be one that has expired already.
        return stored is not None and equal_items(stored, loads(self.request.at(0))["Item"])


class DeleteItem(_ConditionalWrite):
    """Deletes an item if the condition holds, and returns it if asked for."""

    __slots__ = ()

    operation = "DeleteItem"

    def result(self, response: ApiResponse, now: float) -> Item | None:
        if self.returning is Returning.NOTHING:
            return None
        stored: AttributeMap | None = loads(response.body).get("Attributes")
        old = decode_item(stored) if stored else None
        return old if old is not None and self.table.is_live(old, now) else None

    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:  # noqa: ARG002
        return not is_live


class UpdateItem(_ConditionalWrite):
    """Changes attributes of an item if the condition holds, creating it if ``creates``."""

    __slots__ = ("creates",)

    operation = "UpdateItem"
    creates: bool

    def result(self, response: ApiResponse, _now: float) -> Item | None:
        if self.returning is Returning.NOTHING:
            return None
        item: AttributeMap | None = loads(response.body).get("Attributes")
        return decode_item(item) if item else None

    def is_applied(self, stored: AttributeMap | None, *, is_live: bool) -> bool:
        actions = self.expression.expression.actions
        # It changes no expired item, but may be what lets the item expire.
        if stored is None or not (is_live or self.table.table.expiry in actions.sets):
            return False
        return actions.is_applied(stored, self.expression.values)

    def result_if_applied(self, stored: Item | None) -> Item | None:
        return None if self.returning is Returning.NOTHING else stored

    async def on_missing_item(self, *, expired: bool, now: float) -> tuple[bool, Item | None]:
        if not self.creates:
            return True, None
        if not expired:
            return False, None
        # Nothing of an expired item may be left: it is replaced as a whole.
        table, bound = self.table, self.expression
        key = loads(b"{%b}" % self.key)["Key"]
        item = bound.expression.actions.new_item(key, bound.values)
        request = create_request(table.table, table.name, dumps(item))
        try:
            await table.call("PutItem", request.at(now))
        except ServiceError as error:
            stored = await self._rejecting_item(error)
            if not self.maybe_applied or stored is None or not equal_items(stored, item):
                return False, None
        return True, decode_item(item) if self.returning is Returning.NEW else None
