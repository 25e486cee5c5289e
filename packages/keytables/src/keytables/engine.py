"""The interface that every engine implements.

Rule: every primitive is idempotent or conditional, because replies get lost: a write that is
repeated leaves the same item as the first one.

Writes
    ``put``, ``update``, ``delete`` and ``batch_write`` are *submitted when called*, not when
    awaited; the call never raises and never suspends. Writes of one process to one item are applied
    in the order submitted. Await the result for the durable commit and for every error. asyncio
    logs the error of a result that is not awaited. Cancelling the wait does not cancel the write.

Lost replies
    Where a database may apply a write whose reply is then lost, the engine retries. If the
    condition fails on the retry, and the item is as this write leaves it, the write succeeded. With
    ``Returning.OLD`` the result may in that case be the item that the first attempt left.

Reads
    ``get`` and ``query`` see every write that this process submitted to that partition before, and
    all that other processes committed. An embedded engine returns without suspending, unless such a
    write is not committed yet.

Expiry
    An expired item (see :class:`~keytables.schema.Table`) is absent for every primitive.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from keytables.checks import key_tuple_check
from keytables.errors import KeytablesError, SchemaError, TableNotFound
from keytables.expressions import Condition, Returning, Update
from keytables.schema import Capacity, Cursor, Index, Page, Range, Table
from keytables.values import Item, KeyTuple, Scalar, Values

Clock: TypeAlias = Callable[[], float]
"""Returns seconds since the epoch."""

OnFailure: TypeAlias = Callable[[KeytablesError], None]
"""Called for every failure of the database itself (a commit, a read, a checkpoint); the caller also
gets the exception. Not called for conditions, mistakes of a caller or limits of this engine. Called
on the event loop; it must not raise."""


class WriteOptions(msgspec.Struct, frozen=True):
    """What else was said of a write."""

    condition: Condition | None
    values: Values | None
    returning: Returning


class Query(msgspec.Struct, frozen=True):
    """What a query asks for: a page of one partition of the table, or of an index."""

    partition: Scalar
    index: Index | None
    sort: Range | None
    limit: int | None
    descending: bool
    after: Cursor | None


class TableHandle(ABC):
    """One open table of an engine. Created by :meth:`Engine.ensure_table`.

    Every method may fail with Throttled, Unavailable, SchemaError (a key of the wrong type, empty
    or too long; a value that cannot be stored; a missing parameter) or TableNotFound (it was
    dropped meanwhile); a method's docstring names the errors it adds. Arguments may be changed
    after the call.
    """

    settle_time: float = 0.0
    """Seconds after its result in which a put that was repeated, or failed with Unavailable, may
    still take effect and replace later writes. 0 in engines where none does."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._check_key = key_tuple_check(table)

    async def unsettled(self, keys: Sequence[KeyTuple]) -> frozenset[KeyTuple]:  # noqa: ARG002
        """Wait for the submitted writes of these items; return the keys of puts that may come late.

        It knows the puts of this process, and those passed to :meth:`note_unsettled`.
        """
        return frozenset()

    def note_unsettled(self, key: KeyTuple) -> None:  # noqa: B027
        """Count this item as unsettled: a put by another process may take effect late."""

    # --- writes -------------------------------------------------------------------------------

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        """Store the item, replacing one with the same key.

        The condition is evaluated on the stored item. Errors: ItemTooLarge, ConditionFailed.
        """
        try:
            if condition is None:
                return self._put(item, None)
            return self._put(item, WriteOptions(condition, values, Returning.NOTHING))
        except KeytablesError as error:
            return refused_write(error)

    def update(
        self,
        key: KeyTuple,
        update: Update,
        values: Values | None = None,
        *,
        condition: Condition | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        """Change some attributes of an item, which is created when absent.

        Returns the whole item as ``returning`` says: OLD is ``None`` when there was none, NEW is
        ``None`` when there is still none. Errors: ConditionFailed, ItemTooLarge, SchemaError when a
        set operation is applied to an attribute that is not a set.
        """
        try:
            options = WriteOptions(condition, values, returning)
            return self._update(self._check_key(key), update, options)
        except KeytablesError as error:
            return refused_write(error)

    def delete(
        self,
        key: KeyTuple,
        *,
        condition: Condition | None = None,
        values: Values | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        """Delete the item if it exists. ``returning`` is NOTHING or OLD.

        Errors: ConditionFailed.
        """
        try:
            checked = self._check_key(key)
            if condition is None and returning is Returning.NOTHING:
                return self._delete(checked, None)
            if returning is Returning.NEW:
                raise SchemaError("a delete can return nothing or the old item")
            return self._delete(checked, WriteOptions(condition, values, returning))
        except KeytablesError as error:
            return refused_write(error)

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        """Put and delete any number of items without conditions, in any order.

        Not atomic: after an error, some may have been applied; the call is idempotent and can be
        repeated. After SchemaError (also for a key that is put twice, or put and deleted) and
        ItemTooLarge, nothing was applied.
        """
        try:
            return self._batch_write(list(puts), dict.fromkeys(map(self._check_key, deletes)))
        except KeytablesError as error:
            return refused_write(error)

    def loading(self) -> AbstractAsyncContextManager[None]:
        """Context for the bulk load of an empty table: writes may cost less, and ``query_index``
        more.

        Results are the same for every process, even after a crash of the loading one.
        """
        return nullcontext()

    # --- reads --------------------------------------------------------------------------------

    @abstractmethod
    async def get(self, key: KeyTuple) -> Item | None:
        """Return the item, or ``None`` when there is none."""

    @abstractmethod
    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        """Return the items of any number of keys, in any order; absent ones are left out.

        An item is returned once, even if its key is given twice.
        """

    def query(
        self,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Coroutine[Any, Any, Page]:
        """Return items of one partition in the order of their sort keys.

        ``limit`` bounds the items of this page, which may be shorter although more follow (see
        :class:`~keytables.schema.Page`). An item that exists during the whole iteration is returned
        exactly once.
        """
        return self._query(Query(partition, None, sort, limit, descending, after))

    def query_index(
        self,
        index_name: str,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Coroutine[Any, Any, Page]:
        """Return items by the keys of an index, in the order of its sort key.

        Eventually consistent in engines that replicate indexes asynchronously.
        """
        index = self.table.index(index_name)
        return self._query(Query(partition, index, sort, limit, descending, after))

    @abstractmethod
    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        """Return items of the whole table, in no particular order."""

    # --- what an engine does ------------------------------------------------------------------
    #
    # Keys were checked, those of an item to put and of a query excepted. A write may raise what
    # refuses it: the caller gets it from the awaitable.

    @abstractmethod
    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]: ...

    @abstractmethod
    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]: ...

    @abstractmethod
    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]: ...

    @abstractmethod
    def _batch_write(
        self, puts: Sequence[Item], deletes: Collection[KeyTuple]
    ) -> Awaitable[None]: ...

    @abstractmethod
    def _query(self, query: Query) -> Coroutine[Any, Any, Page]: ...


def refused_write(error: KeytablesError) -> "asyncio.Future[Any]":
    future = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future


@dataclass(slots=True)
class Activity:
    """What an engine did on its server since it was opened. ``connections``: open now;
    ``connection_waits``: reads that found none free. ``written``: items changed by the commits.
    """

    connections: int = 0
    connection_waits: int = 0
    round_trips: int = 0
    commits: int = 0
    written: int = 0


class Engine(ABC):
    @abstractmethod
    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> TableHandle:
        """Create the table unless it exists; idempotent, also among concurrent processes.

        A new table gets ``capacity``; with None it is billed by use. Raises SchemaError when it
        exists with other keys, indexes or expiry. (Where a database keeps expiry as a setting
        beside the table, it is enabled if there is none, and additional indexes are accepted.)
        """

    async def open_table(self, table: Table) -> TableHandle:
        """Open an existing table, without creating or changing it.

        Raises TableNotFound, or SchemaError when it has other keys or indexes.
        """
        if table.name not in await self.table_names():
            raise TableNotFound(table.name)
        return await self.ensure_table(table)

    @abstractmethod
    async def drop_table(self, name: str) -> None:
        """Drop a table with its items; idempotent."""

    @abstractmethod
    async def table_names(self) -> list[str]:
        """Return the names of all tables, sorted."""

    @property
    def parts(self) -> int:
        """Number of parts that are written independently of each other."""
        return 1

    def part_of(self, partition: Scalar) -> int:  # noqa: ARG002
        """Return the part with the items of this partition key, of every table; from 0."""
        return 0

    @property
    def is_nearly_full(self) -> bool:
        """Whether less space is free than is kept for deletions and small writes.

        Cheap enough to be read before each write. False in engines without a disk of their own.
        """
        return False

    async def check_space(self) -> None:  # noqa: B027 - an engine without a disk has none to check
        """Raise StorageFull if new items have no space; small writes may still succeed."""

    @property
    def clock_jump(self) -> float:
        """Seconds by which the clock was set, while expired items are kept for that; else 0.0."""
        return 0.0

    @property
    def trouble(self) -> str:
        """Why writes are not confirmed now, as far as it is known; "" otherwise."""
        return ""

    @property
    def failovers(self) -> int:
        """How often this process found another server, or another history of the data, in the place
        of the former one: what was committed shortly before may be lost, where the database
        replicates asynchronously.
        """
        return 0

    async def clock_difference(self, clock: Clock) -> float:  # noqa: ARG002
        """Ask for the seconds by which the database's clock is ahead of this one: of processes on
        several machines, it is the one that all of them know. 0.0 where there is none.
        """
        return 0.0

    @property
    def activity(self) -> Activity | None:
        """What was done so far; None in engines that do not count it."""
        return None

    @property
    def expired(self) -> Mapping[str, int]:
        """Items that this process has removed as they had expired, by table; none where the
        database does that.
        """
        return {}

    async def capacity(self, name: str) -> Capacity | None:  # noqa: ARG002
        """Return the provisioned capacity of a table; None where it has none."""
        return None

    async def set_capacity(self, name: str, capacity: Capacity) -> None:  # noqa: B027
        """Change the provisioned capacity of a table and its indexes; without one, do nothing."""

    @abstractmethod
    async def close(self) -> None:
        """Wait for the submitted writes, then release all resources. Idempotent.

        Later calls fail with Unavailable.
        """
