"""Items as rows: the columns of keys, expiry and indexes, and the whole item as bytes.

Rule: columns sort as the keys do, in every engine: text by its UTF-8 bytes, numbers by value.

PostgreSQL has no text with the character 0, so 0 and 1 are written as two characters each, in an
order-preserving way. A row of an index has at most 2,700 bytes, so a key that is only compared for
equality is shortened when it is long: to its beginning and a digest.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from keytables.schema import Key, Kind, Table
from keytables.values import Scalar

ColumnValue: TypeAlias = str | bytes | Decimal
"""A key as it is stored and compared."""

Row: TypeAlias = tuple[ColumnValue | float | int | None, ...]
"""The values of a row, in the order of ``Columns.names``; the last two are the item as bytes
(``ITEM``) and the number of the row (``NUMBER``)."""

ITEM: Final = -2
NUMBER: Final = -1

LONG: Final = 512
"""Bytes of a key that is only compared for equality, above which it is shortened."""

_BEGINNING: Final = 480
"""Bytes of it that are kept. With the digest it is longer than any that was not shortened."""

_PLAIN_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,50}")
_RESERVED: Final = frozenset(
    {"item", "expires", "row", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"}
)
"""Names of this engine's own columns, and those that every table of PostgreSQL has."""

_TYPES: Final = {Kind.STRING: "text", Kind.NUMBER: "numeric", Kind.BINARY: "bytea"}


def encode_text(value: str) -> ColumnValue:
    if "\0" in value or "\1" in value:
        value = value.replace("\1", "\1\2").replace("\0", "\1\1")
    return value


def encode_number(value: float) -> ColumnValue:
    # The shortest digits of a float lie between the same integers as the float does, and below
    # 2**53 that decides every comparison; above it every float is an integer.
    if isinstance(value, float) and not value.is_integer():
        return Decimal(repr(value))
    return Decimal(int(value))


def encode_bytes(value: bytes) -> ColumnValue:
    return value


_ENCODERS: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.STRING: encode_text,
    Kind.NUMBER: encode_number,
    Kind.BINARY: encode_bytes,
}
"""Of a key that was checked."""


def shorten(value: ColumnValue) -> ColumnValue:
    """Return a key for comparisons by equality; another one for each key."""
    if isinstance(value, str):
        if len(encoded := value.encode()) <= LONG:
            return value
        beginning = encoded[:_BEGINNING].decode(errors="ignore")
        return f"{beginning}…{hashlib.sha256(encoded).hexdigest()}"
    if isinstance(value, bytes) and len(value) > LONG:
        return value[:_BEGINNING] + hashlib.sha512(value).digest()
    return value


def key_encoder(kind: Kind, *, is_sorted: bool) -> Callable[[Scalar], ColumnValue]:
    """Return the encoder of a key. ``is_sorted``: it is also compared by order."""
    encode = _ENCODERS[kind]
    if is_sorted or kind is Kind.NUMBER:
        return encode

    def encode_short(value: Scalar) -> ColumnValue:
        encoded = encode(value)
        return encoded if len(encoded) * 4 <= LONG else shorten(encoded)

    return encode_short


@dataclass(frozen=True, slots=True)
class Column:
    """The column of a key attribute."""

    attribute: str
    name: str
    kind: Kind
    encode: Callable[[Scalar], ColumnValue]

    @property
    def type(self) -> str:
        return _TYPES[self.kind]

    @property
    def declaration(self) -> str:
        collation = ' COLLATE "C"' if self.kind is Kind.STRING else ""
        return f'"{self.name}" {self.type}{collation}'


class Columns:
    """The columns of a table. ``keys``: of the table's key; ``indexed``: the other attributes that
    indexes use; ``encoders``: of both, by attribute. ``names`` and ``types``: of all, in the order
    of a row; quoted.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        ordered = {key.name for key in (table.sort, *(i.sort for i in table.indexes)) if key}
        attributes = {key.name: key for key in table.key_attributes}
        self._of = {
            name: Column(
                name,
                _column_name(name, number),
                key.kind,
                key_encoder(key.kind, is_sorted=name in ordered),
            )
            for number, (name, key) in enumerate(attributes.items())
        }
        self.keys = tuple(self._of[name] for name in table.key_names)
        self.indexed = tuple(c for n, c in self._of.items() if n not in table.key_names)
        self.expires = table.expiry is not None
        columns = [(f'"{c.name}"', c.type) for c in (*self.keys, *self.indexed)]
        columns += [("expires", "float8")] * self.expires
        columns += [("item", "bytea"), ("row", "bigint")]
        self.names = tuple(name for name, _ in columns)
        self.types = tuple(type_ for _, type_ in columns)
        self.encoders = {column.attribute: column.encode for column in self._of.values()}
        self._key_encoders = tuple(column.encode for column in self.keys)

    def of(self, key: Key) -> Column:
        return self._of[key.name]

    def encode_key(self, key: Sequence[Scalar]) -> tuple[ColumnValue, ...]:
        return tuple([encode(value) for encode, value in zip(self._key_encoders, key, strict=True)])


def _column_name(attribute: str, number: int) -> str:
    # Attribute names may be of any length and of any characters.
    is_plain = _PLAIN_NAME.fullmatch(attribute) and attribute not in _RESERVED
    return attribute if is_plain else f"~{number}"
