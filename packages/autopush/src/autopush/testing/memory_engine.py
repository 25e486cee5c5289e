"""An engine in memory: it does what the services ask of a store, and does not check what they never
do, such as opening a table with another declaration.

As the interface requires, writes are submitted when called and completed later.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence

from keytables.checks import snapshot
from keytables.engine import Clock, Engine, Query, TableHandle, WriteOptions
from keytables.errors import ConditionFailed, KeytablesError, TableNotFound
from keytables.expressions import Returning, Update, compile_condition, compile_update
from keytables.schema import Capacity, Cursor, Index, Page, Range, Table
from keytables.values import Item, KeyTuple, Values


def frozen(values: Values | None) -> Item:
    """A copy of the values, as they are stored."""
    return {name: snapshot(value, name) for name, value in (values or {}).items()}


def copied(item: Item | None) -> Item | None:
    return None if item is None else frozen(item)


class MemoryEngine(Engine):
    """``nearly_full``: what it says of its room."""

    def __init__(self, clock: Clock = time.time) -> None:
        self.clock = clock
        self.tables: dict[str, MemoryTable] = {}
        self.capacities: dict[str, Capacity] = {}
        self.nearly_full = False

    @property
    def is_nearly_full(self) -> bool:
        return self.nearly_full

    async def ensure_table(
        self, table: Table, *, capacity: Capacity | None = None
    ) -> "MemoryTable":
        if table.name not in self.tables and capacity is not None:
            self.capacities[table.name] = capacity
        return self.tables.setdefault(table.name, MemoryTable(self, table))

    async def drop_table(self, name: str) -> None:
        self.tables.pop(name, None)
        self.capacities.pop(name, None)

    async def capacity(self, name: str) -> Capacity | None:
        return self.capacities.get(name)

    async def set_capacity(self, name: str, capacity: Capacity) -> None:
        if name in self.capacities:
            self.capacities[name] = capacity

    async def table_names(self) -> list[str]:
        return sorted(self.tables)

    async def close(self) -> None:
        self.tables.clear()

    def called(self, what: str) -> None:
        """Before each call of a table; ``what``: its kind and the table, such as "put message"."""
        _, _, table = what.partition(" ")
        if table and table not in self.tables:
            raise TableNotFound(table)


class MemoryTable(TableHandle):
    def __init__(self, engine: MemoryEngine, table: Table) -> None:
        super().__init__(table)
        self.engine = engine
        self.items: dict[KeyTuple, Item] = {}

    def _live(self, key: KeyTuple) -> Item | None:
        item = self.items.get(key)
        expiry = item.get(self.table.expiry) if item and self.table.expiry else None
        if isinstance(expiry, int) and 0 < expiry <= self.engine.clock():
            return None
        return item

    def _key(self, item: Item) -> KeyTuple:
        key: KeyTuple = tuple(item[name] for name in self.table.key_names)  # type: ignore[misc]
        return key

    def _submit(self, what: str, work: Callable[[], Item | None]) -> "asyncio.Future[Item | None]":
        future: asyncio.Future[Item | None] = asyncio.get_running_loop().create_future()
        try:
            self.engine.called(f"{what} {self.table.name}")
            answer = copied(work())
        except KeytablesError as error:
            asyncio.get_running_loop().call_soon(future.set_exception, error)
        else:
            asyncio.get_running_loop().call_soon(future.set_result, answer)
        return future

    def _check(self, key: KeyTuple, options: WriteOptions | None) -> None:
        if options is None or options.condition is None:
            return
        holds = compile_condition(options.condition)
        if not holds(self._live(key) or {}, frozen(options.values)):
            raise ConditionFailed(self._live(key))

    async def get(self, key: KeyTuple) -> Item | None:
        self.engine.called(f"get {self.table.name}")
        return copied(self._live(key))

    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]:
        def work() -> None:
            self._check(self._key(item), options)
            self.items[self._key(item)] = frozen(item)

        return self._submit("put", work)  # type: ignore[return-value]

    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]:
        def work() -> Item | None:
            self._check(key, options)
            change, creates = compile_update(self.table, update)
            old = self._live(key)
            if old is None and not creates:
                return None
            item: Item = dict(old or zip(self.table.key_names, key, strict=True))
            change(item, frozen(options.values))
            self.items[key] = item
            return {Returning.OLD: old, Returning.NEW: item}.get(options.returning)

        return self._submit("update", work)

    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]:
        def work() -> Item | None:
            self._check(key, options)
            old = self._live(key)
            self.items.pop(key, None)
            return old if options is not None and options.returning is Returning.OLD else None

        return self._submit("delete", work)

    async def _query(self, query: Query) -> Page:
        if query.index is not None:
            return self._query_index(query, query.index)
        self.engine.called(f"query {self.table.name}")
        bounds, after = query.sort or Range(), query.after
        items = [
            item
            for key in sorted(self.items, reverse=query.descending)
            if key[0] == query.partition
            and (bounds.gt is None or key[1] > bounds.gt)  # type: ignore[operator]
            and (bounds.ge is None or key[1] >= bounds.ge)  # type: ignore[operator]
            and (bounds.lt is None or key[1] < bounds.lt)  # type: ignore[operator]
            and (bounds.le is None or key[1] <= bounds.le)  # type: ignore[operator]
            and (bounds.prefix is None or str(key[1]).startswith(str(bounds.prefix)))
            and (after is None or key > after.position)
            and (item := self._live(key)) is not None
        ]
        return self._page(items, query.limit)

    def _query_index(self, query: Query, index: Index) -> Page:
        self.engine.called(f"query_index {self.table.name}")
        names = {index.partition.name, *self.table.key_names}
        items = [
            item if not index.keys_only else {name: item[name] for name in names}
            for item in self._in_order(None if index.sort else query.after)
            if item.get(index.partition.name) == query.partition
        ]
        if index.sort is None:
            assert (query.sort, query.descending) == (None, False)
            return self._page(items, query.limit)
        # Not used by the service.
        assert (query.limit, query.after, query.descending) == (None, None, False)
        by, bounds = index.sort.name, query.sort or Range()
        assert (bounds.gt, bounds.lt, bounds.prefix) == (None, None, None)
        return Page(
            sorted(
                (
                    item
                    for item in map(frozen, items)
                    if (bounds.ge is None or item[by] >= bounds.ge)  # type: ignore[operator]
                    and (bounds.le is None or item[by] <= bounds.le)  # type: ignore[operator]
                ),
                key=lambda item: (item[by], self._key(item)),
            ),
            None,
        )

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        self.engine.called(f"scan {self.table.name}")
        return self._page(list(self._in_order(after)), limit)

    def _in_order(self, after: Cursor | None) -> Iterator[Item]:
        for key in sorted(self.items):
            if (after is None or key > after.position) and (item := self._live(key)) is not None:
                yield item

    def _page(self, items: list[Item], limit: int | None) -> Page:
        page = items[:limit] if limit is not None else items
        more = len(page) < len(items)
        return Page([frozen(item) for item in page], Cursor(self._key(page[-1])) if more else None)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        self.engine.called(f"batch_get {self.table.name}")
        return [frozen(item) for key in keys if (item := self._live(key)) is not None]

    def _batch_write(self, puts: Sequence[Item], deletes: Collection[KeyTuple]) -> Awaitable[None]:
        new = [frozen(item) for item in puts]

        def work() -> None:
            for item in new:
                self.items[self._key(item)] = item
            for key in deletes:
                self.items.pop(key, None)

        return self._submit("batch_write", work)  # type: ignore[return-value]
