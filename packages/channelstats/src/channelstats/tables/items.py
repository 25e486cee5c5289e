"""Tables and items: their names and keys, reading attributes, many items at a time, long texts.

Rule: a table of one prefix is called `<prefix>.<Table>`; several instances share one store by it.

Rule: `None`, `""`, `[]` and `{}` are not written; `0` and `false` are. An attribute of an
unexpected type reads as if it were absent.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Final, TypeVar

import msgspec

from keytables import Index, Item, Key, Table, TableHandle, Value

MESSAGE_INDEXES: Final = (
    Index("Date", Key("date"), Key("ts")),
    Index("Slack_cid", Key("slack_cid"), Key("ts")),
    Index("User_id", Key("slack_uid"), Key("ts")),
)
"""By day, by channel, by author; each in the order of time."""

HASH_KEYS: Final = {
    "Channel": "channel_key",
    "ChannelConfiguration": "slack_cid",
    "Message": "cid_ts",
    "Configuration": "key",
    "FirstPost": "slack_uid",
    "BulkStore": "item_id",
    "ReportStore": "report_id",
    "User": "slack_uid",
    "UserHash": "user_key",
    "UserCreated": "slack_uid",
    "ChannelMembersLog": "slack_cid",
    "Subscription": "subscription_id",
    "Mark": "item_key",
}
"""Every table and its key. None has a sort key."""


def table(prefix: str, name: str) -> Table:
    """The declaration of a table of that prefix.

    :raises SchemaError: the prefix holds something else than letters, digits, `_`, `-` and `.`
    """
    indexes = MESSAGE_INDEXES if name == "Message" else ()
    expiry = "until" if name == "Mark" else None
    return Table(f"{prefix}.{name}", Key(HASH_KEYS[name]), indexes=indexes, expiry=expiry)


# ── attributes ────────────────────────────────────────────────────────────────────────────────────


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def without_empty(item: Mapping[str, Value]) -> Item:
    return {
        name: value
        for name, value in item.items()
        if value is False or value == 0 or value  # 0 and false are kept; empty things are not
    }


def text(item: Mapping[str, Value], name: str) -> str:
    value = item.get(name)
    return value if isinstance(value, str) else ""


def number(item: Mapping[str, Value], name: str) -> int | None:
    """A number, or what a text says of one, as a whole number."""
    value = item.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return None


def texts(item: Mapping[str, Value], name: str) -> frozenset[str]:
    """A set of texts."""
    value = item.get(name)
    return frozenset(map(str, value)) if isinstance(value, frozenset) else frozenset()


def struct_of(kind: type[_Struct], item: Mapping[str, Value]) -> _Struct:
    """A struct whose fields are attributes of the same names: texts, flags and whole numbers (0 for
    an absent one, unless it may be None). Other fields keep their defaults.
    """
    if _is_plain(kind):
        try:
            return msgspec.convert(item, kind)  # in a fifth of the time
        except msgspec.ValidationError:
            pass  # a value is of another type, which the readers understand or leave out
    return kind(**{name: read(item, name) for name, read in _readers(kind)})


@cache
def _readers(kind: type[msgspec.Struct]) -> list[tuple[str, Callable[..., object]]]:
    return [
        (field.name, _READERS[field.type])
        for field in msgspec.structs.fields(kind)
        if field.type in _READERS
    ]


@cache
def _is_plain(kind: type[msgspec.Struct]) -> bool:
    """Whether of values of the right types msgspec makes the same as the readers."""
    return all(
        field.name == field.encode_name
        and field.type in _READERS
        and (field.required or field.default == _READERS[field.type]({}, field.name))
        for field in msgspec.structs.fields(kind)
    )


_READERS: Final[dict[object, Callable[..., object]]] = {
    str: text,
    bool: lambda item, name: item.get(name) is True,
    int: lambda item, name: number(item, name) or 0,
    int | None: number,
}


# ── many items ────────────────────────────────────────────────────────────────────────────────────

BATCH: Final = 1000
"""Rows submitted at once: what one transaction of the embedded engine takes."""

_T = TypeVar("_T")


def batches(things: Iterable[_T], size: int = BATCH) -> Iterator[list[_T]]:
    """The things in lists of at most ``size``."""
    rest = iter(things)
    while batch := list(islice(rest, size)):
        yield batch


async def write_all(
    table: TableHandle, *, puts: Iterable[Item] = (), deletes: Iterable[str] = ()
) -> None:
    """Put items and delete keys, a batch at a time: of too many at once some would be refused."""
    for batch in batches(puts):
        await table.batch_write(puts=batch)
    for keys in batches(deletes):
        await table.batch_write(deletes=[(key,) for key in keys])


async def everything(table: TableHandle, most: int | None = None) -> AsyncIterator[list[Item]]:
    """All items of a table, a page at a time, of at most so many items."""
    page = await table.scan(limit=most)
    yield page.items
    while page.cursor is not None:
        page = await table.scan(limit=most, after=page.cursor)
        yield page.items


async def every_item(table: TableHandle) -> AsyncIterator[Item]:
    """The same, one by one."""
    async for items in everything(table):
        for item in items:
            yield item


# ── texts of any length ──────────────────────────────────────────────────────────────────────────

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
    """Texts of any length in rows of bounded size: BulkStore or ReportStore. ``limit`` is in bytes.

    Rule: a text is whole or absent. Its pieces are written before the row that names them, and no
    piece outlives the text it belonged to.

        up to 300,000 bytes   one row with `value`
        more                  pieces `<id>-<n>`, each a row with a `value`; then the parent: a
                              column `<n>` for each piece, that holds the piece's ID, and no `value`

    Pieces share the key space with texts, of which none is called like another one plus
    `-<digits>`: the names are IDs of channels, and the first day and length of periods.
    """

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
