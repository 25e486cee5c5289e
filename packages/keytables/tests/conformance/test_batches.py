"""batch_get and batch_write of any number of items."""

import pytest

from keytables import Item, SchemaError, TableHandle
from support.cases import cases

# DynamoDB takes 25 writes or 100 keys in a request.
SIZES = [0, 1, 25, 26, 100, 101, 333]


def items(count: int) -> list[Item]:
    return [
        {"user": f"u{number % 7}", "place": f"{number:03}", "n": number} for number in range(count)
    ]


def keys(count: int) -> list[tuple[str, ...]]:
    return [(str(item["user"]), str(item["place"])) for item in items(count)]


@cases("count", SIZES)
async def test_any_number_of_items(messages: TableHandle, count: int) -> None:
    await messages.batch_write(puts=items(count))
    found = await messages.batch_get(keys(count))
    assert sorted(found, key=lambda item: str(item["place"])) == items(count)
    await messages.batch_write(deletes=keys(count))
    assert await messages.batch_get(keys(count)) == []


async def test_an_item_is_returned_once_if_its_key_is_given_twice(messages: TableHandle) -> None:
    await messages.batch_write(puts=items(1))
    assert len(await messages.batch_get(keys(1) * 3)) == 1


async def test_a_key_may_be_deleted_twice_in_a_batch(messages: TableHandle) -> None:
    await messages.batch_write(puts=items(1))
    await messages.batch_write(deletes=keys(1) * 2)
    assert await messages.batch_get(keys(1)) == []


async def test_an_ambiguous_batch_is_refused(messages: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await messages.batch_write(puts=items(1) * 2)
    with pytest.raises(SchemaError):
        await messages.batch_write(puts=items(1), deletes=keys(1))
    assert (await messages.scan()).items == []


async def test_nothing_of_a_batch_with_a_bad_item_is_written(messages: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await messages.batch_write(puts=[*items(3), {"user": "u"}])
    assert (await messages.scan()).items == []


async def test_a_batch_is_submitted_when_called(messages: TableHandle) -> None:
    batch = messages.batch_write(puts=items(30))
    assert len(await messages.batch_get(keys(30))) == 30
    await batch
