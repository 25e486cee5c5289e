"""Validation of keys, values, items and arguments.

Rule: every engine refuses the same input with the same error, even input that it could store.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isfinite
from typing import TypeAlias

from keytables.errors import ItemTooLarge, SchemaError
from keytables.schema import Cursor, Index, Key, Kind, Range, Table
from keytables.values import (
    MAX_DEPTH,
    MAX_ITEM_SIZE,
    MAX_PARTITION_KEY,
    MAX_SORT_KEY,
    Item,
    KeyTuple,
    Scalar,
    Value,
)

KeyCheck: TypeAlias = Callable[[object], Scalar]
"""Returns the value as a valid key, or raises SchemaError."""

PLAIN_TYPES = frozenset({str, int, bytes, bool, type(None)})
"""Types whose values need neither a check nor a copy."""

_INT64 = 2**63
_MAX_NUMBER = 1e126
_MIN_NUMBER = 1e-130
"""The range of magnitudes of DynamoDB's numbers; the maximum is exclusive."""


def key_check(key: Key, limit: int) -> KeyCheck:
    """Return the check of a key attribute. ``limit``: bytes of text and bytes keys."""
    name = key.name

    def text(value: object) -> Scalar:
        if type(value) is str and 0 < len(value) <= limit and value.isascii():
            return value
        if not isinstance(value, str):
            raise SchemaError(f"key {name!r}: expected text, got {type(value).__name__}")
        if not value:
            raise SchemaError(f"key {name!r} is empty")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise SchemaError(
                f"key {name!r} holds a surrogate, which UTF-8 cannot encode"
            ) from None
        if size > limit:
            raise SchemaError(f"key {name!r} has {size} bytes, the limit is {limit}")
        return str.__str__(value)

    def number(value: object) -> Scalar:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(f"key {name!r}: expected a number, got {type(value).__name__}")
        if isinstance(value, float):
            _check_float(value, f"key {name!r}")
        elif not -_INT64 <= value < _INT64:
            raise SchemaError(f"key {name!r}: expected an integer within 64 bits")
        return value

    def binary(value: object) -> Scalar:
        if not isinstance(value, bytes):
            raise SchemaError(f"key {name!r}: expected bytes, got {type(value).__name__}")
        if not value:
            raise SchemaError(f"key {name!r} is empty")
        if len(value) > limit:
            raise SchemaError(f"key {name!r} has {len(value)} bytes, the limit is {limit}")
        return value

    return {Kind.STRING: text, Kind.NUMBER: number, Kind.BINARY: binary}[key.kind]


def key_checks(keyed: Table | Index) -> tuple[KeyCheck, ...]:
    partition = key_check(keyed.partition, MAX_PARTITION_KEY)
    if keyed.sort is None:
        return (partition,)
    return (partition, key_check(keyed.sort, MAX_SORT_KEY))


def position_checks(table: Table, index: Index | None = None) -> dict[str, KeyCheck]:
    """Return the attributes of a cursor within a partition of the table or the index, in order."""
    keyed = table if index is None else index
    first = {} if keyed.sort is None else {keyed.sort.name: key_checks(keyed)[1]}
    if index is None:
        return first
    return {**first, **dict(zip(table.key_names, key_checks(table), strict=True)), **first}


def key_tuple_check(table: Table) -> Callable[[KeyTuple], KeyTuple]:
    name, checks = table.name, key_checks(table)
    count, first, last = len(checks), checks[0], checks[-1]

    def check(key: KeyTuple) -> KeyTuple:
        if len(key) != count:
            raise SchemaError(f"table {name!r}: expected a key of {count}, got {len(key)} values")
        return (first(key[0]),) if count == 1 else (first(key[0]), last(key[1]))

    return check


def expiry_time(value: object, name: str) -> float | None:
    """Return when an item expires (None: never), by its attribute ``name``. Raises SchemaError."""
    if value is None:
        return None
    if type(value) is int and 0 < value < _INT64:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"expiry {name!r}: expected a number, got {type(value).__name__}")
    if value >= _INT64:
        raise SchemaError(f"expiry {name!r} is out of range")
    return value if value > 0 else None


# --- arguments of queries and writes --------------------------------------------------------------


def check_limit(limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise SchemaError("a limit must be at least 1")


def check_range(sort: Range, key: Key | None) -> None:
    """Raise SchemaError unless the sort key can have that range."""
    if key is None:
        raise SchemaError("a range needs a sort key")
    if sort.prefix is not None and key.kind is Kind.NUMBER:
        raise SchemaError(f"key {key.name!r}: a number has no prefix")


def check_bound(value: Scalar, check: KeyCheck) -> Scalar:
    """Return a bound of a range. Raises SchemaError for one of another type than the key's."""
    # No key is empty, but an empty bound is valid if it has the key's type: every key is above it.
    if value == "":
        check("-")
        return value
    if value == b"":
        check(b"-")
        return value
    return check(value)


def check_position(after: Cursor, checks: Sequence[KeyCheck]) -> KeyTuple:
    """Return the position of a cursor. Raises SchemaError if it belongs to another query."""
    if len(after.position) != len(checks):
        raise SchemaError("the cursor belongs to another query")
    return tuple(check(value) for check, value in zip(checks, after.position, strict=True))


def check_batch(puts: Sequence[KeyTuple], deletes: Collection[KeyTuple]) -> None:
    """Raise SchemaError for a batch that writes an item twice; ``deletes`` has no duplicates."""
    if len({*puts, *deletes}) < len(puts) + len(deletes):
        raise SchemaError("a batch puts a key twice, or puts and deletes it")


# --- values ---------------------------------------------------------------------------------------


def snapshot(value: object, name: str, depth: int = 1) -> Value:
    """Return a deep copy of a value, with sets frozen. Raises SchemaError if it cannot be stored.

    ``name``: the attribute or parameter, for the error; ``depth``: the nesting level of the value.
    """
    kind = type(value)
    if kind in PLAIN_TYPES:
        return value  # type: ignore[return-value]
    if isinstance(value, float):
        _check_float(value, repr(name))
        return float(value)
    if isinstance(value, list):
        return [_member(inner, name, depth + 1) for inner in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise SchemaError(f"{name!r}: the keys of a map must be text")
        if "" in value:
            raise SchemaError(f"{name!r}: a key of a map is empty")
        return {key: _member(inner, name, depth + 1) for key, inner in value.items()}
    if isinstance(value, AbstractSet):
        if not all(isinstance(member, str) for member in value):
            raise SchemaError(f"{name!r}: the members of a set must be text")
        return frozenset(value)
    if isinstance(value, str):  # for example a StrEnum
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    raise SchemaError(f"{name!r}: a {kind.__name__} cannot be stored")


def snapshot_all(values: Mapping[str, Value] | None) -> dict[str, Value]:
    """Return a copy of an item, or of values of parameters, that later changes do not reach.

    Raises SchemaError.
    """
    return {
        name: value if type(value) in PLAIN_TYPES else snapshot(value, name)
        for name, value in (values or {}).items()
    }


def _check_float(value: float, what: str) -> None:
    if not isfinite(value):
        raise SchemaError(f"{what}: expected a finite number")
    if not _MIN_NUMBER <= abs(value) < _MAX_NUMBER and value:
        raise SchemaError(f"{what}: expected a number from 1e-130 to below 1e126, or 0")


def _member(value: object, name: str, depth: int) -> Value:
    check_depth(depth, name)
    copy = snapshot(value, name, depth)
    if copy == frozenset():
        raise SchemaError(f"{name!r}: an empty set cannot be stored inside a list or map")
    return copy


def check_depth(depth: int, name: str) -> None:
    if depth > MAX_DEPTH:
        raise SchemaError(f"{name!r}: lists and maps are nested more than {MAX_DEPTH} deep")


def check_names(item: Item) -> None:
    if "" in item:
        raise SchemaError("an attribute needs a name")


def check_size(item: Item) -> None:
    size = item_size(item)
    if size > MAX_ITEM_SIZE:
        raise ItemTooLarge(size, MAX_ITEM_SIZE)


def item_size(item: Item) -> int:
    """Return the bytes of names and values, as DynamoDB counts them."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Value) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bytes):
        return len(value)
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int | float):
        digits = sum(map(str.isdigit, repr(value)))
        return (digits + 1) // 2 + 1 + (value < 0)
    if isinstance(value, list):
        return 3 + sum(1 + _value_size(inner) for inner in value)
    if isinstance(value, Mapping):
        return 3 + sum(1 + len(key.encode()) + _value_size(inner) for key, inner in value.items())
    return sum(len(member.encode()) for member in value)
