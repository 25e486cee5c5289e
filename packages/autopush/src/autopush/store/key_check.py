"""Which crypto keys a store was used with, so that a lost one is noticed.

The router table has one row for that, under a key that no UAID is. It has no `last_connect`, so
nothing that looks for users by the index finds it.

Rule: the store holds fingerprints, from which no key follows, and never a key.
"""

from collections.abc import Collection
from typing import Final

from autopush.store.tables import TablePlan, router_table
from keytables import (
    AccessRefused,
    Attr,
    ConditionFailed,
    Cursor,
    Engine,
    Param,
    TableHandle,
    Update,
)

ROW: Final = "crypto-key-fingerprints"
"""The partition key of the row; a UAID, hashed or not, is hex digits."""

FINGERPRINTS: Final = "fingerprints"
ADD: Final = Update(add_to={FINGERPRINTS: Param(FINGERPRINTS)})
IS_NEW: Final = Attr(FINGERPRINTS).absent()


async def is_known(engine: Engine, plan: TablePlan, fingerprints: Collection[str]) -> bool:
    """Whether the users of that store can have endpoints of these keys: it was used with one of
    them, or has no users, or does not say what it was used with. If so, all are noted.

    Of processes that start at the same time with different keys on a new store, one is refused.
    """
    table = await engine.ensure_table(router_table(plan.router))
    known = await _read(table)
    if not known:
        try:
            values = {FINGERPRINTS: frozenset(fingerprints)}
            await table.update((ROW,), ADD, values, condition=IS_NEW)
        except ConditionFailed:
            known = await _read(table)
        else:
            return True
    if await _is_lost(table, known, fingerprints):
        return False
    if new := frozenset(fingerprints) - known:
        await table.update((ROW,), ADD, {FINGERPRINTS: new})
    return True


async def is_lost(engine: Engine, plan: TablePlan, fingerprints: Collection[str]) -> bool:
    """Whether a start with these keys would be refused. The store is not changed."""
    table = await engine.open_table(router_table(plan.router))
    return await _is_lost(table, await _read(table), fingerprints)


async def accept(
    engine: Engine, plan: TablePlan, fingerprints: Collection[str], *, dry_run: bool = False
) -> int:
    """Note these keys, whatever the store was used with; returns how many it did not know."""
    table = await engine.ensure_table(router_table(plan.router))
    new = frozenset(fingerprints) - await _read(table)
    if new and not dry_run:
        await table.update((ROW,), ADD, {FINGERPRINTS: new})
    return len(new)


async def _read(table: TableHandle) -> frozenset[object]:
    row = await table.get((ROW,))
    found = (row or {}).get(FINGERPRINTS)
    return found if isinstance(found, frozenset) else frozenset()


async def _is_lost(
    table: TableHandle, known: frozenset[object], fingerprints: Collection[str]
) -> bool:
    return bool(known) and known.isdisjoint(fingerprints) and await _has_users(table)


async def _has_users(table: TableHandle) -> bool:
    cursor: Cursor | None = None
    while True:
        try:
            page = await table.scan(limit=10, after=cursor)
        except AccessRefused:  # the service needs no right to scan
            return True
        if any(item["uaid"] != ROW for item in page.items):
            return True
        cursor = page.cursor
        if cursor is None:
            return False
