"""An engine whose rows all workers share, and which commits as the embedded one does: what was
submitted together is applied together, later, or fails together.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any

from keytables import Capacity, Item, KeytablesError, KeyTuple, Page, Table, Throttled, Unavailable
from support.memory_engine import MemoryEngine, MemoryTable, copied


class _Rows(dict[KeyTuple, Item]):
    """`deleted`, `replaced`: of the `Disk`."""

    def __init__(self, deleted: dict[str, float], replaced: dict[str, tuple[str, float]]) -> None:
        super().__init__()
        self._deleted, self._replaced = deleted, replaced

    def __setitem__(self, key: KeyTuple, item: Item) -> None:
        before, version = self.get(key, {}).get("updateid"), item.get("updateid")
        if isinstance(before, str) and isinstance(version, str) and before != version:
            self._replaced[before] = version, asyncio.get_running_loop().time()
        super().__setitem__(key, item)

    def pop(self, key: KeyTuple, default: Any = None) -> Any:
        item = super().pop(key, default)
        version = item and item.get("updateid")
        if isinstance(version, str):
            self._deleted[version] = asyncio.get_running_loop().time()
        return item


class Disk:
    """The rows, and what was ever deleted. `failing`: the share of commits that fail now; `slow`:
    seconds that one takes at most.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tables: dict[str, tuple[Table, dict[KeyTuple, Item]]] = {}
        self.deleted: dict[str, float] = {}
        """When the row of each message was deleted, by its version."""
        self.replaced: dict[str, tuple[str, float]] = {}
        """By which version that of a topic was replaced last, and when."""
        self.failing = 0.0
        self.slow = 0.01
        self.failovers = 0

    def snapshot(self) -> dict[str, dict[KeyTuple, Item]]:
        """What a standby has that falls behind from now on."""
        return {
            name: {key: dict(item) for key, item in rows.items()}
            for name, (_, rows) in self.tables.items()
        }

    def fail_over(self, standby: dict[str, dict[KeyTuple, Item]], since: float) -> None:
        """What was committed since then is lost."""
        for name, (_, rows) in self.tables.items():
            rows.clear()
            rows.update(standby.get(name, {}))
        self.deleted = {key: at for key, at in self.deleted.items() if at < since}
        for _, rows in self.tables.values():
            assert isinstance(rows, _Rows)
            rows._deleted = self.deleted
        self.failovers += 1


class CommittingEngine(MemoryEngine):
    """The disk as one worker sees it."""

    def __init__(self, disk: Disk, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.disk = disk
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._is_committing = False
        self._idle: asyncio.Future[None] | None = None

    @property
    def failovers(self) -> int:
        return self.disk.failovers

    async def ensure_table(self, table: Table, *, capacity: Capacity | None = None) -> MemoryTable:
        await self.settled()
        _, rows = self.disk.tables.setdefault(
            table.name, (table, _Rows(self.disk.deleted, self.disk.replaced))
        )
        if table.name not in self.tables:
            opened = self.tables[table.name] = CommittingTable(self, table)
            opened.items = rows
        return self.tables[table.name]

    async def table_names(self) -> list[str]:
        return sorted(self.disk.tables)

    def submit(self, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((work, future))
        if not self._is_committing:
            self._is_committing = True
            loop.call_soon(self._begin)
        return future

    async def settled(self) -> None:
        """Wait until all that was submitted is committed or has failed."""
        while self._is_committing:
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def _begin(self) -> None:
        batch, self._waiting = self._waiting, []
        seconds = self.disk.rng.uniform(0.0005, self.disk.slow)
        asyncio.get_running_loop().call_later(seconds, self._commit, batch)

    def _commit(self, batch: list[tuple[Callable[[], Any], "asyncio.Future[Any]"]]) -> None:
        error: KeytablesError | None = None
        if self.disk.rng.random() < self.disk.failing:
            error = self.disk.rng.choice([Unavailable("broken"), Throttled("locked")])
        for work, future in batch:
            try:
                result = error or work()
            except KeytablesError as refusal:
                result = refusal
            if future.done():
                continue
            if isinstance(result, KeytablesError):
                future.set_exception(result)
            else:
                future.set_result(result)
        if self._waiting:
            self._begin()
            return
        self._is_committing = False
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)


class CommittingTable(MemoryTable):
    engine: CommittingEngine

    def _submit(self, what: str, work: Callable[[], Any]) -> "asyncio.Future[Any]":
        return self.engine.submit(lambda: copied(work()))

    async def get(self, key: KeyTuple) -> Item | None:
        await self.engine.settled()
        return await super().get(key)

    async def batch_get(self, keys: Iterable[KeyTuple]) -> list[Item]:
        await self.engine.settled()
        return await super().batch_get(keys)

    async def query(self, *arguments: Any, **options: Any) -> Page:
        await self.engine.settled()
        return await super().query(*arguments, **options)
