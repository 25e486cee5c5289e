"""get, put and delete; keys, values and sizes."""

import asyncio
from typing import Any

import pytest

from keytables import (
    MAX_ITEM_SIZE,
    Engine,
    Item,
    ItemTooLarge,
    Key,
    Kind,
    Returning,
    SchemaError,
    Table,
    TableHandle,
    Update,
    Value,
)
from support.cases import cases


@cases(
    "value",
    [
        "",
        "text",
        "snow ☃ and \U0001f4a9 and \0 and ÿ",
        b"",
        b"\x00\xff",
        0,
        -1,
        2**63 - 1,
        -(2**63),
        1.5,
        -0.25,
        9.5e125,
        -1e-130,
        True,
        False,
        None,
        [],
        {},
        [1, "a", None, [b"x", {"k": True}]],
        {"a": {"b": [1.5, {"c": None}]}, " ": "blank name"},
        frozenset({"a", "b", "☃"}),
        [frozenset({"a"})],
        {"k": frozenset({"b", "c"})},
    ],
)
async def test_every_value_is_read_as_it_was_written(messages: TableHandle, value: Value) -> None:
    item: Item = {"user": "u", "place": "1", "value": value}
    await messages.put(item)
    found = await messages.get(("u", "1"))
    assert found is not None
    assert repr_of(found) == repr_of(item)


@pytest.mark.parametrize("depth", [33, 200, 5000])
async def test_a_value_nested_too_deep_is_refused(messages: TableHandle, depth: int) -> None:
    value: Value = "innermost"
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
        if level == 30:
            item: Item = {"user": "u", "place": "1", "value": value}
            await messages.put(item)
            assert await messages.get(("u", "1")) == item
    with pytest.raises(SchemaError):
        await messages.put({"user": "u", "place": "1", "value": value})
    with pytest.raises(SchemaError):
        await messages.update(("u", "1"), Update(set=("value",)), {"value": value})


def repr_of(value: Any) -> str:
    """A text that differs for True and 1, and for 1 and 1.0, but not for the order of a set."""
    if isinstance(value, frozenset):
        return f"set{sorted(value)}"
    if isinstance(value, dict):
        return str({key: repr_of(inner) for key, inner in sorted(value.items())})
    if isinstance(value, list):
        return str([repr_of(inner) for inner in value])
    return repr(value)


async def test_a_plain_set_is_read_as_a_frozenset(messages: TableHandle) -> None:
    await messages.put({"user": "u", "place": "1", "s": {"a", "b"}})
    found = await messages.get(("u", "1"))
    assert found is not None
    assert found["s"] == frozenset({"a", "b"})
    assert isinstance(found["s"], frozenset)


@cases(
    "value",
    [
        (1, 2),
        object(),
        float("nan"),
        float("inf"),
        2**64,
        -(2**63) - 1,
        1e126,
        1e-131,
        {1: "a"},
        {"": "a"},
        [{"a": {"": 1}}],
        {1, 2},
        {"deep": [(1,)]},
        [set()],
        "\ud800",
    ],
)
async def test_a_value_that_cannot_be_stored_is_a_schema_error(
    messages: TableHandle, value: Any
) -> None:
    with pytest.raises(SchemaError):
        await messages.put({"user": "u", "place": "1", "value": value})
    assert await messages.get(("u", "1")) is None


async def test_an_attribute_needs_a_name(messages: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await messages.put({"user": "u", "place": "1", "": "a"})
    assert await messages.get(("u", "1")) is None


async def test_a_whole_float_is_read_as_an_equal_number(messages: TableHandle) -> None:
    numbers: list[Value] = [1.0, -0.0, 1.893125524224431e16, 2.0**63, 1e100]
    await messages.put({"user": "u", "place": "1", "numbers": numbers})
    found = await messages.get(("u", "1"))
    assert found is not None
    assert found["numbers"] == numbers


async def test_an_item_may_be_changed_after_the_put(messages: TableHandle) -> None:
    inner: list[Value] = [1]
    item: Item = {"user": "u", "place": "1", "a": inner}
    put = messages.put(item)
    inner.append(2)
    item["b"] = 3
    await put
    assert await messages.get(("u", "1")) == {"user": "u", "place": "1", "a": [1]}


async def test_changing_an_item_that_was_read_does_not_change_the_store(
    messages: TableHandle,
) -> None:
    await messages.put({"user": "u", "place": "1", "a": {"b": 1}})
    found = await messages.get(("u", "1"))
    assert found is not None
    found["a"] = 5
    assert await messages.get(("u", "1")) == {"user": "u", "place": "1", "a": {"b": 1}}


async def test_delete_cannot_return_a_new_item(messages: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await messages.delete(("u", "1"), returning=Returning.NEW)


# --- keys ------------------------------------------------------------------------------------


@cases(
    "key",
    [
        ("u",),
        ("u", "1", "2"),
        ("", "1"),
        ("u", ""),
        (1, "1"),
        ("u", b"1"),
        ("u", None),
        (True, "1"),
        ("x" * 2049, "1"),
        ("u", "x" * 1025),
        ("u", "☃" * 342),
        ("u", "\ud800"),
    ],
)
async def test_a_bad_key_is_a_schema_error_in_every_primitive(
    messages: TableHandle, key: Any
) -> None:
    with pytest.raises(SchemaError):
        await messages.get(key)
    with pytest.raises(SchemaError):
        await messages.delete(key)
    with pytest.raises(SchemaError):
        await messages.batch_get([key])
    with pytest.raises(SchemaError):
        await messages.batch_write(deletes=[key])
    if len(key) == 2:
        with pytest.raises(SchemaError):
            await messages.put({"user": key[0], "place": key[1]})


async def test_keys_of_the_greatest_length_are_accepted(messages: TableHandle) -> None:
    key = ("ü" * 1024, "x" * 1024)
    await messages.put({"user": key[0], "place": key[1]})
    assert await messages.get(key) is not None


async def test_an_item_needs_its_keys(messages: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await messages.put({"user": "u"})


@cases("bad", [True, float("nan"), 2**63, 1e126, "1", None])
async def test_a_number_key_is_a_number_within_64_bits(engine: Engine, bad: Any) -> None:
    table = await engine.ensure_table(Table("numbers", Key("n", Kind.NUMBER)))
    with pytest.raises(SchemaError):
        await table.get((bad,))


async def test_equal_numbers_are_one_key(engine: Engine) -> None:
    table = await engine.ensure_table(Table("numbers", Key("n", Kind.NUMBER)))
    await table.put({"n": 1, "a": "int"})
    await table.put({"n": 1.0, "a": "float"})
    found = await table.get((1,))
    assert found is not None
    assert found["a"] == "float"
    assert len((await table.scan()).items) == 1


async def test_keys_that_differ_in_case_or_type_are_different(engine: Engine) -> None:
    table = await engine.ensure_table(Table("texts", Key("k")))
    keys = ["a", "A", "á", "a\u0301", "a ", "a\0", "1"]
    for key in keys:
        await table.put({"k": key, "v": key})
    for key in keys:
        assert await table.get((key,)) == {"k": key, "v": key}


# --- size ------------------------------------------------------------------------------------


async def test_an_item_of_exactly_the_limit_is_stored(messages: TableHandle) -> None:
    names = len("user") + len("u") + len("place") + len("1") + len("data")
    item: Item = {"user": "u", "place": "1", "data": "x" * (MAX_ITEM_SIZE - names)}
    await messages.put(item)
    assert await messages.get(("u", "1")) == item


async def test_an_item_above_the_limit_is_too_large(messages: TableHandle) -> None:
    names = len("user") + len("u") + len("place") + len("1") + len("data")
    item: Item = {"user": "u", "place": "1", "data": "x" * (MAX_ITEM_SIZE - names + 1)}
    with pytest.raises(ItemTooLarge) as caught:
        await messages.put(item)
    assert caught.value.size == MAX_ITEM_SIZE + 1
    with pytest.raises(ItemTooLarge):
        await messages.batch_write(puts=[{"user": "v", "place": "1"}, item])
    assert (await messages.scan()).items == []


async def test_the_size_of_text_is_that_of_its_utf8_bytes(messages: TableHandle) -> None:
    with pytest.raises(ItemTooLarge):
        await messages.put({"user": "u", "place": "1", "data": "☃" * (MAX_ITEM_SIZE // 3)})


# --- submission ------------------------------------------------------------------------------


async def test_cancelling_the_wait_does_not_cancel_the_write(messages: TableHandle) -> None:
    put = asyncio.ensure_future(messages.put({"user": "u", "place": "1"}))
    put.cancel()
    assert await messages.get(("u", "1")) is not None


async def test_a_failing_write_does_not_affect_those_around_it(messages: TableHandle) -> None:
    first = messages.put({"user": "u", "place": "1"})
    bad = messages.put({"user": "u", "place": ""})
    last = messages.put({"user": "u", "place": "2"})
    await first
    await last
    with pytest.raises(SchemaError):
        await bad
    assert len((await messages.query("u")).items) == 2
