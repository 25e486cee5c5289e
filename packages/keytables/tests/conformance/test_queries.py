"""query, query_index and scan: order, ranges, pages."""

import random
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest

from keytables import (
    Cursor,
    Engine,
    Item,
    Key,
    Kind,
    Page,
    Range,
    Scalar,
    SchemaError,
    Table,
    TableHandle,
)
from support.cases import cases
from support.pages import items_of

TEXTS = sorted(
    [
        *("a", "A", "aa", "ab", "b", "z", "é", "e\u0301", "☃", "\uffff", "\U0001f4a9", "0", "10"),
        *("9", " ", "a\0", "a\0b", "~", "\u0080", "\u07ff", "\u0800", "\ue000", "\U00010000"),
    ],
    key=str.encode,
)
NUMBERS: list[float] = [
    *(-(2**63), -(2**53) - 1, -10, -2.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 10, 2**53, 2**53 + 1),
    *(2**63 - 1, 1e125),
]
BYTES = [b"\0", b"\0\0", b"\x01", b"a", b"aa", b"\x7f", b"\x80", b"\xff", b"\xff\xff"]


async def fill(table: TableHandle, user: str, places: list[str]) -> None:
    await table.batch_write(puts=[{"user": user, "place": place} for place in places])


def places(page: Page) -> list[Any]:
    return [item["place"] for item in page.items]


# --- order -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "ordered"),
    [(Kind.STRING, TEXTS), (Kind.NUMBER, NUMBERS), (Kind.BINARY, BYTES)],
    ids=["text by UTF-8 bytes", "numbers by value", "bytes"],
)
async def test_sort_keys_are_ordered(engine: Engine, kind: Kind, ordered: list[Any]) -> None:
    table = await engine.ensure_table(Table("sorted", Key("user"), Key("place", kind)))
    shuffled = random.Random(1).sample(ordered, len(ordered))
    await table.batch_write(puts=[{"user": "u", "place": place} for place in shuffled])
    assert places(await table.query("u")) == ordered
    assert places(await table.query("u", descending=True)) == ordered[::-1]
    for low, high in [(2, 5), (0, len(ordered) - 1)]:
        between = Range(gt=ordered[low], le=ordered[high])
        assert places(await table.query("u", sort=between)) == ordered[low + 1 : high + 1]


async def test_a_table_without_sort_key_has_one_item_in_a_partition(users: TableHandle) -> None:
    await users.put({"user": "u", "a": 1})
    assert await users.query("u") == Page([{"user": "u", "a": 1}], None)
    with pytest.raises(SchemaError):
        await users.query("u", sort=Range(gt="a"))


# --- ranges ----------------------------------------------------------------------------------


@cases(
    ("sort", "expected"),
    [
        (Range(), "abcde"),
        (Range(gt="b"), "cde"),
        (Range(ge="b"), "bcde"),
        (Range(lt="d"), "abc"),
        (Range(le="d"), "abcd"),
        (Range(gt="a", lt="e"), "bcd"),
        (Range(ge="a", le="e"), "abcde"),
        (Range(gt="b", le="d"), "cd"),
        (Range(ge="b", lt="d"), "bc"),
        (Range(gt="aa", lt="c"), "b"),
        (Range(gt="d", lt="b"), ""),
        (Range(gt=""), "abcde"),
        (Range(lt=""), ""),
        (Range(prefix=""), "abcde"),
        (Range(prefix="c"), "c"),
        (Range(prefix="x"), ""),
    ],
)
async def test_ranges(messages: TableHandle, sort: Range, expected: str) -> None:
    await fill(messages, "u", list("abcde"))
    assert places(await messages.query("u", sort=sort)) == list(expected)
    back = await messages.query("u", sort=sort, descending=True)
    assert places(back) == list(expected[::-1])


@cases("prefix", ["a", "a\0", "é", "\ud7ff", "\U0010ffff", "a\U0010ffff", "☃"])
async def test_a_prefix_selects_the_keys_that_start_with_it(
    messages: TableHandle, prefix: str
) -> None:
    around = [prefix, prefix + "a", prefix + "\0", prefix + "\U0010ffff", "a", "b", "\ue000", "é"]
    keys = sorted({*around, prefix[:-1] + "~"}, key=str.encode)
    await fill(messages, prefix, keys)
    found = await messages.query(prefix, sort=Range(prefix=prefix))
    assert places(found) == [key for key in keys if key.startswith(prefix)]


@cases("prefix", [b"\xff", b"\xff\xff", b"\0", b"a\xff"])
async def test_a_prefix_of_bytes(engine: Engine, prefix: bytes) -> None:
    table = await engine.ensure_table(Table("bytes", Key("user"), Key("place", Kind.BINARY)))
    keys = sorted({*BYTES, prefix, prefix + b"\0", prefix + b"\xff", b"b"})
    await table.batch_write(puts=[{"user": repr(prefix), "place": key} for key in keys])
    found = await table.query(repr(prefix), sort=Range(prefix=prefix))
    assert places(found) == [key for key in keys if key.startswith(prefix)]


@cases("bad", [Range(gt=1), Range(lt=b"x"), Range(prefix=b"x")])
async def test_a_range_of_the_wrong_type_is_a_schema_error(
    messages: TableHandle, bad: Range
) -> None:
    with pytest.raises(SchemaError):
        await messages.query("u", sort=bad)


async def test_numbers_have_no_prefix(engine: Engine) -> None:
    table = await engine.ensure_table(Table("numbered", Key("user"), Key("n", Kind.NUMBER)))
    with pytest.raises(SchemaError):
        await table.query("u", sort=Range(prefix="1"))


@pytest.mark.parametrize("bounds", [{"gt": "a", "ge": "a"}, {"lt": "a", "le": "a"}])
async def test_a_range_has_one_bound_on_each_side(bounds: dict[str, Scalar]) -> None:
    with pytest.raises(SchemaError):
        Range(**bounds)  # type: ignore[arg-type]
    with pytest.raises(SchemaError):
        Range(prefix="a", lt="b")


# --- pages -----------------------------------------------------------------------------------


async def test_items_added_and_removed_between_pages_do_not_affect_others(
    messages: TableHandle,
) -> None:
    stay = [f"{number:03}" for number in range(0, 100, 10)]
    await fill(messages, "u", stay)
    seen: list[Any] = []
    page = await messages.query("u", limit=3)
    while True:
        seen += places(page)
        if page.cursor is None:
            break
        last = seen[-1]
        await fill(messages, "u", [last + "a", last[:-1] + "/"])  # one after, one before
        if last not in stay:
            await messages.delete(("u", last))
        page = await messages.query("u", limit=3, after=page.cursor)
    assert [place for place in seen if place in stay] == stay
    assert len(seen) == len(set(seen))


async def test_a_cursor_is_valid_after_its_item_was_deleted(messages: TableHandle) -> None:
    await fill(messages, "u", ["1", "2", "3"])
    page = await messages.query("u", limit=2)
    await messages.delete(("u", "2"))
    assert places(await messages.query("u", after=page.cursor)) == ["3"]


async def test_many_items_are_paged_without_a_limit(messages: TableHandle) -> None:
    keys = [f"{number:04}" for number in range(1200)]
    await fill(messages, "u", keys)
    assert [item["place"] for item in await items_of(messages.query, "u")] == keys


async def test_large_items_are_paged_without_a_limit(messages: TableHandle) -> None:
    large: list[Item] = [
        {"user": "u", "place": str(number), "data": "x" * 300_000} for number in range(5)
    ]
    await messages.batch_write(puts=large)
    assert await items_of(messages.query, "u") == large


@cases("limit", [0, -1])
async def test_a_limit_is_at_least_one(messages: TableHandle, limit: int) -> None:
    with pytest.raises(SchemaError):
        await messages.query("u", limit=limit)


async def test_a_cursor_of_another_query_is_a_schema_error(messages: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await messages.query("u", after=Cursor(("a", "b", "c")))
    with pytest.raises(SchemaError):
        await messages.query("u", after=Cursor((5,)))


# --- indexes ---------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["", "while it is loaded"])
async def indexed(request: pytest.FixtureRequest, users: TableHandle) -> AsyncIterator[TableHandle]:
    """The table `users`, also while it is loaded."""
    async with users.loading() if request.param else nullcontext():
        yield users


async def people(indexed: TableHandle) -> None:
    for user, city, age in [("a", "x", 3), ("b", "x", 1), ("c", "x", 2), ("d", "y", 1)]:
        await indexed.put({"user": user, "city": city, "age": age, "visit": age, "more": "m"})
    await indexed.put({"user": "e", "city": "x"})  # no age: not in by_city
    await indexed.put({"user": "f", "age": 1, "visit": 7.5})


def names(page: Page) -> list[Any]:
    return [item["user"] for item in page.items]


async def test_an_index_is_ordered_by_its_sort_key(indexed: TableHandle) -> None:
    await people(indexed)
    assert names(await indexed.query_index("by_city", "x")) == ["b", "c", "a"]
    assert names(await indexed.query_index("by_city", "x", descending=True)) == ["a", "c", "b"]
    assert names(await indexed.query_index("by_city", "x", sort=Range(ge=2))) == ["c", "a"]
    assert names(await indexed.query_index("by_city", "nowhere")) == []


async def test_an_index_holds_whole_items_or_keys_only(indexed: TableHandle) -> None:
    await people(indexed)
    whole = await indexed.query_index("by_city", "y")
    assert whole.items == [{"user": "d", "city": "y", "age": 1, "visit": 1, "more": "m"}]
    keys = await indexed.query_index("by_visit", 7.5)
    assert keys.items == [{"user": "f", "visit": 7.5}]


@cases("descending", [False, True])
@cases("limit", [1, 2, 5])
async def test_pages_of_an_index_hold_every_item_once(
    indexed: TableHandle, limit: int, descending: bool
) -> None:
    same: list[Item] = [{"user": f"s{number}", "city": "x", "age": 5} for number in range(6)]
    others: list[Item] = [
        {"user": f"o{number}", "city": "x", "age": number} for number in range(4, 7)
    ]
    await indexed.batch_write(puts=[*same, *others])
    seen: list[Any] = []
    page = await indexed.query_index("by_city", "x", limit=limit, descending=descending)
    while True:
        seen += page.items
        if page.cursor is None:
            break
        await indexed.put({"user": f"new{len(seen)}", "city": "x", "age": 5.5})
        page = await indexed.query_index(
            "by_city", "x", limit=limit, descending=descending, after=page.cursor
        )
    ages = [item["age"] for item in seen]
    assert ages == sorted(ages, reverse=descending)
    old = [item["user"] for item in seen if not item["user"].startswith("new")]
    assert sorted(old) == sorted(str(item["user"]) for item in [*same, *others])


async def test_pages_of_an_index_stay_within_their_range(indexed: TableHandle) -> None:
    rows: list[Item] = [
        {"user": f"{age}{copy}", "city": "x", "age": age} for age in range(5) for copy in "ab"
    ]
    await indexed.batch_write(puts=rows)
    for descending in (False, True):
        found = await items_of(
            indexed.query_index,
            *("by_city", "x"),
            sort=Range(gt=0, lt=4),
            limit=1,
            descending=descending,
        )
        seen = [str(item["user"]) for item in found]
        # The order among equal sort keys differs between engines.
        assert sorted(seen) == ["1a", "1b", "2a", "2b", "3a", "3b"]
        ages = [int(name[0]) for name in seen]
        assert ages == sorted(ages, reverse=descending)


async def test_an_unknown_index_is_a_schema_error(indexed: TableHandle) -> None:
    with pytest.raises(SchemaError):
        await indexed.query_index("by_name", "x")


async def test_an_index_key_of_the_wrong_type_is_a_schema_error(indexed: TableHandle) -> None:
    for bad in ({"visit": "text"}, {"city": 5}, {"visit": None}, {"city": ""}):
        with pytest.raises(SchemaError):
            await indexed.put({"user": "u", **bad})
    with pytest.raises(SchemaError):
        await indexed.query_index("by_visit", "text")
    assert await indexed.get(("u",)) is None


# --- scan ------------------------------------------------------------------------------------


@cases("limit", [1, 3, None])
async def test_a_scan_returns_every_item_once(messages: TableHandle, limit: int | None) -> None:
    expected = {(user, place) for user in "uvw" for place in "abc"}
    for user in "uvw":
        await fill(messages, user, list("abc"))
    found = await items_of(messages.scan, limit=limit)
    seen = [(item["user"], item["place"]) for item in found]
    assert len(seen) == len(expected)
    assert set(seen) == expected


async def test_index_and_scan_see_the_writes_submitted_before(indexed: TableHandle) -> None:
    writes = [indexed.put({"user": str(number), "visit": 1}) for number in range(5)]
    assert len((await indexed.query_index("by_visit", 1)).items) == 5
    writes.append(indexed.put({"user": "last", "visit": 1}))
    assert len((await indexed.scan()).items) == 6
    for write in writes:
        await write
