"""A table of a store of several parts: each operation goes to the part with its rows.

Rule: writes to one item are applied in the order submitted, also while its part is being opened.
"""

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

import msgspec

from keytables.checks import check_batch, item_size, snapshot_all
from keytables.commit.completions import clone_error
from keytables.commit.rows import RowEncoder
from keytables.engine import Query, TableHandle, WriteOptions, refused_write
from keytables.errors import KeytablesError, Throttled
from keytables.expressions import Update
from keytables.schema import Cursor, Index, Page, Table
from keytables.sqlite.database import described
from keytables.sqlite.layout import part_of
from keytables.sqlite.statements import Queries, Statements
from keytables.values import Item, KeyTuple

_T = TypeVar("_T")

_PAGE_ITEMS: Final = 200
"""Items of a scan after which it does not begin the next part."""

_MAX_WAITING: Final = 1000
_MAX_WAITING_BYTES: Final = 16 << 20
"""Writes that wait for a part to be opened; further ones are Throttled."""


async def await_all(awaitables: Iterable[Awaitable[_T]]) -> list[_T]:
    """Await all of them, then raise the first error."""
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]  # none is an exception


class PartedTable(TableHandle):
    """``open_table``: opens the table in a part, by its number."""

    def __init__(
        self, table: Table, parts: int, open_table: Callable[[int], Awaitable[TableHandle]]
    ) -> None:
        super().__init__(table)
        self._count, self._open_table = parts, open_table
        self._partition, self._key_names = table.partition.name, table.key_names
        self._codec, self._queries = RowEncoder(table), Queries(Statements(table, '""'))
        self._handles: list[TableHandle] = [self._unopened(number) for number in range(parts)]

    def set_handle(self, number: int, handle: TableHandle | None) -> None:
        """Set the table of a part that is open; None: it is not in there, as in a new part."""
        current = self._handles[number]
        if not isinstance(current, _UnopenedTable):
            self._handles[number] = handle or self._unopened(number)
        elif handle is not None and not current.is_opening:
            # One that is being opened takes the place itself, before the writes that wait.
            self._handles[number] = handle

    def _unopened(self, number: int) -> "_UnopenedTable":
        def on_opened(handle: TableHandle) -> None:
            self._handles[number] = handle

        return _UnopenedTable(self.table, partial(self._open_table, number), on_opened=on_opened)

    async def finish(self) -> None:
        """Wait for the parts that are being opened."""
        for handle in self._handles:
            if isinstance(handle, _UnopenedTable):
                await handle.finish()

    def _of(self, partition: object) -> TableHandle:
        return self._handles[part_of(partition, self._count)]  # which refuses what is no key

    # --- of one item or partition -------------------------------------------------------------

    def get(self, key: KeyTuple) -> Coroutine[Any, Any, Item | None]:
        return self._of(key[0] if key else None).get(key)

    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]:
        return self._of(item.get(self._partition))._put(item, options)

    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]:
        return self._of(key[0])._update(key, update, options)

    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]:
        return self._of(key[0])._delete(key, options)

    def _query(self, query: Query) -> Coroutine[Any, Any, Page]:
        if query.index is None:
            return self._of(query.partition)._query(query)
        return self._query_index(query, query.index)

    # --- of several parts ---------------------------------------------------------------------

    async def _query_index(self, query: Query, index: Index) -> Page:
        """Every part returns a page; they are merged up to where the shortest of them ends."""
        pages = await await_all(handle._query(query) for handle in self._handles)
        descending, limit = query.descending, query.limit
        names = self._queries.index_names(index)
        rows = [
            (cast(KeyTuple, tuple(item[name] for name in names)), item)
            for page in pages
            for item in page.items
        ]
        rows.sort(key=lambda row: row[0], reverse=descending)
        ends = [page.cursor.position for page in pages if page.cursor is not None]
        end = (max(ends) if descending else min(ends)) if ends else None
        if end is not None:
            rows = [row for row in rows if (row[0] >= end if descending else row[0] <= end)]
        if limit is not None and len(rows) > limit:
            rows, end = rows[:limit], rows[limit - 1][0]
        return Page([item for _, item in rows], None if end is None else Cursor(end))

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        """One part after the other. The key at which a page ended says in which part it was."""
        number = 0
        if after is not None and after.position:
            number = part_of(after.position[0], self._count)
        items: list[Item] = []
        while True:
            rest = None if limit is None else limit - len(items)
            page = await self._handles[number].scan(limit=rest, after=after)
            items += page.items
            number, after = number + 1, None
            if page.cursor is not None or number == self._count:
                return Page(items, page.cursor)
            if len(items) == limit or len(items) >= _PAGE_ITEMS:
                last = tuple(items[-1][name] for name in self._key_names)
                return Page(items, Cursor(cast(KeyTuple, last)))

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        shares: dict[int, list[KeyTuple]] = {}
        for key in keys:
            checked = self._check_key(key)
            shares.setdefault(part_of(checked[0], self._count), []).append(checked)
        answers = await await_all(
            self._handles[part].batch_get(share) for part, share in shares.items()
        )
        return [item for share in answers for item in share]

    def _batch_write(self, puts: Sequence[Item], deletes: Collection[KeyTuple]) -> Awaitable[None]:
        shares: dict[int, tuple[list[Item], list[KeyTuple]]] = {}
        for item in puts:
            number = part_of(item.get(self._partition), self._count)
            shares.setdefault(number, ([], []))[0].append(item)
        for key in deletes:
            shares.setdefault(part_of(key[0], self._count), ([], []))[1].append(key)
        if len(shares) > 1:
            # Nothing is applied in one part if another one would refuse its share.
            check_batch([self._codec.row(item)[0] for item in puts], deletes)
        writes = [
            self._handles[number]._batch_write(some_puts, some_deletes)
            for number, (some_puts, some_deletes) in shares.items()
        ]
        return writes[0] if len(writes) == 1 else asyncio.ensure_future(_all_done(writes))

    @asynccontextmanager
    async def _loading(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as opened:
            for handle in list(self._handles):
                await opened.enter_async_context(handle.loading())
            yield

    def loading(self) -> AbstractAsyncContextManager[None]:
        return self._loading()


async def _all_done(writes: Iterable[Awaitable[None]]) -> None:
    await await_all(writes)


@dataclass(slots=True)
class _WaitingWrite:
    """A write until its part is open. ``submit``: passes it to the table there."""

    submit: Callable[[TableHandle], Awaitable[Any]]
    future: "asyncio.Future[Any]"
    size: int


class _UnopenedTable(TableHandle):
    """A table in a part that this process has not opened yet. The first operation opens it.

    ``open_table`` is called again after it failed, by the next operation. ``on_opened`` is called
    when it succeeds, before the writes that waited are passed on: in the same step of the loop.
    """

    def __init__(
        self,
        table: Table,
        open_table: Callable[[], Awaitable[TableHandle]],
        *,
        on_opened: Callable[[TableHandle], None],
    ) -> None:
        super().__init__(table)
        self._open_table, self._on_opened = open_table, on_opened
        self._waiting: deque[_WaitingWrite] = deque()
        self._bytes = 0
        self._opening: asyncio.Task[TableHandle | KeytablesError] | None = None

    @property
    def is_opening(self) -> bool:
        return self._opening is not None

    async def finish(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])

    def _start(self) -> "asyncio.Task[TableHandle | KeytablesError]":
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        return self._opening

    async def _open(self) -> TableHandle | KeytablesError:
        """Return the error, which those that wait raise, rather than raise it."""
        outcome: TableHandle | KeytablesError
        try:
            outcome = await self._open_table()
        except Exception as error:  # noqa: BLE001 - the callers of the operations receive it
            outcome = described(error)
        self._opening = None
        waiting, self._waiting, self._bytes = self._waiting, deque(), 0
        if isinstance(outcome, TableHandle):
            self._on_opened(outcome)
            for write in waiting:
                result: asyncio.Future[Any]
                try:
                    result = asyncio.ensure_future(write.submit(outcome))
                except KeytablesError as error:
                    result = refused_write(error)
                result.add_done_callback(partial(_pass_on, write.future))
        else:
            for write in waiting:
                if not write.future.done():
                    write.future.set_exception(clone_error(outcome))
        return outcome

    async def _opened(self) -> TableHandle:
        outcome = await asyncio.shield(self._start())
        if isinstance(outcome, KeytablesError):
            raise clone_error(outcome)
        return outcome

    def _submit(
        self, submit: Callable[[TableHandle], Awaitable[Any]], size: int = 0
    ) -> "asyncio.Future[Any]":
        if len(self._waiting) >= _MAX_WAITING or self._bytes + size > _MAX_WAITING_BYTES:
            return refused_write(Throttled("too many writes wait for a part of the store"))
        write = _WaitingWrite(submit, asyncio.get_running_loop().create_future(), size)
        self._waiting.append(write)
        self._bytes += size
        self._start()
        return write.future

    async def get(self, key: KeyTuple) -> Item | None:
        checked = self._check_key(key)
        return await (await self._opened()).get(checked)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        return await (await self._opened()).batch_get(keys)

    async def scan(self, *, limit: int | None = None, after: Cursor | None = None) -> Page:
        return await (await self._opened()).scan(limit=limit, after=after)

    async def _query(self, query: Query) -> Page:
        return await (await self._opened())._query(query)

    def _put(self, item: Item, options: WriteOptions | None) -> Awaitable[None]:
        copy, kept = snapshot_all(item), _kept(options)
        return self._submit(lambda table: table._put(copy, kept), _size(copy))

    def _update(
        self, key: KeyTuple, update: Update, options: WriteOptions
    ) -> Awaitable[Item | None]:
        values = snapshot_all(options.values)
        kept = msgspec.structs.replace(options, values=values)
        return self._submit(lambda table: table._update(key, update, kept), _size(values))

    def _delete(self, key: KeyTuple, options: WriteOptions | None) -> Awaitable[Item | None]:
        kept = _kept(options)
        return self._submit(lambda table: table._delete(key, kept))

    def _batch_write(self, puts: Sequence[Item], deletes: Collection[KeyTuple]) -> Awaitable[None]:
        copies = [snapshot_all(item) for item in puts]
        return self._submit(
            lambda table: table._batch_write(copies, deletes), sum(map(_size, copies))
        )


def _kept(options: WriteOptions | None) -> WriteOptions | None:
    if options is None:
        return None
    return msgspec.structs.replace(options, values=snapshot_all(options.values))


def _size(item: Item) -> int:
    try:
        return item_size(item)
    except UnicodeEncodeError:  # refused when it is passed on
        return 0


def _pass_on(future: "asyncio.Future[Any]", result: "asyncio.Future[Any]") -> None:
    error = result.exception()
    if future.done():  # nobody waits any more
        return
    if error is None:
        future.set_result(result.result())
    else:
        future.set_exception(error)
