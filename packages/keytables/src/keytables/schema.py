"""Tables, keys and indexes, declared as data, and the values an item may hold.

The one rule: a declaration is checked when it is made, so an engine never meets a bad one.

An item is a dict of attribute names to values, its key attributes among them. Values are those
DynamoDB knows: text, numbers (integers within 64 bits; floats that are 0 or of a size from 1e-130
to below 1e126), bytes, booleans, ``None``, lists, maps with text keys, and sets of text. Names of
attributes and keys of maps are not empty. Lists and maps hold each other at most to ``MAX_DEPTH``.
A whole float may be read as an integer, they are equal. A set is a ``frozenset`` when read; a plain
``set`` is accepted when written. An empty set cannot be stored: writing one leaves the attribute
out.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, Union

from keytables.errors import SchemaError

__all__ = [
    "MAX_DEPTH",
    "MAX_ITEM_SIZE",
    "MAX_PARTITION_KEY",
    "MAX_SORT_KEY",
    "Capacity",
    "Cursor",
    "Index",
    "Item",
    "Key",
    "KeyTuple",
    "Kind",
    "Page",
    "Range",
    "Scalar",
    "Table",
    "Value",
]

Scalar: TypeAlias = str | int | float | bytes
"""What a key may be made of."""

# Recursive, so named in quotes; `|` does not take a quoted name at run time.
Value: TypeAlias = Union[  # noqa: UP007
    Scalar, bool, list["Value"], Mapping[str, "Value"], AbstractSet[str], None
]
"""What an attribute may hold. At run time lists, dicts, sets and frozensets of the exact kinds."""

Item: TypeAlias = dict[str, Value]
"""Attribute names to values, the key attributes among them."""

KeyTuple: TypeAlias = tuple[Scalar, ...]
"""``(partition,)``, or ``(partition, sort)`` for a table with a sort key."""

MAX_ITEM_SIZE: Final = 400 * 1024
"""Bytes of names and values together, counted as DynamoDB does."""

MAX_DEPTH: Final = 32
"""Levels of a value: that of an attribute is the first, a member of a list or map is one deeper."""

MAX_PARTITION_KEY: Final = 2048
"""Bytes of a partition key of text or bytes."""

MAX_SORT_KEY: Final = 1024
"""Bytes of a sort key of text or bytes."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
"""What a table or index may be called."""


class Kind(StrEnum):
    """What a key attribute holds, and so how it sorts."""

    STRING = "S"
    """Text, sorted by its UTF-8 bytes."""
    NUMBER = "N"
    """Integers and floats, sorted by value; 1 and 1.0 are the same key."""
    BINARY = "B"
    """Bytes, sorted as unsigned bytes."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key attribute."""

    name: str
    kind: Kind = Kind.STRING

    def __post_init__(self) -> None:
        if not self.name:
            raise SchemaError("a key attribute needs a name")


@dataclass(frozen=True, slots=True)
class Index:
    """A second way into a table. Items without its key attributes are not in it.

    With ``keys_only`` its items hold the keys of table and index and nothing else. (Where expired
    items can then not be told apart, the engine looks each item up: one read more for each.)
    """

    name: str
    partition: Key
    sort: Key | None = None
    keys_only: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SchemaError(
                f"index name {self.name!r}: expected 3 to 255 of letters, digits, '_', '-', '.'"
            )
        if self.sort is not None and self.sort.name == self.partition.name:
            raise SchemaError(f"index {self.name!r} uses {self.sort.name!r} twice")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, its keys, its indexes.

    ``expiry`` names the attribute with the item's end of life, a number in seconds since the epoch;
    absent, ``None``, 0 or less: the item never expires. An item whose expiry is now or past is
    absent for every read, condition and update, whether or not it has been swept away yet.
    """

    name: str
    partition: Key
    sort: Key | None = None
    indexes: tuple[Index, ...] = ()
    expiry: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SchemaError(
                f"table name {self.name!r}: expected 3 to 255 of letters, digits, '_', '-', '.'"
            )
        kinds: dict[str, Kind] = {}
        for key in self.key_attributes:
            if kinds.setdefault(key.name, key.kind) is not key.kind:
                raise SchemaError(f"table {self.name!r}: {key.name!r} is declared with two kinds")
        if self.sort is not None and self.sort.name == self.partition.name:
            raise SchemaError(f"table {self.name!r} uses {self.sort.name!r} twice")
        if len({index.name for index in self.indexes}) < len(self.indexes):
            raise SchemaError(f"table {self.name!r} has two indexes of one name")
        if self.expiry is not None and kinds.get(self.expiry, Kind.NUMBER) is not Kind.NUMBER:
            raise SchemaError(f"table {self.name!r}: the expiry attribute must be a number")
        if self.expiry in {key.name for key in (self.partition, self.sort) if key is not None}:
            raise SchemaError(f"table {self.name!r}: a key attribute cannot be the expiry")

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the table's own key attributes."""
        if self.sort is None:
            return (self.partition.name,)
        return (self.partition.name, self.sort.name)

    @property
    def key_attributes(self) -> tuple[Key, ...]:
        """The key attributes of the table and of every index, in order, with repetitions."""
        found = [self.partition, self.sort]
        for index in self.indexes:
            found += [index.partition, index.sort]
        return tuple(key for key in found if key is not None)

    def index(self, name: str) -> Index:
        """Return the index called ``name``. Raises SchemaError for an unknown one."""
        for index in self.indexes:
            if index.name == name:
                return index
        raise SchemaError(f"table {self.name!r} has no index {name!r}")


@dataclass(frozen=True, slots=True)
class Capacity:
    """Reads and writes per second that a table (and each of its indexes) is provisioned for, in the
    units of DynamoDB. Engines that know no such thing ignore it.
    """

    read: int
    write: int

    def __post_init__(self) -> None:
        if self.read < 1 or self.write < 1:
            raise SchemaError("a capacity is at least 1 read and 1 write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of sort keys: at most one lower and one upper bound, or a prefix.

    A prefix is for keys of text or bytes, and stands alone.
    """

    gt: Scalar | None = None
    ge: Scalar | None = None
    lt: Scalar | None = None
    le: Scalar | None = None
    prefix: str | bytes | None = None

    def __post_init__(self) -> None:
        bounds = [bound for bound in (self.gt, self.ge, self.lt, self.le) if bound is not None]
        if (self.gt is not None and self.ge is not None) or (
            self.lt is not None and self.le is not None
        ):
            raise SchemaError("a range has at most one lower and one upper bound")
        if self.prefix is not None and bounds:
            raise SchemaError("a prefix range takes no other bound")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page ended: the keys of its last item. Opaque to callers.

    It stays good while rows are added and removed around it, and for any process.
    """

    position: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Items of one answer; ``cursor`` continues after them, ``None`` when there is nothing more.

    A page may end before its ``limit`` and without one (engines bound a page by size): only the
    cursor says whether there is more.
    """

    items: list[Item]
    cursor: Cursor | None
