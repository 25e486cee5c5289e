"""The table interface: what every engine offers, and nothing about how.

The one rule: every primitive is idempotent or conditional, because replies get lost: done twice, it
leaves what it leaves done once.

Writes
    ``put``, ``update``, ``delete`` and ``batch_write`` are *submitted when called*, not when
    awaited; they never raise, and never suspend. Writes of one process to one item are applied in
    the order submitted. The answer is awaited for the durable commit and for every error. An answer
    nobody awaits is logged by asyncio if it failed. Cancelling the wait does not recall the write.

Lost replies
    Where a database may apply a write and its reply get lost, the engine tries again. If the
    condition fails then, and the item is as this write leaves it, the write is done. With
    ``Returning.OLD`` the answer may in that case be what its own first try left.

Reads
    ``get`` and ``query`` see every write this process submitted to that partition before, and all
    that other processes committed. An embedded engine answers without suspending, unless such a
    write is still on its way.

Expiry
    An expired item (see :class:`~keytables.schema.Table`) is absent for all of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeAlias

from keytables.errors import TableNotFound
from keytables.expressions import Condition, Returning, Update
from keytables.schema import Capacity, Cursor, Item, KeyTuple, Page, Range, Scalar, Table, Value

__all__ = ["Clock", "Engine", "TableHandle", "Values"]

Clock: TypeAlias = Callable[[], float]
"""Returns seconds since the epoch."""

Values: TypeAlias = Mapping[str, Value]
"""Values of the parameters of an expression. They may be changed after the call."""


class TableHandle(ABC):
    """One table of an engine, ready to be used. Made by :meth:`Engine.ensure_table`.

    Every method may fail with Throttled, Unavailable, SchemaError (a key of the wrong kind, empty,
    or too long; a value that cannot be stored; a missing parameter) or TableNotFound (it was
    dropped meanwhile); further errors are named where they arise.
    """

    table: Table

    @abstractmethod
    async def get(self, key: KeyTuple) -> Item | None:
        """Return the item, or ``None`` when there is none."""

    @abstractmethod
    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        """Store the item in place of whatever had its key.

        The item is taken as it is now; it may be changed after the call. Errors: ItemTooLarge,
        ConditionFailed (judged on the item stored before).
        """

    @abstractmethod
    def update(
        self,
        key: KeyTuple,
        update: Update,
        values: Values | None = None,
        *,
        condition: Condition | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        """Change attributes of an item, making it when absent, and leaving the others alone.

        Answers with the whole item as ``returning`` says: OLD is ``None`` when there was none, NEW
        is ``None`` when there is still none. Errors: ConditionFailed, ItemTooLarge, SchemaError
        when a set operation meets an attribute that is not a set.
        """

    @abstractmethod
    def delete(
        self,
        key: KeyTuple,
        *,
        condition: Condition | None = None,
        values: Values | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        """Delete the item if it is there. ``returning`` is NOTHING or OLD.

        Errors: ConditionFailed.
        """

    @abstractmethod
    async def query(
        self,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        """Return items of one partition in the order of their sort keys.

        ``limit`` bounds the live items of this page; it may be shorter all the same, follow
        ``cursor``. An item that is there from the first page to the last is met exactly once.
        """

    @abstractmethod
    async def query_index(
        self,
        index_name: str,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        """Return items by the keys of an index, in the order of its sort key.

        May lag behind writes in engines that keep indexes apart.
        """

    @abstractmethod
    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        """Return items of the whole table in an order of the engine's."""

    @abstractmethod
    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        """Return the items of any number of keys, in any order; missing ones are left out.

        A key given twice is answered once.
        """

    @abstractmethod
    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        """Put and delete any number of items without conditions, in any order.

        Not atomic: after an error some may be applied. Repeat it, it is idempotent. SchemaError and
        ItemTooLarge come before anything is queued; so does the SchemaError for a key that is put
        twice, or put and deleted.
        """

    def loading(self) -> AbstractAsyncContextManager[None]:
        """A context in which a table that is empty is filled: writing may cost less, and
        ``query_index`` more.

        Nothing else is different, for anybody, whatever becomes of whoever loads.
        """
        return nullcontext()


class Engine(ABC):
    """A store of tables."""

    @abstractmethod
    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> TableHandle:
        """Make the table when it is missing; idempotent, also among processes at the same time.

        A new one gets that capacity; with None it is billed by use. Raises SchemaError when it
        exists with other keys, indexes or expiry. (Where a database keeps expiry as a setting
        beside the table, it is turned on in a table that has none; one more index does no harm.)
        """

    async def open_table(self, table: Table) -> TableHandle:
        """Open a table that is there, and change nothing about it.

        Raises TableNotFound, or SchemaError when it has other keys or indexes.
        """
        if table.name not in await self.table_names():
            raise TableNotFound(table.name)
        return await self.ensure_table(table)

    @abstractmethod
    async def drop_table(self, name: str) -> None:
        """Drop a table and all it holds; a missing one is fine."""

    @abstractmethod
    async def table_names(self) -> list[str]:
        """Return the names of all tables, sorted."""

    async def capacity(self, name: str) -> Capacity | None:  # noqa: ARG002
        """Return what a table is provisioned for; None where it is billed by use, or not at all."""
        return None

    async def set_capacity(self, name: str, capacity: Capacity) -> None:  # noqa: B027
        """Provision a table and its indexes anew; nothing happens where there is no such thing, and
        to a table that is billed by use.
        """

    @abstractmethod
    async def close(self) -> None:
        """Wait for the submitted writes, then let go of everything. Idempotent.

        Calls after it fail with Unavailable.
        """
