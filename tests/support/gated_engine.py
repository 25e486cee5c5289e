"""An engine as one process sees it: its calls can be held, failed, or never answered.

Calls are carried out one after the other in the order in which they were made, so what the
interface promises of order holds while one of them is held.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from keytables import Capacity, Cursor, Engine, Item, KeyTuple, Page, Table, TableHandle, Update
from keytables.engine import Query, WriteOptions

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
        super().__init__(inner.table)
        self._engine = engine
        self._inner = inner

    def _pass(
        self, what: str, method: Callable[..., Awaitable[T]], *given: object
    ) -> Coroutine[Any, Any, T]:
        call = partial(method, *copy.deepcopy(given))
        return self._engine.pass_gate(f"{what} {self.table.name}", call)

    async def get(self, key: KeyTuple) -> Item | None:
        return await self._pass("get", self._inner.get, key)

    def _query(self, query: Query) -> Coroutine[Any, Any, Page]:
        what = "query" if query.index is None else "query_index"
        return self._pass(what, self._inner._query, query)

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        return await self._inner.scan(limit=limit, after=after)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        return await self._inner.batch_get(keys)

    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]:
        return asyncio.ensure_future(self._pass("put", self._inner._put, item, options))

    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]:
        write = self._pass("update", self._inner._update, key, update, options)
        return asyncio.ensure_future(write)

    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]:
        return asyncio.ensure_future(self._pass("delete", self._inner._delete, key, options))

    def _batch_write(self, puts: Sequence[Item], deletes: Collection[KeyTuple]) -> Awaitable[None]:
        write = self._pass("batch_write", self._inner._batch_write, puts, deletes)
        return asyncio.ensure_future(write)
