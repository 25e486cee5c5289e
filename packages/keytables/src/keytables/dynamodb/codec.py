"""Values and items in DynamoDB's JSON: a value is an object of one member, as ``{"N": "5"}``.

Rule: what is read equals what was written; only a float without a fraction may be read as an
integer.
"""

import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

import orjson
import pybase64

from keytables.checks import check_depth, check_names, check_size, snapshot
from keytables.errors import SchemaError, Unavailable
from keytables.values import MAX_ITEM_SIZE, Item, Value

AttributeValue: TypeAlias = Mapping[str, Any]
"""A value in DynamoDB's form."""

AttributeMap: TypeAlias = Mapping[str, AttributeValue]
"""An item in DynamoDB's form."""

_INT64: Final = 2**63
_TRUE: Final[AttributeValue] = {"BOOL": True}
_FALSE: Final[AttributeValue] = {"BOOL": False}
_NULL: Final[AttributeValue] = {"NULL": True}


def dumps(value: object) -> bytes:
    """Raises SchemaError for text that UTF-8 cannot encode."""
    try:
        return orjson.dumps(value)
    except TypeError:
        raise SchemaError("text of the item holds a surrogate, which UTF-8 cannot encode") from None


def loads(body: bytes) -> dict[str, Any]:
    """Raises Unavailable if a response is no JSON object."""
    try:
        response = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unavailable("the response of the database is not JSON") from error
    if type(response) is not dict:
        raise Unavailable("the response of the database is not an object")
    return response


# --- encoding ----------------------------------------------------------------------------------


def dump_item(item: Item) -> bytes:
    """Return the JSON of an item. Raises SchemaError and ItemTooLarge."""
    body = dumps(encode_item(item))
    check_sizes(body, (item,))
    return body


def check_sizes(body: bytes, items: Iterable[Item]) -> None:
    """Raise ItemTooLarge if one of the items in a JSON text is above the limit."""
    # Every part of an item takes at least as many bytes in JSON as DynamoDB counts.
    if len(body) > MAX_ITEM_SIZE:
        for item in items:
            check_size(item)


def encode_item(item: Item) -> dict[str, AttributeValue]:
    """Return an item in DynamoDB's form, without its empty sets. Raises SchemaError."""
    check_names(item)
    attributes: dict[str, AttributeValue] = {}
    for name, value in item.items():
        if type(value) is str:
            attributes[name] = {"S": value}
        elif type(value) is int and -_INT64 <= value < _INT64:
            attributes[name] = {"N": str(value)}
        elif (encoded := encode_value(value, name)) is not None:
            attributes[name] = encoded
    return attributes


def encode_value(value: Value, name: str, depth: int = 1) -> AttributeValue | None:
    """Return a value in DynamoDB's form; None for the empty set, which cannot be stored.

    Raises SchemaError for ``name``, the attribute or parameter; ``depth``: level of the value.
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
        members: dict[str, AttributeValue] = {}
        for key, inner in value.items():
            if type(key) is not str or not key:
                snapshot(value, name, depth)  # raises if something is wrong
            members[str(key)] = _encode_inner(inner, name, depth + 1)
        return {"M": members}
    if type(value) is list:
        return {"L": [_encode_inner(inner, name, depth + 1) for inner in value]}
    copied = snapshot(value, name, depth)
    if type(copied) is float:
        # With all digits where it will be read as an integer: the shortest form is a float's.
        is_int64 = copied.is_integer() and -_INT64 <= copied < _INT64
        return {"N": str(int(copied)) if is_int64 else repr(copied)}
    if type(copied) is frozenset:
        return {"SS": sorted(copied)} if copied else None
    return encode_value(copied, name, depth)  # a subclass, now of the base type


def _encode_inner(value: Value, name: str, depth: int) -> AttributeValue:
    check_depth(depth, name)
    encoded = encode_value(value, name, depth)
    if encoded is None:
        raise SchemaError(f"{name!r}: an empty set cannot be stored inside a list or map")
    return encoded


# --- decoding ----------------------------------------------------------------------------------


def decode_item(encoded: AttributeMap) -> Item:
    """Raises Unavailable for what no item can hold."""
    item: Item = {}
    for name, value in encoded.items():
        if "S" in value:
            item[name] = value["S"]
        elif "N" in value:
            item[name] = decode_number(value["N"])
        else:
            item[name] = decode_value(value)
    return item


def decode_value(encoded: AttributeValue) -> Value:
    """Raises Unavailable for an unknown type. Sets of any type are returned as frozensets."""
    [(tag, held)] = encoded.items()
    match tag:
        case "S" | "BOOL":
            return cast(Value, held)
        case "N":
            return decode_number(held)
        case "NULL":
            return None
        case "B":
            return _decode_bytes(held)
        case "M":
            return decode_item(held)
        case "L":
            return [decode_value(inner) for inner in held]
        case "SS":
            return frozenset(held)
        case "NS":
            return cast(Value, frozenset(map(decode_number, held)))
        case "BS":
            return cast(Value, frozenset(map(_decode_bytes, held)))
    raise Unavailable(f"the database sent a value of the unknown type {tag!r}")


def decode_number(text: str) -> int | float:
    """Return an integer if the text is one within 64 bits, otherwise the nearest float."""
    try:
        number = int(text)
    except ValueError:
        return _decode_fraction(text)
    return number if -_INT64 <= number < _INT64 else float(number)


def _decode_fraction(text: str) -> int | float:
    try:
        number = float(text)
    except ValueError as error:
        raise Unavailable("the database sent a number that cannot be read") from error
    return int(number) if number.is_integer() and -_INT64 <= number < _INT64 else number


def _decode_bytes(text: str) -> bytes:
    try:
        return pybase64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Unavailable("the database sent base64 that cannot be read") from error


# --- comparing --------------------------------------------------------------------------------


def equal_items(left: AttributeMap, right: AttributeMap) -> bool:
    """Whether two items are equal, whatever form a server gives their numbers."""
    return left.keys() == right.keys() and all(
        equal_values(left[name], right[name]) for name in left
    )


def equal_values(left: AttributeValue, right: AttributeValue) -> bool:
    """Whether two values are equal and of the same type, at every level."""
    [(tag, held)], [(other_tag, wanted)] = left.items(), right.items()
    if tag != other_tag:
        return False
    match tag:
        case "N":
            return decode_number(held) == decode_number(wanted)
        case "SS":
            return set(held) == set(wanted)
        case "M":
            return equal_items(held, wanted)
        case "L":
            return len(held) == len(wanted) and all(map(equal_values, held, wanted))
    return bool(held == wanted)
