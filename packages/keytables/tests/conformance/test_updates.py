"""update: attributes, sets, results, and the item it creates."""

from typing import Any

import pytest

from keytables import (
    MAX_ITEM_SIZE,
    Item,
    ItemTooLarge,
    Param,
    Returning,
    SchemaError,
    TableHandle,
    Update,
    Values,
)
from support.cases import cases

KEY = ("u", "1")
BARE: Item = {"user": "u", "place": "1"}

ADD = Update(add_to=("members",))
TAKE = Update(take_from=("members",))


def members(*names: str) -> dict[str, frozenset[str]]:
    return {"members": frozenset(names)}


@cases("update", [Update(remove=("a",)), TAKE])
async def test_an_update_that_only_removes_creates_no_item(
    messages: TableHandle, update: Update
) -> None:
    result = await messages.update(KEY, update, members("x"), returning=Returning.NEW)
    assert result is None
    assert await messages.get(KEY) is None


async def test_setting_an_empty_set_removes_the_attribute(messages: TableHandle) -> None:
    await messages.put({**BARE, "members": {"a"}})
    await messages.update(KEY, Update(set=("members",)), members())
    assert await messages.get(KEY) == BARE


@cases("update", [ADD, TAKE])
async def test_a_set_operation_needs_a_set(messages: TableHandle, update: Update) -> None:
    await messages.put({**BARE, "members": "text"})
    with pytest.raises(SchemaError):
        await messages.update(KEY, update, members("a"))
    assert await messages.get(KEY) == {**BARE, "members": "text"}


@cases("value", ["a", ["a"], None])
async def test_a_set_operation_takes_a_set(messages: TableHandle, value: Any) -> None:
    with pytest.raises(SchemaError):
        await messages.update(KEY, ADD, {"members": value})


async def test_all_parts_of_an_update_are_applied_atomically(messages: TableHandle) -> None:
    await messages.put({**BARE, "a": 1, "b": 2, "plus": {"x"}, "minus": {"x", "y"}})
    update = Update(
        set=("a",), remove=("b",), add_to={"plus": Param("add")}, take_from={"minus": Param("take")}
    )
    values: Values = {"a": 9, "add": {"z"}, "take": {"x"}}
    new = await messages.update(KEY, update, values, returning=Returning.NEW)
    expected = {**BARE, "a": 9, "plus": frozenset("xz"), "minus": frozenset("y")}
    assert new == expected == await messages.get(KEY)


async def test_the_old_item_is_returned_with_its_old_set(messages: TableHandle) -> None:
    await messages.update(KEY, ADD, members("a"))
    old = await messages.update(KEY, ADD, members("b"), returning=Returning.OLD)
    assert old == {**BARE, "members": frozenset("a")}


async def test_values_may_be_changed_after_the_call(messages: TableHandle) -> None:
    given = {"members": {"a"}}
    update = messages.update(KEY, ADD, given)
    given["members"].add("b")
    await update
    assert await messages.get(KEY) == {**BARE, "members": frozenset("a")}


async def test_a_missing_parameter_is_a_schema_error(messages: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await messages.update(KEY, ADD)
    assert await messages.get(KEY) is None


@cases("update", [Update(set={"place": "2"}), Update(remove=("user",))])
async def test_keys_cannot_be_changed(messages: TableHandle, update: Update) -> None:
    with pytest.raises(SchemaError):
        await messages.update(KEY, update)


async def test_an_update_names_an_attribute_once() -> None:
    with pytest.raises(SchemaError):
        Update(set=("a",), remove=("a",))
    with pytest.raises(SchemaError):
        Update()
    with pytest.raises(SchemaError):
        Update(set=("",))


async def test_an_item_cannot_grow_beyond_the_limit(messages: TableHandle) -> None:
    await messages.put({**BARE, "a": "x" * (MAX_ITEM_SIZE - 1000)})
    before = await messages.get(KEY)
    with pytest.raises(ItemTooLarge):
        await messages.update(KEY, Update(set={"b": "y" * 2000}))
    assert await messages.get(KEY) == before
