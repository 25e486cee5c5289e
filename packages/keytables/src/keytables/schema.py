"""Declarations of tables, keys and indexes, and the arguments and results of queries.

Rule: a declaration is checked when it is created, so that an engine never receives a bad one.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import msgspec

from keytables.errors import SchemaError
from keytables.values import Item, KeyTuple, Scalar

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
"""Names of tables and indexes, as DynamoDB allows them."""


def check_name(kind: str, name: str) -> None:
    """Raise SchemaError unless a table or an index can have that name."""
    if not _NAME.fullmatch(name):
        raise SchemaError(
            f"{kind} name {name!r}: expected 3 to 255 of letters, digits, '_', '-', '.'"
        )


class Kind(StrEnum):
    """The type of a key attribute, which decides how it sorts (DynamoDB: AttributeType)."""

    STRING = "S"
    """Text, sorted by UTF-8 bytes."""
    NUMBER = "N"
    """Integers and floats, sorted by value; 1 and 1.0 are the same key."""
    BINARY = "B"
    """Bytes, sorted as unsigned bytes."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind = Kind.STRING

    def __post_init__(self) -> None:
        if not self.name:
            raise SchemaError("a key attribute needs a name")


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index. Items without its key attributes are not in it.

    With ``keys_only`` its items hold the keys of table and index and nothing else. (An engine whose
    index then lacks the expiry reads each item from the table: one read more per item.)
    """

    name: str
    partition: Key
    sort: Key | None = None
    keys_only: bool = False

    def __post_init__(self) -> None:
        check_name("index", self.name)
        if self.sort is not None and self.sort.name == self.partition.name:
            raise SchemaError(f"index {self.name!r} uses {self.sort.name!r} twice")


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, its keys, its indexes.

    ``expiry`` names the attribute with the item's expiry time, in seconds since the epoch; absent,
    ``None``, 0 or less: the item never expires. An item whose expiry time is now or past is absent
    for every read, condition and update, whether or not it has been removed yet.
    """

    name: str
    partition: Key
    sort: Key | None = None
    indexes: tuple[Index, ...] = ()
    expiry: str | None = None

    def __post_init__(self) -> None:
        check_name("table", self.name)
        kinds: dict[str, Kind] = {}
        for key in self.key_attributes:
            if kinds.setdefault(key.name, key.kind) is not key.kind:
                raise SchemaError(f"table {self.name!r}: {key.name!r} is declared with two types")
        if self.sort is not None and self.sort.name == self.partition.name:
            raise SchemaError(f"table {self.name!r} uses {self.sort.name!r} twice")
        if len({index.name for index in self.indexes}) < len(self.indexes):
            raise SchemaError(f"table {self.name!r} has two indexes of the same name")
        if self.expiry is not None and kinds.get(self.expiry, Kind.NUMBER) is not Kind.NUMBER:
            raise SchemaError(f"table {self.name!r}: the expiry attribute must be a number")
        if self.expiry in {key.name for key in (self.partition, self.sort) if key is not None}:
            raise SchemaError(f"table {self.name!r}: a key attribute cannot be the expiry")

    @property
    def key_names(self) -> tuple[str, ...]:
        """Names of the table's key attributes, without those of indexes."""
        if self.sort is None:
            return (self.partition.name,)
        return (self.partition.name, self.sort.name)

    @property
    def key_attributes(self) -> tuple[Key, ...]:
        """The key attributes of the table and of every index, in order, with repetitions."""
        keys = [self.partition, self.sort]
        for index in self.indexes:
            keys += [index.partition, index.sort]
        return tuple(key for key in keys if key is not None)

    def index(self, name: str) -> Index:
        """Return the index called ``name``. Raises SchemaError for an unknown one."""
        for index in self.indexes:
            if index.name == name:
                return index
        raise SchemaError(f"table {self.name!r} has no index {name!r}")

    def is_same(self, other: "Table") -> bool:
        """Whether two declarations are equal apart from the order of their indexes."""
        return set(self.indexes) == set(other.indexes) and self == replace(
            other, indexes=self.indexes
        )

    def check_stored(self, stored: "Table") -> None:
        """Raise SchemaError unless the table is stored with this declaration."""
        if not self.is_same(stored):
            raise SchemaError(
                f"table {self.name!r} exists with other keys, indexes or expiry: "
                f"{stored} instead of {self}"
            )

    def projected(self, page: "Page", index: Index) -> "Page":
        """Return a page of whole items as the index holds them."""
        if not index.keys_only:
            return page
        names = {index.partition.name, *self.key_names}
        if index.sort is not None:
            names.add(index.sort.name)
        items = [{name: item[name] for name in item if name in names} for item in page.items]
        return Page(items, page.cursor)


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity units per second of a table and of each index; ignored by engines without them."""

    read: int
    write: int

    def __post_init__(self) -> None:
        if self.read < 1 or self.write < 1:
            raise SchemaError("a capacity is at least 1 read and 1 write")


# The arguments and results of queries are structs of msgspec: a query makes several, and a frozen
# dataclass costs ten times as much.


class Range(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """At most one lower and one upper bound of sort keys; or a prefix, of text or bytes."""

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


class Cursor(msgspec.Struct, frozen=True, gc=False):
    """Where a page ended. Opaque; stays valid while items change, and in other processes."""

    position: KeyTuple


class Page(msgspec.Struct, frozen=True):
    """One page of results. Pass ``cursor`` as ``after`` to continue; ``None``: this is the last.

    Any page may hold fewer items than its ``limit``, even none: engines bound its bytes too.
    """

    items: list[Item]
    cursor: Cursor | None
