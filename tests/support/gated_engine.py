"""An engine as one process sees it: its calls can be held, failed, or never answered.

Calls are carried out one after the other in the order in which they were made, so what the
interface promises of order holds while one of them is held.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from keytables import (
    Capacity,
    Condition,
    Cursor,
    Engine,
    Item,
    KeyTuple,
    Page,
    Range,
    Returning,
    Scalar,
    Table,
    TableHandle,
    Update,
    Values,
)

T = TypeVar("T")
Hook = Callable[[int, str], Awaitable[None]]
"""Gets the number of a call, from 0, and its kind: for example "put message_2026_11"."""


async def _nothing(number: int, what: str) -> None:
    """Do nothing: the call is made."""


class GatedEngine(Engine):
    """`before` and `after` are awaited around each call; what they raise is the call's error."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.before: Hook = _nothing
        self.after: Hook = _nothing
        self.waiting = 0
        """Calls that are not answered."""
        self._last: asyncio.Future[None] | None = None
        self._held: asyncio.Future[None] | None = None

    @property
    def is_nearly_full(self) -> bool:
        return self.inner.is_nearly_full

    def start_counting(self) -> None:
        """The next call is number 0."""
        self.calls.clear()

    def at(self, number: int, hook: Callable[[], Awaitable[None]]) -> None:
        """Run the hook before the call of this number."""

        async def before(reached: int, what: str) -> None:
            if reached == number:
                await hook()

        self.start_counting()
        self.before = before

    async def hold(self) -> None:
        """A hook: no call is made until `step` or `release`."""
        self._held = asyncio.get_running_loop().create_future()
        await self._held

    def step(self) -> None:
        """Make the call that is held."""
        if self._held is not None:
            self._held.set_result(None)
            self._held = None

    def release(self) -> None:
        """Make the call that is held, and all after it."""
        self.before = self.after = _nothing
        self.step()

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def pass_gate(self, what: str, call: Callable[[], Awaitable[T]]) -> Coroutine[Any, Any, T]:
        """Queue the call now; it is carried out when those before it are done."""
        before, self._last = self._last, asyncio.get_running_loop().create_future()
        self.waiting += 1
        return self._in_turn(what, call, before, self._last)

    async def _in_turn(
        self,
        what: str,
        call: Callable[[], Awaitable[T]],
        before: "asyncio.Future[None] | None",
        done: "asyncio.Future[None]",
    ) -> T:
        try:
            if before is not None:
                await before
            number = len(self.calls)
            self.calls.append(what)
            await self.before(number, what)
            answer = await call()
            await self.after(number, what)
            return answer
        finally:
            self.waiting -= 1
            if not done.done():  # at the end of a test all that waits is cancelled
                done.set_result(None)

    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> TableHandle:
        made = await self._ungated(self.inner.ensure_table(table, capacity=capacity))
        return GatedTable(self, made)

    async def drop_table(self, name: str) -> None:
        await self._ungated(self.inner.drop_table(name))

    async def table_names(self) -> list[str]:
        return await self._ungated(self.inner.table_names())

    async def _ungated(self, call: Awaitable[T]) -> T:
        self.waiting += 1
        try:
            return await call
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        """The inner engine has other users."""


class GatedTable(TableHandle):
    def __init__(self, engine: GatedEngine, inner: TableHandle) -> None:
        self.table = inner.table
        self._engine = engine
        self._inner = inner

    async def _read(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        return await self._engine.pass_gate(f"{what} {self.table.name}", call)

    def _write(self, what: str, call: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        return asyncio.ensure_future(self._engine.pass_gate(f"{what} {self.table.name}", call))

    async def get(self, key: KeyTuple) -> Item | None:
        return await self._read("get", lambda: self._inner.get(key))

    def put(
        self, item: Item, *, condition: Condition | None = None, values: Values | None = None
    ) -> Awaitable[None]:
        item = dict(item)
        return self._write("put", lambda: self._inner.put(item, condition=condition, values=values))

    def update(
        self,
        key: KeyTuple,
        update: Update,
        values: Values | None = None,
        *,
        condition: Condition | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        return self._write(
            "update",
            lambda: self._inner.update(
                key, update, values, condition=condition, returning=returning
            ),
        )

    def delete(
        self,
        key: KeyTuple,
        *,
        condition: Condition | None = None,
        values: Values | None = None,
        returning: Returning = Returning.NOTHING,
    ) -> Awaitable[Item | None]:
        return self._write(
            "delete",
            lambda: self._inner.delete(
                key, condition=condition, values=values, returning=returning
            ),
        )

    async def query(
        self,
        partition: Scalar,
        *,
        sort: Range | None = None,
        limit: int | None = None,
        descending: bool = False,
        after: Cursor | None = None,
    ) -> Page:
        return await self._read(
            "query",
            lambda: self._inner.query(
                partition, sort=sort, limit=limit, descending=descending, after=after
            ),
        )

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
        return await self._read(
            "query_index",
            lambda: self._inner.query_index(
                index_name, partition, sort=sort, limit=limit, descending=descending, after=after
            ),
        )

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        return await self._inner.scan(limit=limit, after=after)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        return await self._inner.batch_get(keys)

    def batch_write(
        self, *, puts: Iterable[Item] = (), deletes: Iterable[KeyTuple] = ()
    ) -> Awaitable[None]:
        items, keys = list(puts), list(deletes)
        return self._write("batch_write", lambda: self._inner.batch_write(puts=items, deletes=keys))
