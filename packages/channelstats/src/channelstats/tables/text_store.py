"""Texts of any length in rows of bounded size: the tables BulkStore and ReportStore.

Rule: a text is whole or absent. Its pieces are written before the row that names them, and no piece
outlives the text it belonged to.

    up to 300,000 bytes   one row with `value`
    more                  pieces `<id>-<n>`, each a row with a `value`; then the parent: a column
                          `<n>` for each piece, that holds the piece's ID, and no `value`

Pieces share the key space with texts, of which none is called like another one plus `-<digits>`:
the names are IDs of channels, and the first day and length of periods.
"""

from typing import Final

from channelstats.tables.items import every_item, everything, text, without_empty
from keytables import Item, TableHandle

LIMIT: Final = 300_000
"""Bytes of UTF-8 in one row."""


def pieces(value: str, limit: int = LIMIT) -> list[str]:
    """Cut a text into pieces of at most ``limit`` (at least 4) bytes, between characters."""
    data = value.encode()
    cut, start = [], 0
    while start < len(data):
        end = min(start + limit, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        cut.append(data[start:end].decode())
        start = end
    return cut


class TextStore:
    """One of the two tables; ``limit`` is in bytes."""

    def __init__(self, table: TableHandle, limit: int = LIMIT) -> None:
        self._table = table
        self._key = table.table.partition.name
        self._limit = limit

    async def get(self, name: str) -> str | None:
        """The text of that name; None when it is absent, or was not written to its end."""
        item = await self._table.get((name,))
        if item is None:
            return None
        columns = _columns(item)
        if not columns:
            return text(item, "value")
        pieces = await self._table.batch_get((piece,) for piece in columns)
        values = {text(piece, self._key): text(piece, "value") for piece in pieces}
        if any(piece not in values for piece in columns):
            return None
        return "".join(values[piece] for piece in columns)

    async def names(self) -> list[str]:
        """The names of all texts and of their pieces."""
        return [text(item, self._key) async for item in every_item(self._table)]

    async def put(self, name: str, value: str) -> None:
        """Store a text in place of what had its name."""
        cut = pieces(value, self._limit)
        if len(cut) <= 1:
            parent = without_empty({self._key: name, "value": value})
            cut = []
        else:
            parent = {self._key: name, **{str(n): f"{name}-{n}" for n in range(len(cut))}}
        for n, piece in enumerate(cut):  # in order, so that what a crash leaves has no gaps
            await self._table.put({self._key: f"{name}-{n}", "value": piece})
        await self._drop_pieces(name, len(cut))
        await self._table.put(parent)

    async def delete(self, name: str) -> None:
        """Delete a text; a missing one is fine."""
        await self._drop_pieces(name, 0)
        await self._table.delete((name,))

    async def clear(self) -> None:
        """Delete every text."""
        async for items in everything(self._table):
            await self._table.batch_write(deletes=[(text(item, self._key),) for item in items])

    async def _drop_pieces(self, name: str, first: int) -> None:
        """Delete pieces from number ``first`` on: those the parent names, and what a crash left."""
        item = await self._table.get((name,)) or {}
        named = [n for n in map(int, filter(str.isdecimal, item)) if n >= first]
        await self._table.batch_write(deletes=[(f"{name}-{n}",) for n in named])
        n = first
        while await self._table.get((f"{name}-{n}",)) is not None:
            await self._table.delete((f"{name}-{n}",))
            n += 1


def _columns(item: Item) -> list[str]:
    """The IDs of the pieces that a parent names, in the order of their numbers."""
    numbers = sorted((name for name in item if name.isdecimal()), key=int)
    return [text(item, number) for number in numbers]
