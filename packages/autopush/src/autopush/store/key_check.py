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
REFUSED: Final = "refused"
"""Of keys that were made beside users of a version without this check."""
ADD: Final = Update(add_to={FINGERPRINTS: Param(FINGERPRINTS)})
REFUSE: Final = Update(add_to={REFUSED: Param(REFUSED)})
IS_NEW: Final = Attr(FINGERPRINTS).absent()


async def is_known(
    engine: Engine, plan: TablePlan, fingerprints: Collection[str], *, are_made: bool = False
) -> bool:
    """Whether the users of that store can have endpoints of these keys: it was used with one of
    them, or has no users, or does not say what it was used with. If so, all are noted.

    `are_made`: the keys were made just now, so no user has an endpoint of them.

    Of processes that start at the same time with different keys on a new store, one is refused.
    """
    table = await engine.ensure_table(router_table(plan.router))
    known, refused = await _read(table)
    if not known:
        if are_made and await _has_users(table, if_unknown=False):
            await table.update((ROW,), REFUSE, {REFUSED: frozenset(fingerprints)})
            return False
        if refused.issuperset(fingerprints):
            return False
        try:
            values = {FINGERPRINTS: frozenset(fingerprints)}
            await table.update((ROW,), ADD, values, condition=IS_NEW)
        except ConditionFailed:
            known, _ = await _read(table)
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
    known, refused = await _read(table)
    if not known:
        return refused.issuperset(fingerprints)
    return await _is_lost(table, known, fingerprints)


async def accept(
    engine: Engine, plan: TablePlan, fingerprints: Collection[str], *, dry_run: bool = False
) -> int:
    """Note these keys, whatever the store was used with; returns how many it did not know."""
    table = await engine.ensure_table(router_table(plan.router))
    known, _ = await _read(table)
    new = frozenset(fingerprints) - known
    if new and not dry_run:
        await table.update((ROW,), ADD, {FINGERPRINTS: new})
    return len(new)


async def _read(table: TableHandle) -> tuple[frozenset[object], frozenset[object]]:
    """The fingerprints that are known, and those that are refused."""
    row = await table.get((ROW,)) or {}
    known, refused = row.get(FINGERPRINTS), row.get(REFUSED)
    return (
        known if isinstance(known, frozenset) else frozenset(),
        refused if isinstance(refused, frozenset) else frozenset(),
    )


async def _is_lost(
    table: TableHandle, known: frozenset[object], fingerprints: Collection[str]
) -> bool:
    return (
        bool(known) and known.isdisjoint(fingerprints) and await _has_users(table, if_unknown=True)
    )


async def _has_users(table: TableHandle, *, if_unknown: bool) -> bool:
    cursor: Cursor | None = None
    while True:
        try:
            page = await table.scan(limit=10, after=cursor)
        except AccessRefused:  # the service needs no right to scan
            return if_unknown
        if any(item["uaid"] != ROW for item in page.items):
            return True
        cursor = page.cursor
        if cursor is None:
            return False
