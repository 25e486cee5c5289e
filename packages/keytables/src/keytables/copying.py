"""Copies the items of a table to another store, whatever engines the two have, and compares them.

Rule: a pass may end anywhere and be repeated: it compares first, and writes only what differs.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final, NamedTuple, cast

import msgspec

from keytables.checks import expiry_time
from keytables.engine import TableHandle
from keytables.schema import Cursor, Table
from keytables.values import Item, KeyTuple, Value

PAGE: Final = 500
"""Items that are read, compared and written together."""

_MINUTE: Final = 60
_NEVER: Final = -1
_MODULUS: Final = 1 << 256
_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode

OnItems = Callable[[int], object]
"""Called with the number of items that were just read."""


class Contents(NamedTuple):
    """How many items a table has, and a hash of them all, in hex: equal in any order and engine."""

    items: int
    sha256: str


class Summary:
    """Counts and hashes items; those that expire before the result is asked for do not count.

    It keeps one entry for each minute in which items expire.
    """

    def __init__(self, table: Table) -> None:
        self._expiry = table.expiry
        self._by_minute: dict[int, tuple[int, int]] = {}

    def add(self, item: Item) -> None:
        name = self._expiry
        expires = expiry_time(item.get(name), name) if name is not None else None
        minute = _NEVER if expires is None else int(expires) // _MINUTE
        count, total = self._by_minute.get(minute, (0, 0))
        number = int.from_bytes(item_hash(item), "big")
        self._by_minute[minute] = count + 1, (total + number) % _MODULUS

    def contents(self, now: float) -> Contents:
        """Of the items that do not expire, or after the minute of `now` (epoch seconds)."""
        present = int(now) // _MINUTE
        kept = [
            entry
            for minute, entry in self._by_minute.items()
            if minute == _NEVER or minute > present
        ]
        total = sum(number for _, number in kept) % _MODULUS
        return Contents(sum(count for count, _ in kept), f"{total:064x}")


class Pass(NamedTuple):
    """What one pass did, and what the two tables held then."""

    written: int
    removed: int
    source: Summary
    target: Summary


async def copy_table(
    source: TableHandle,
    target: TableHandle,
    *,
    kept: Collection[KeyTuple] = (),
    on_items: OnItems = lambda _: None,
) -> Pass:
    """Make the target hold what the source holds and nothing else; then read it again.

    ``kept``: keys in the target that stay as they are. If the source changes meanwhile, a further
    pass brings that over. Errors: those of the two tables.
    """
    done = Pass(0, 0, Summary(source.table), Summary(target.table))
    written = removed = 0
    names = source.table.key_names
    async for items in pages(source):
        held = {_key(item, names): item for item in await target.batch_get(_keys(items, names))}
        puts = []
        for item in items:
            done.source.add(item)
            there = held.get(_key(item, names))
            if there is None or item_hash(there) != item_hash(item):
                puts.append(item)
        await target.batch_write(puts=puts)
        written += len(puts)
        on_items(len(items))
    async for items in pages(target):
        items = [item for item in items if _key(item, names) not in kept]
        source_items = await source.batch_get(_keys(items, names))
        present = {_key(item, names) for item in source_items}
        for item in items:
            if _key(item, names) in present:
                done.target.add(item)
        deletes = [key for key in _keys(items, names) if key not in present]
        await target.batch_write(deletes=deletes)
        removed += len(deletes)
        on_items(len(items))
    return done._replace(written=written, removed=removed)


async def pages(table: TableHandle) -> AsyncIterator[list[Item]]:
    """Yield all items of a table, in pages of at most PAGE."""
    cursor: Cursor | None = None
    while True:
        page = await table.scan(limit=PAGE, after=cursor)
        if page.items:
            yield page.items
        cursor = page.cursor
        if cursor is None:
            return


def item_hash(item: Item) -> bytes:
    """Return the SHA-256 of an item: equal for equal items, whichever engine they are read from."""
    return hashlib.sha256(_encode(_comparable(item))).digest()


def _comparable(value: Value) -> object:
    """Return the value without what engines may change: the type of whole numbers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63:
        return int(value)
    if isinstance(value, frozenset):
        return {"": sorted(value)}  # no name is empty: no map of an item is equal to it
    if isinstance(value, dict):
        return {name: _comparable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_comparable(member) for member in value]
    return value


def _keys(items: list[Item], names: tuple[str, ...]) -> list[KeyTuple]:
    return [_key(item, names) for item in items]


def _key(item: Item, names: tuple[str, ...]) -> KeyTuple:
    return cast(KeyTuple, tuple(item[name] for name in names))
