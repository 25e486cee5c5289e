"""Expired items are absent for every read, condition and update, removed or not."""

from typing import Any

import pytest

from keytables import Item, Range, SchemaError, TableHandle
from support.cases import cases
from support.clocks import ManualClock
from support.pages import items_of

KEY = ("u", "1")


@cases("never", [{}, {"expiry": 0}, {"expiry": None}, {"expiry": -5}])
async def test_an_item_without_an_expiry_never_expires(
    messages: TableHandle, clock: ManualClock, never: dict[str, Any]
) -> None:
    item = {"user": "u", "place": "1", **never}
    await messages.put(item)
    clock.advance(1e9)
    assert await messages.get(KEY) == item
    assert (await messages.query("u")).items == [item]
    assert (await messages.scan()).items == [item]


@cases("bad", ["soon", True, [1], 2**64])
async def test_an_expiry_is_a_number(messages: TableHandle, bad: Any) -> None:
    with pytest.raises(SchemaError):
        await messages.put({"user": "u", "place": "1", "expiry": bad})


async def test_no_read_returns_an_expired_item(
    messages: TableHandle, users: TableHandle, clock: ManualClock
) -> None:
    soon, late = clock.now + 1.5, clock.now + 100
    for place, expiry in [("1", soon), ("2", late), ("3", soon), ("4", late)]:
        await messages.put({"user": "u", "place": place, "expiry": expiry})
        await users.put({"user": place, "expiry": expiry, "city": "x", "age": 1, "visit": 1})
    clock.advance(2)
    assert await messages.get(KEY) is None
    assert [item["place"] for item in (await messages.query("u")).items] == ["2", "4"]
    assert len((await messages.query("u", sort=Range(lt="4"))).items) == 1
    assert len((await messages.scan()).items) == 2
    assert len(await messages.batch_get([("u", "1"), ("u", "2"), ("u", "3")])) == 1
    assert len((await users.query_index("by_city", "x")).items) == 2
    assert len((await users.query_index("by_visit", 1)).items) == 2


async def test_expired_items_do_not_count_for_a_limit(
    messages: TableHandle, clock: ManualClock
) -> None:
    for number in range(20):
        expiry = clock.now + (1 if number < 15 else 100)
        await messages.put({"user": "u", "place": f"{number:02}", "expiry": expiry})
    clock.advance(2)
    page = await messages.query("u", limit=3)
    assert [item["place"] for item in page.items] == ["15", "16", "17"]


@pytest.mark.parametrize("descending", [False, True])
async def test_items_among_many_expired_ones_are_found(
    messages: TableHandle, users: TableHandle, clock: ManualClock, many: int, descending: bool
) -> None:
    live = {0, many // 3, many * 2 // 3, many * 2 // 3 + 1, many - 1}
    rows: list[Item] = [
        {"user": "u", "place": f"{n:04}", "expiry": clock.now + (9 if n in live else 1)}
        for n in range(many)
    ]
    await messages.batch_write(puts=rows)
    await users.batch_write(
        puts=[
            {"user": row["place"], "city": "x", "age": 1, "expiry": row["expiry"]} for row in rows
        ]
    )
    clock.advance(1)
    expected = [f"{n:04}" for n in sorted(live, reverse=descending)]
    for limit in (None, 1, 3):
        options: dict[str, Any] = {"limit": limit, "descending": descending}
        found = await items_of(messages.query, "u", **options)
        assert [item["place"] for item in found] == expected
        found = await items_of(users.query_index, "by_city", "x", **options)
        # Of one age: in an order of the engine's.
        assert sorted(str(item["user"]) for item in found) == sorted(expected)
        places = [item["place"] for item in await items_of(messages.scan, limit=limit)]
        assert len(places) == len(expected)
        assert set(places) == set(expected)


async def test_items_of_a_table_without_expiry_never_expire(
    engine: Any, clock: ManualClock
) -> None:
    from keytables import Key, Table

    table = await engine.ensure_table(Table("plain", Key("user")))
    await table.put({"user": "u", "expiry": 5})
    assert await table.get(("u",)) == {"user": "u", "expiry": 5}
