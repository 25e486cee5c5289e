"""Conditions of put, update and delete."""

from typing import Any

import pytest

from keytables import (
    Attr,
    Condition,
    ConditionFailed,
    Item,
    Param,
    SchemaError,
    TableHandle,
    Update,
    Value,
)
from support.cases import cases

KEY = ("u", "1")
STORED: Item = {
    "user": "u",
    "place": "1",
    "text": "mé",
    "n": 5,
    "f": 2.5,
    "raw": b"b",
    "yes": True,
    "none": None,
    "list": [1, "a"],
    "map": {"a": 1},
    "set": frozenset({"x", "y"}),
}


async def holds(table: TableHandle, condition: Condition, values: Any = None) -> bool:
    """Evaluate a condition by a delete of a new item; if it is false, nothing is changed."""
    await table.put(STORED)
    refused: ConditionFailed | None = None
    try:
        await table.delete(KEY, condition=condition, values=values)
    except ConditionFailed as failure:
        refused = failure
    left = await table.get(KEY)
    assert left == (STORED if refused else None)
    assert refused is None or refused.item == STORED
    return refused is None


@cases(
    ("condition", "expected"),
    [
        (Attr("n").exists(), True),
        (Attr("none").exists(), True),
        (Attr("gone").exists(), False),
        (Attr("n").absent(), False),
        (Attr("gone").absent(), True),
        (Attr("user").exists(), True),
        (Attr("place") == "1", True),
        (Attr("n") == 5, True),
        (Attr("n") == 5.0, True),
        (Attr("n") == 6, False),
        (Attr("n") == "5", False),
        (Attr("f") == 2.5, True),
        (Attr("text") == "mé", True),
        (Attr("text") == "me", False),
        (Attr("raw") == b"b", True),
        (Attr("raw") == "b", False),
        (Attr("yes") == True, True),  # noqa: E712
        (Attr("yes") == 1, False),
        (Attr("yes") != 1, True),
        (Attr("none") == None, True),  # noqa: E711
        (Attr("set") == frozenset({"y", "x"}), True),
        (Attr("set") == {"y", "x"}, True),
        (Attr("set") == frozenset({"x"}), False),
        (Attr("set") == frozenset(), False),
        (Attr("set") != frozenset(), True),
        (Attr("gone") == frozenset(), False),
        (Attr("gone") == 5, False),
        (Attr("gone") == None, False),  # noqa: E711
        (Attr("n") != 5, False),
        (Attr("n") != 6, True),
        (Attr("n") != "5", True),
        (Attr("gone") != 5, True),
        (Attr("n") < 6, True),
        (Attr("n") < 5, False),
        (Attr("n") < 5.5, True),
        (Attr("n") <= 5, True),
        (Attr("n") <= 4, False),
        (Attr("n") > 4, True),
        (Attr("n") > 5, False),
        (Attr("n") >= 5, True),
        (Attr("n") >= 6, False),
        (Attr("n") < "6", False),
        (Attr("n") >= "5", False),
        (Attr("yes") < 2, False),
        (Attr("gone") < 5, False),
        (Attr("gone") >= 5, False),
        (Attr("none") < 5, False),
        (Attr("text") < "n", True),
        (Attr("text") > "mz", True),
        (Attr("raw") > b"a", True),
        (Attr("raw") < b"a", False),
        ((Attr("n") == 5) & (Attr("f") == 2.5), True),
        ((Attr("n") == 5) & (Attr("f") == 3), False),
        ((Attr("n") == 6) | (Attr("f") == 2.5), True),
        ((Attr("n") == 6) | (Attr("f") == 3), False),
        (~(Attr("n") == 6), True),
        (~Attr("n").exists(), False),
        (~((Attr("n") == 5) & (Attr("gone").absent() | (Attr("f") > 9))), False),
    ],
)
async def test_operators(messages: TableHandle, condition: Condition, expected: bool) -> None:
    assert await holds(messages, condition) is expected


@pytest.mark.needs("equality of lists and maps")
@cases(
    ("condition", "expected"),
    [
        (Attr("list") == [1, "a"], True),
        (Attr("list") == [1.0, "a"], True),
        (Attr("list") == [True, "a"], False),
        (Attr("map") == {"a": 1}, True),
        (Attr("map") == {"a": 1, "b": 2}, False),
    ],
)
async def test_lists_and_maps_are_equal_if_all_in_them_is(
    messages: TableHandle, condition: Condition, expected: bool
) -> None:
    assert await holds(messages, condition) is expected


@cases(("given", "expected"), [(5, True), (6, False), ("5", False)])
async def test_parameters_take_their_values_from_the_call(
    messages: TableHandle, given: Value, expected: bool
) -> None:
    assert await holds(messages, Attr("n") == Param("n"), {"n": given}) is expected


async def test_a_missing_parameter_is_a_schema_error(messages: TableHandle) -> None:
    await messages.put(STORED)
    with pytest.raises(SchemaError):
        await messages.delete(KEY, condition=Attr("n") == Param("n"))
    assert await messages.get(KEY) == STORED


@cases("value", [[1], True, None, {"a": 1}, {"x"}])
async def test_only_numbers_text_and_bytes_have_an_order(messages: TableHandle, value: Any) -> None:
    await messages.put(STORED)
    with pytest.raises(SchemaError):
        await messages.delete(KEY, condition=Attr("n") < value)


async def test_conditions_cannot_be_combined_with_and() -> None:
    with pytest.raises(TypeError):
        bool(Attr("n") == 5)


async def test_an_update_with_a_false_condition_changes_nothing(messages: TableHandle) -> None:
    await messages.put(STORED)
    update = Update(set={"n": 9}, remove=("text",), add_to={"set": frozenset({"z"})})
    with pytest.raises(ConditionFailed) as caught:
        await messages.update(KEY, update, condition=Attr("n") == 6)
    assert caught.value.item == STORED
    assert await messages.get(KEY) == STORED
