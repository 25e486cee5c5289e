"""update: attributes, sets, results, and the item it creates."""

from typing import Any

import pytest

from keytables import MAX_ITEM_SIZE, Item, ItemTooLarge, SchemaError, TableHandle, Update
from support.cases import cases

KEY = ("u", "1")
BARE: Item = {"user": "u", "place": "1"}

ADD = Update(add_to=("members",))
TAKE = Update(take_from=("members",))


def members(*names: str) -> dict[str, frozenset[str]]:
    return {"members": frozenset(names)}


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


async def test_an_item_cannot_grow_beyond_the_limit(messages: TableHandle) -> None:
    await messages.put({**BARE, "a": "x" * (MAX_ITEM_SIZE - 1000)})
    before = await messages.get(KEY)
    with pytest.raises(ItemTooLarge):
        await messages.update(KEY, Update(set={"b": "y" * 2000}))
    assert await messages.get(KEY) == before
