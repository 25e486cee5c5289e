"""Items in DynamoDB's JSON: what boto3 sends, and what is read equals what was written."""

from decimal import Decimal
from typing import Any

import pytest
from boto3.dynamodb.types import TypeSerializer
from hypothesis import given, settings
from hypothesis import strategies as st

from keytables import MAX_ITEM_SIZE, Item, ItemTooLarge, SchemaError, Unavailable
from keytables.checks import item_size
from keytables.dynamodb.codec import (
    decode_item,
    decode_number,
    decode_value,
    dump_item,
    encode_value,
    equal_items,
    equal_values,
    loads,
)
from support.cases import cases
from support.soak import examples
from support.table_values import items


def boto(value: Any) -> Any:
    """The value as boto3 takes it."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, dict):
        return {name: boto(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [boto(inner) for inner in value]
    return value


def from_boto(value: Any) -> Any:
    """The value that boto3 gave, with our numbers."""
    if isinstance(value, Decimal):
        return decode_number(str(value))
    if isinstance(value, dict):
        return {name: from_boto(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [from_boto(inner) for inner in value]
    return value


def kinds(value: Any) -> Any:
    """Tell kinds apart, but not whole numbers from equal floats."""
    if isinstance(value, dict):
        return {name: kinds(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [kinds(inner) for inner in value]
    return (bool, value) if isinstance(value, bool) else value


@settings(max_examples=examples(30, 300))
@given(items)
def test_what_is_read_equals_what_was_written(item: Any) -> None:
    assert kinds(decode_item(loads(dump_item(item)))) == kinds(item)


def has_bytes(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(has_bytes, value.values() if isinstance(value, dict) else value))
    return isinstance(value, bytes)


@settings(max_examples=examples(30, 300))
@given(st.recursive(st.text(max_size=3) | st.integers(-(2**63), 2**63 - 1), st.lists))
def test_values_are_encoded_as_boto3_does(value: Any) -> None:
    assert encode_value(value, "a") == TypeSerializer().serialize(boto(value))


@cases(
    ("text", "value"),
    [
        ("5", 5),
        ("-9223372036854775808", -(2**63)),
        ("1.0", 1),
        ("1.50", 1.5),
        ("1E+2", 100),
        ("10000000000000000000000", 1e22),
        ("9223372036854775808", 2.0**63),
        ("1E+100", 1e100),
    ],
)
def test_numbers_are_read_in_any_form(text: str, value: float) -> None:
    found = decode_number(text)
    assert found == value
    assert type(found) is type(value)


def test_sets_of_numbers_and_bytes_are_read() -> None:
    found: Any = decode_value({"NS": ["1", "2.5"]})
    assert found == frozenset({1, 2.5})
    found = decode_value({"BS": ["AA=="]})
    assert found == frozenset({b"\0"})


@pytest.mark.parametrize("encoded", [{"X": 1}, {"B": "*"}, {"N": "many"}], ids=repr)
def test_a_malformed_value_is_unavailable(encoded: Any) -> None:
    with pytest.raises(Unavailable):
        decode_value(encoded)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]"], ids=repr)
def test_a_response_that_is_no_object_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable):
        loads(body)


def test_an_error_names_the_attribute_and_not_the_value() -> None:
    with pytest.raises(SchemaError, match="'attribute'") as caught:
        dump_item({"attribute": ("secret",)})  # type: ignore[dict-item]
    assert "secret" not in str(caught.value)


@settings(max_examples=examples(30, 300))
@given(items)
def test_an_item_in_json_is_never_shorter_than_its_size(item: Any) -> None:
    # So that `dump_item` need not count the size of items whose JSON is short.
    assert len(dump_item(item)) >= item_size({name: v for name, v in item.items() if v != set()})


def test_the_limit_is_for_the_item_and_not_for_its_json() -> None:
    escaped: Item = {"a": "\0" * (MAX_ITEM_SIZE - 1)}  # six bytes each in JSON
    assert loads(dump_item(escaped)) == {"a": {"S": escaped["a"]}}
    with pytest.raises(ItemTooLarge):
        dump_item({"a": "x" * MAX_ITEM_SIZE})


@cases(
    ("left", "right", "expected"),
    [
        ({"N": "1.0"}, {"N": "1"}, True),
        ({"N": "1"}, {"S": "1"}, False),
        ({"N": "1"}, {"BOOL": True}, False),
        ({"SS": ["a", "b"]}, {"SS": ["b", "a"]}, True),
        ({"L": [{"N": "1e2"}]}, {"L": [{"N": "100"}]}, True),
        ({"L": [{"N": "1"}]}, {"L": []}, False),
        ({"M": {"a": {"N": "1"}}}, {"M": {"a": {"N": "2"}}}, False),
        ({"M": {"a": {"N": "1"}}}, {"M": {}}, False),
    ],
)
def test_values_are_compared_in_any_form(left: Any, right: Any, expected: bool) -> None:
    assert equal_values(left, right) is expected
    assert equal_items({"x": left}, {"x": right}) is expected
