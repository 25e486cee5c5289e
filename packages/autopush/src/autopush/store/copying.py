"""A copy of the store in another one: the users, all message tables, versions, key fingerprints.

Rule: a copy that is not finished is no store. A row in its router table says so until the last pass
has found both stores equal, and the service does not start on it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from autopush.clock import Clock
from autopush.store.tables import (
    KEYS_ROW,
    Month,
    TablePlan,
    message_table,
    receipt_table,
    router_table,
    storage_table,
)
from keytables import Capacity, Engine, Table
from keytables.copying import Contents, OnItems, copy_table, pages

COPY_ROW: Final = "unfinished-copy"
"""The partition key of the row; a UAID, hashed or not, is hex digits."""

_SOURCE: Final = "source"
_REPLACE: Final = "; --into-existing replaces what is there"


class CopyRefused(Exception):  # noqa: N818 - named for what happened
    """These two stores are not copied; nothing was changed."""


class CopiedTable(NamedTuple):
    """What a pass did to a table, and what both stores then held."""

    name: str
    written: int
    removed: int
    source: Contents
    target: Contents


class StoreCopy:
    """A copy that has been begun: the target is marked as unfinished."""

    def __init__(self, source: Engine, target: Engine, plan: TablePlan, clock: Clock) -> None:
        self._source, self._target, self._plan = source, target, plan
        self._clock = clock

    @classmethod
    async def begin(
        cls,
        source: Engine,
        target: Engine,
        plan: TablePlan,
        *,
        origin: str,
        into_existing: bool,
        clock: Clock,
    ) -> Self:
        """Mark the target as a copy of `origin`, which names the source in messages.

        :raises CopyRefused: the target has items and is no such copy
        """
        begun = await unfinished_copy(target, plan)
        if not into_existing and begun not in (None, origin):
            raise CopyRefused(f"TO is an unfinished copy of {begun}, not of {origin}{_REPLACE}")
        if begun is None and not into_existing:
            for table in service_tables(await target.table_names(), plan):
                if await _has_items(target, table):
                    raise CopyRefused(f"TO is not empty: table {table.name} has items{_REPLACE}")
        router = await target.ensure_table(router_table(plan.router), capacity=plan.router_capacity)
        await router.put({"uaid": COPY_ROW, _SOURCE: origin})
        return cls(source, target, plan, clock)

    async def run_pass(self, on_items: OnItems) -> list[CopiedTable]:
        """Bring over all that differs, table by table; tables that the source lacks are dropped."""
        names = await self._source.table_names()
        tables = service_tables(names, self._plan)
        for table in service_tables(await self._target.table_names(), self._plan):
            if table.name not in names:
                await self._target.drop_table(table.name)
        passes = []
        for table in tables:
            source = await self._source.open_table(table)
            capacity = _capacity(table.name, self._plan)
            target = await self._target.ensure_table(table, capacity=capacity)
            kept = [(COPY_ROW,)] if table.name == self._plan.router else []
            passes.append(await copy_table(source, target, kept=kept, on_items=on_items))
        now = self._clock()
        return [
            CopiedTable(
                table.name,
                done.written,
                done.removed,
                done.source.contents(now),
                done.target.contents(now),
            )
            for table, done in zip(tables, passes, strict=True)
        ]

    async def finish(self) -> None:
        """Remove the mark: the target is a store."""
        router = await self._target.open_table(router_table(self._plan.router))
        await router.delete((COPY_ROW,))


async def check_source(source: Engine, plan: TablePlan, origin: str) -> None:
    """:raises CopyRefused: `origin` is no store of the service"""
    if plan.router not in await source.table_names():
        raise CopyRefused(f"there is no table {plan.router} in {origin}")
    if begun := await unfinished_copy(source, plan):
        raise CopyRefused(f"{origin} is itself an unfinished copy, of {begun}")


async def unfinished_copy(engine: Engine, plan: TablePlan) -> str | None:
    """The store that this one is an unfinished copy of; None if it is not one."""
    if plan.router not in await engine.table_names():
        return None
    row = await (await engine.open_table(router_table(plan.router))).get((COPY_ROW,))
    return None if row is None else str(row.get(_SOURCE))


def service_tables(names: Iterable[str], plan: TablePlan) -> list[Table]:
    """Those of the service, of any month, among tables of these names."""
    tables = []
    for name in names:
        if name == plan.router:
            tables.append(router_table(name))
        elif name == plan.storage:
            tables.append(storage_table(name))
        elif name == plan.receipt:
            tables.append(receipt_table(name))
        elif name == plan.message or Month.parse(plan.message, name) is not None:
            tables.append(message_table(name))
    return tables


def _capacity(name: str, plan: TablePlan) -> Capacity | None:
    if name == plan.router:
        return plan.router_capacity
    return plan.storage_capacity if name == plan.storage else plan.message_capacity


async def _has_items(engine: Engine, table: Table) -> bool:
    async for items in pages(await engine.open_table(table)):
        if any(item[table.partition.name] != KEYS_ROW for item in items):
            return True
    return False
