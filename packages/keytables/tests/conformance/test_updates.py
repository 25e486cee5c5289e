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
    Value,
    Values,
)
from support.cases import cases

KEY = ("u", "1")
BARE: Item = {"user": "u", "place": "1"}

ADD = Update(add_to=("members",))
TAKE = Update(take_from=("members",))


def members(*names: str) -> dict[str, frozenset[str]]:
    return {"members": frozenset(names)}


async def test_set_changes_only_what_it_names(messages: TableHandle) -> None:
    await messages.put({**BARE, "a": 1, "b": 2})
    deep: Value = [1, {"d": None}]
    await messages.update(KEY, Update(set={"b": 3, "c": Param("c")}), {"c": deep})
    assert await messages.get(KEY) == {**BARE, "a": 1, "b": 3, "c": deep}


async def test_an_absent_item_is_created_with_its_key(messages: TableHandle) -> None:
    await messages.update(KEY, Update(set=("a",)), {"a": 1})
    assert await messages.get(KEY) == {**BARE, "a": 1}


async def test_remove_removes_attributes(messages: TableHandle) -> None:
    await messages.put({**BARE, "a": 1, "b": 2})
    await messages.update(KEY, Update(remove=("a", "gone")))
    assert await messages.get(KEY) == {**BARE, "b": 2}


@cases("update", [Update(remove=("a",)), TAKE])
async def test_an_update_that_only_removes_creates_no_item(
    messages: TableHandle, update: Update
) -> None:
    result = await messages.update(KEY, update, members("x"), returning=Returning.NEW)
    assert result is None
    assert await messages.get(KEY) is None


async def test_sets_grow_and_shrink_and_repetition_changes_nothing(messages: TableHandle) -> None:
    for _ in range(2):
        await messages.update(KEY, ADD, members("a", "b"))
    for _ in range(2):
        await messages.update(KEY, ADD, members("c"))
    assert await messages.get(KEY) == {**BARE, "members": frozenset("abc")}
    for _ in range(2):
        await messages.update(KEY, TAKE, members("a", "z"))
    assert await messages.get(KEY) == {**BARE, "members": frozenset("bc")}


async def test_an_attribute_is_removed_with_the_last_member_of_its_set(
    messages: TableHandle,
) -> None:
    await messages.update(KEY, ADD, members("a", "b"))
    await messages.update(KEY, TAKE, members("a", "b"))
    assert await messages.get(KEY) == BARE
    await messages.update(KEY, ADD, members("c"))
    assert await messages.get(KEY) == {**BARE, "members": frozenset("c")}


async def test_adding_nothing_adds_nothing(messages: TableHandle) -> None:
    await messages.put({**BARE, "a": 1})
    await messages.update(KEY, ADD, members())
    assert await messages.get(KEY) == {**BARE, "a": 1}


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


async def test_returning_selects_the_result(messages: TableHandle) -> None:
    update = Update(set=("a",))
    assert await messages.update(KEY, update, {"a": 1}, returning=Returning.OLD) is None
    old = await messages.update(KEY, update, {"a": 2}, returning=Returning.OLD)
    assert old == {**BARE, "a": 1}
    new = await messages.update(KEY, update, {"a": 3}, returning=Returning.NEW)
    assert new == {**BARE, "a": 3}
    assert await messages.update(KEY, update, {"a": 4}) is None


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
