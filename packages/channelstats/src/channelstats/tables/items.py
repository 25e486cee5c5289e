"""Tables and items: their names and keys, reading attributes, and many items at a time.

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
