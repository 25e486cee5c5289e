"""loading: the results are the same as without it."""

import asyncio
import contextlib

import pytest

from keytables import Attr, ConditionFailed, Engine, Item, TableHandle, Update
from support.clocks import ManualClock
from support.table_engines import USERS, Open

PEOPLE: list[Item] = [{"user": f"u{n}", "city": "xy"[n % 2], "age": n} for n in range(40)]


async def of_city(table: TableHandle, city: str) -> list[Item]:
    return (await table.query_index("by_city", city)).items


async def test_a_table_that_holds_items_can_be_loaded(users: TableHandle) -> None:
    await users.batch_write(puts=PEOPLE[:20])
    async with users.loading():
        assert await of_city(users, "x") == PEOPLE[:20:2]
        await users.batch_write(puts=PEOPLE[20:])
        assert await of_city(users, "x") == PEOPLE[::2]
    assert await of_city(users, "x") == PEOPLE[::2]


async def test_conditions_are_evaluated_while_a_table_is_loaded(users: TableHandle) -> None:
    async with users.loading():
        await users.put({"user": "u", "city": "x", "age": 1})
        with pytest.raises(ConditionFailed):
            await users.put({"user": "u"}, condition=Attr("user").absent())
        await users.update(("u",), Update(set={"age": 2}), condition=Attr("age") == 1)
        await users.put({"user": "v", "city": "x", "age": 3})
        await users.delete(("v",))
    assert await of_city(users, "x") == [{"user": "u", "city": "x", "age": 2}]


async def test_items_that_expire_while_a_table_is_loaded_are_absent(
    users: TableHandle, clock: ManualClock
) -> None:
    async with users.loading():
        await users.put({"user": "u", "city": "x", "age": 1, "expiry": int(clock()) + 10})
        assert len(await of_city(users, "x")) == 1
        clock.advance(10)
        assert await of_city(users, "x") == []
    assert await of_city(users, "x") == []


async def test_items_are_found_after_a_failed_load(engine: Engine, users: TableHandle) -> None:
    with contextlib.suppress(KeyError):
        async with users.loading():
            await users.batch_write(puts=PEOPLE)
            raise KeyError
    assert await of_city(users, "x") == PEOPLE[::2]
    again = await engine.ensure_table(USERS)
    assert await of_city(again, "x") == PEOPLE[::2]
    async with again.loading():
        assert await of_city(again, "y") == PEOPLE[1::2]


async def test_two_may_load_a_table_at_a_time(open_engine: Open) -> None:
    engines = [await open_engine() for _ in range(2)]
    one, other = [await engine.ensure_table(USERS) for engine in engines]
    async with one.loading():
        async with other.loading(), one.loading():
            await asyncio.gather(
                one.batch_write(puts=PEOPLE[:20]), other.batch_write(puts=PEOPLE[20:])
            )
        assert await of_city(one, "x") == PEOPLE[::2]
    assert await of_city(other, "x") == PEOPLE[::2]
