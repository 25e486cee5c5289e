"""Items on the wire: what boto3 would send, and what is read equals what was written."""

from decimal import Decimal
from typing import Any

import orjson
import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from keytables import MAX_ITEM_SIZE, Item, ItemTooLarge, SchemaError, Unavailable
from keytables.checks import item_size
from keytables.dynamodb.codec import (
    encode,
    item_of,
    loads,
    number,
    same,
    same_items,
    value_of,
    wire,
    wire_item,
)
from support.table_values import items, values


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
        return number(str(value))
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


@given(items)
def test_what_is_read_equals_what_was_written(item: Any) -> None:
    assert kinds(item_of(loads(encode(item)))) == kinds(item)


def has_bytes(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(has_bytes, value.values() if isinstance(value, dict) else value))
    return isinstance(value, bytes)


@given(items)
def test_boto3_reads_what_we_write(item: Any) -> None:
    # Its client takes the base64 off bytes before its deserializer sees them.
    item = {name: value for name, value in item.items() if not has_bytes(value)}
    read: Any = TypeDeserializer().deserialize
    found = {name: read(sent) for name, sent in wire_item(item).items()}
    assert kinds(from_boto(found)) == kinds(item)


@given(st.recursive(st.text(max_size=3) | st.integers(-(2**63), 2**63 - 1), st.lists))
def test_we_write_what_boto3_writes(value: Any) -> None:
    assert wire(value, "a") == TypeSerializer().serialize(boto(value))


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("text", {"S": "text"}),
        ("", {"S": ""}),
        (5, {"N": "5"}),
        (-1.5, {"N": "-1.5"}),
        (1e100, {"N": "1e+100"}),
        (1.893125524224431e16, {"N": "18931255242244312"}),
        (True, {"BOOL": True}),
        (None, {"NULL": True}),
        (b"\x00\xff", {"B": "AP8="}),
        ([1, "a"], {"L": [{"N": "1"}, {"S": "a"}]}),
        ({"a": {"b": None}}, {"M": {"a": {"M": {"b": {"NULL": True}}}}}),
        ({"b", "a"}, {"SS": ["a", "b"]}),
        (frozenset(), None),
    ],
)
def test_each_kind_has_its_word(value: Any, sent: Any) -> None:
    assert wire(value, "a") == sent
    if sent is not None:
        assert value_of(sent) == value


@pytest.mark.parametrize(
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
def test_numbers_are_read_in_whatever_words(text: str, value: float) -> None:
    found = number(text)
    assert found == value
    assert type(found) is type(value)


def test_sets_that_only_others_write_are_read() -> None:
    found: Any = value_of({"NS": ["1", "2.5"]})
    assert found == frozenset({1, 2.5})
    found = value_of({"BS": ["AA=="]})
    assert found == frozenset({b"\0"})


@pytest.mark.parametrize("sent", [{"X": 1}, {"B": "*"}, {"N": "many"}], ids=repr)
def test_what_no_database_sends_is_unavailable(sent: Any) -> None:
    with pytest.raises(Unavailable):
        value_of(sent)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]"], ids=repr)
def test_an_answer_that_is_no_object_is_unavailable(body: bytes) -> None:
    with pytest.raises(Unavailable):
        loads(body)


@pytest.mark.parametrize(
    "item",
    [
        {"": 1},
        {"a": {"": 1}},
        {"a": {1: 1}},
        {"a": "\ud800"},
        {"a": {"\ud800": 1}},
        {"a": [set()]},
        {"a": 2**63},
        {"a": [2**63]},
    ],
    ids=repr,
)
def test_what_cannot_be_stored_is_refused(item: Any) -> None:
    with pytest.raises(SchemaError):
        encode(item)


def test_an_error_names_the_attribute_and_not_the_value() -> None:
    with pytest.raises(SchemaError, match="'attribute'") as caught:
        encode({"attribute": ("secret",)})  # type: ignore[dict-item]
    assert "secret" not in str(caught.value)


def test_empty_sets_are_left_out() -> None:
    assert wire_item({"a": set(), "b": 1}) == {"b": {"N": "1"}}


@given(items)
def test_an_item_is_never_shorter_on_the_wire_than_it_counts(item: Any) -> None:
    # What `encode` relies on when it leaves the counting out.
    assert len(encode(item)) >= item_size({name: v for name, v in item.items() if v != set()})


def test_the_limit_is_that_of_the_item_not_of_its_words() -> None:
    wordy: Item = {"a": "\0" * (MAX_ITEM_SIZE - 1)}  # six bytes each in JSON
    assert loads(encode(wordy)) == {"a": {"S": wordy["a"]}}
    with pytest.raises(ItemTooLarge):
        encode({"a": "x" * MAX_ITEM_SIZE})


@given(values)
def test_a_value_is_the_same_as_itself(value: Any) -> None:
    sent = wire(value, "a")
    assert sent is not None
    assert same(sent, orjson.loads(orjson.dumps(sent)))


@pytest.mark.parametrize(
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
def test_values_are_compared_by_what_they_mean(left: Any, right: Any, expected: bool) -> None:
    assert same(left, right) is expected
    assert same_items({"x": left}, {"x": right}) is expected
