"""Keys, values and sizes."""

from typing import Any

import pytest
from hypothesis import given

from keytables import Item, Key, Kind, SchemaError
from keytables.checks import item_size, key_check, snapshot
from keytables.values import MAX_DEPTH
from support.cases import cases
from support.table_values import values


@cases(
    ("value", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("☃", 3),
        (b"abc", 3),
        (None, 1),
        (True, 1),
        (0, 2),
        (7, 2),
        (1234, 3),
        (-1234, 4),
        ([], 3),
        (["a", "b"], 7),
        ({"k": "v"}, 6),
        (frozenset({"ab", "c"}), 3),
    ],
)
def test_sizes_are_counted_as_dynamodb_does(value: Any, size: int) -> None:
    assert item_size({"name": value}) == len("name") + size


def test_the_size_of_an_item_is_that_of_its_names_and_values() -> None:
    item: Item = {"ü": "ab", "n": None}
    assert item_size(item) == 2 + 2 + 1 + 1


@given(values)
def test_a_snapshot_equals_what_it_was_taken_of(value: Any) -> None:
    assert snapshot(value, "a") == value


def test_a_snapshot_does_not_change_with_its_source() -> None:
    inner: list[Any] = [1]
    members = {"a"}
    taken: Any = snapshot({"list": inner, "set": members}, "a")
    inner.append(2)
    members.add("b")
    assert taken == {"list": [1], "set": frozenset({"a"})}


def test_an_error_names_the_attribute_but_not_the_value() -> None:
    with pytest.raises(SchemaError, match=r"'attribute'.*tuple") as caught:
        snapshot(("secret",), "attribute")
    assert "secret" not in str(caught.value)
    with pytest.raises(SchemaError, match="'user'") as caught:
        key_check(Key("user", Kind.NUMBER), 10)("secret")
    assert "secret" not in str(caught.value)


def test_values_are_nested_up_to_the_limit() -> None:
    value: Any = "innermost"
    for level in range(MAX_DEPTH - 1):
        value = [value] if level % 2 else {"a": value}
    assert snapshot(value, "a") == value
    for _ in range(500):
        value = [value]
        with pytest.raises(SchemaError, match="32 deep"):
            snapshot(value, "a")


def test_values_of_subclasses_become_those_of_the_base_class() -> None:
    assert type(snapshot(Kind.STRING, "a")) is str
    assert type(key_check(Key("a"), 10)(Kind.STRING)) is str
