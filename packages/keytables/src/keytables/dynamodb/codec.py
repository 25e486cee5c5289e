"""Values and items in DynamoDB's JSON.

The one rule: what is read equals what was written; only a whole float may come back as an integer.

A value on the wire is an object of one member, its kind: ``{"S": "text"}``, ``{"N": "5"}``.
"""

import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

import orjson
import pybase64

from keytables.checks import check_depth, check_names, check_size, snapshot
from keytables.errors import SchemaError, Unavailable
from keytables.values import MAX_ITEM_SIZE, Item, Value

__all__ = [
    "Wire",
    "WireItem",
    "check_sizes",
    "dumps",
    "encode",
    "item_of",
    "loads",
    "number",
    "same",
    "same_items",
    "value_of",
    "wire",
    "wire_item",
]

Wire: TypeAlias = Mapping[str, Any]
"""A value on the wire."""

WireItem: TypeAlias = Mapping[str, Wire]

_INT64: Final = 2**63
_TRUE: Final[Wire] = {"BOOL": True}
_FALSE: Final[Wire] = {"BOOL": False}
_NULL: Final[Wire] = {"NULL": True}


def dumps(value: object) -> bytes:
    """Return the JSON of a part of a request. Raises SchemaError for text that UTF-8 has not."""
    try:
        return orjson.dumps(value)
    except TypeError:
        raise SchemaError("text of the item holds a surrogate, which UTF-8 has not") from None


def loads(body: bytes) -> dict[str, Any]:
    """Return the object of an answer. Raises Unavailable when it is none."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unavailable("the answer of the database is not JSON") from error
    if type(answer) is not dict:
        raise Unavailable("the answer of the database is not an object")
    return answer


# --- writing ----------------------------------------------------------------------------------


def encode(item: Item) -> bytes:
    """Return the JSON of an item. Raises SchemaError and ItemTooLarge."""
    body = dumps(wire_item(item))
    check_sizes(body, (item,))
    return body


def check_sizes(body: bytes, items: Iterable[Item]) -> None:
    """Raise ItemTooLarge if one of the items that make up a JSON text is above the limit."""
    # Every part of an item takes at least as many bytes there as DynamoDB counts.
    if len(body) > MAX_ITEM_SIZE:
        for item in items:
            check_size(item)


def wire_item(item: Item) -> dict[str, Wire]:
    """Return an item as it is sent, without its empty sets. Raises SchemaError."""
    check_names(item)
    found: dict[str, Wire] = {}
    for name, value in item.items():
        if type(value) is str:
            found[name] = {"S": value}
        elif type(value) is int and -_INT64 <= value < _INT64:
            found[name] = {"N": str(value)}
        elif (sent := wire(value, name)) is not None:
            found[name] = sent
    return found


def wire(value: Value, name: str, depth: int = 1) -> Wire | None:
    """Return a value as it is sent, ``None`` for the empty set, which cannot be stored.

    Raises SchemaError naming ``name``, the attribute or parameter it came under, ``depth`` levels
    deep.
    """
    if type(value) is str:
        return {"S": value}
    if type(value) is int:
        if not -_INT64 <= value < _INT64:
            raise SchemaError(f"{name!r}: expected an integer within 64 bits")
        return {"N": str(value)}
    if type(value) is bool:
        return _TRUE if value else _FALSE
    if value is None:
        return _NULL
    if type(value) is bytes:
        return {"B": pybase64.b64encode_as_string(value)}
    if type(value) is dict:
        members: dict[str, Wire] = {}
        for key, inner in value.items():
            if type(key) is not str or not key:
                snapshot(value, name, depth)  # says what is wrong, if something is
            members[str(key)] = _inner(inner, name, depth + 1)
        return {"M": members}
    if type(value) is list:
        return {"L": [_inner(inner, name, depth + 1) for inner in value]}
    taken = snapshot(value, name, depth)
    if type(taken) is float:
        # Digit by digit where it will be read as an integer, which has no shortest form.
        whole = taken.is_integer() and -_INT64 <= taken < _INT64
        return {"N": str(int(taken)) if whole else repr(taken)}
    if type(taken) is frozenset:
        return {"SS": sorted(taken)} if taken else None
    return wire(taken, name, depth)  # a subclass, now of the plain kind


def _inner(value: Value, name: str, depth: int) -> Wire:
    check_depth(depth, name)
    found = wire(value, name, depth)
    if found is None:
        raise SchemaError(f"{name!r}: an empty set cannot be stored inside a list or map")
    return found


# --- reading ----------------------------------------------------------------------------------


def item_of(sent: WireItem) -> Item:
    """Return the item that was sent. Raises Unavailable for what no item can hold."""
    found: Item = {}
    for name, value in sent.items():
        if "S" in value:
            found[name] = value["S"]
        elif "N" in value:
            found[name] = number(value["N"])
        else:
            found[name] = value_of(value)
    return found


def value_of(sent: Wire) -> Value:
    """Return the value that was sent. Raises Unavailable for what no item can hold.

    Sets of numbers and bytes, which only others write, are frozensets of these.
    """
    [(kind, held)] = sent.items()
    match kind:
        case "S" | "BOOL":
            return cast(Value, held)
        case "N":
            return number(held)
        case "NULL":
            return None
        case "B":
            return _bytes(held)
        case "M":
            return item_of(held)
        case "L":
            return [value_of(inner) for inner in held]
        case "SS":
            return frozenset(held)
        case "NS":
            return cast(Value, frozenset(map(number, held)))
        case "BS":
            return cast(Value, frozenset(map(_bytes, held)))
    raise Unavailable(f"the database sent a value of the unknown kind {kind!r}")


def number(text: str) -> int | float:
    """Return the number that a text stands for: an integer if it is one within 64 bits, otherwise
    the nearest float.
    """
    try:
        whole = int(text)
    except ValueError:
        return _broken(text)
    return whole if -_INT64 <= whole < _INT64 else float(whole)


def _broken(text: str) -> int | float:
    try:
        found = float(text)
    except ValueError as error:
        raise Unavailable("the database sent a number that is none") from error
    return int(found) if found.is_integer() and -_INT64 <= found < _INT64 else found


def _bytes(text: str) -> bytes:
    try:
        return pybase64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Unavailable("the database sent damaged base64") from error


# --- comparing --------------------------------------------------------------------------------


def same_items(left: WireItem, right: WireItem) -> bool:
    """Whether two items are one, whatever words a server has for a number."""
    return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)


def same(left: Wire, right: Wire) -> bool:
    """Whether two values are equal and of one kind, all the way down."""
    [(kind, held)], [(other, wanted)] = left.items(), right.items()
    if kind != other:
        return False
    match kind:
        case "N":
            return number(held) == number(wanted)
        case "SS":
            return set(held) == set(wanted)
        case "M":
            return same_items(held, wanted)
        case "L":
            return len(held) == len(wanted) and all(map(same, held, wanted))
    return bool(held == wanted)
