"""copying: a table is copied between any two engines, and both are compared."""

import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given

from keytables import Item, TableHandle
from keytables.copying import PAGE, Summary, copy_table, item_hash, pages
from support.cases import cases
from support.clocks import ManualClock
from support.table_engines import CANDIDATES, MESSAGES, QUICK
from support.table_values import items as any_items

START = 4_000_000_000.0
"""Later than any clock, so that a server that removes expired items itself finds none."""

PAIRS = list(itertools.permutations(QUICK, 2))

VALUES: Item = {
    "text": "ä\N{ROCKET}",
    "whole": 3,
    "whole float": 2.0,
    "fraction": 0.1,
    "large": 1e30,
    "bytes": b"\x00\xff",
    "yes": True,
    "nothing": None,
    "set": frozenset("ba"),
    "list": ["a", 1.0, [b"x"], {"in": {"depth": 1}}],
    "map": {"b": 1, "a": "2"},
}


def message(number: int, **more: object) -> Item:
    return {"user": f"u{number % 7}", "place": f"{number:05}", **more}  # type: ignore[dict-item]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def engines() -> tuple[str, str]:
    """Those of tests that need only one pair."""
    return "sqlite-parts", "sqlite"


@pytest.fixture
async def tables(
    engines: tuple[str, str], tmp_path: Path, clock: ManualClock
) -> AsyncIterator[tuple[TableHandle, TableHandle]]:
    """A table of each, both empty."""
    async with AsyncExitStack() as opened:
        found = []
        for side, name in zip(("source", "target"), engines, strict=True):
            folder = tmp_path / side
            folder.mkdir()
            store = CANDIDATES[name].make(folder, clock)
            opened.push_async_callback(store.clear)
            engine = await store.open()
            opened.push_async_callback(engine.close)
            found.append(await engine.ensure_table(MESSAGES))
        yield found[0], found[1]


async def contents(table: TableHandle) -> dict[tuple[object, object], bytes]:
    return {
        (item["user"], item["place"]): item_hash(item)
        async for page in pages(table)
        for item in page
    }


@pytest.mark.parametrize("engines", PAIRS, ids="-to-".join)
async def test_a_table_is_copied_between_any_two_engines(
    tables: tuple[TableHandle, TableHandle], clock: ManualClock
) -> None:
    source, target = tables
    later = int(clock()) + 1000
    some = [message(number, expiry=later, data=b"x" * 30) for number in range(50)]
    await source.batch_write(puts=[*some, message(50, **VALUES)])
    done = await copy_table(source, target)
    assert (done.written, done.removed) == (51, 0)
    assert done.source.contents(clock()) == done.target.contents(clock())
    assert done.target.contents(clock()).items == 51
    assert await contents(target) == await contents(source)
    again = await copy_table(source, target)
    assert (again.written, again.removed) == (0, 0)
    assert again.target.contents(clock()) == done.target.contents(clock())


async def test_a_second_pass_brings_over_what_changed(
    tables: tuple[TableHandle, TableHandle], clock: ManualClock
) -> None:
    source, target = tables
    await source.batch_write(puts=[message(number) for number in range(PAGE + 100)])
    await copy_table(source, target)
    await source.put(message(7, data="changed"))
    await source.put(message(PAGE + 100))
    await source.batch_write(deletes=[("u1", "00001"), ("u2", "00002")])
    seen: list[int] = []
    done = await copy_table(source, target, on_items=seen.append)
    assert (done.written, done.removed) == (2, 2)
    assert sum(seen) == (PAGE + 99) + (PAGE + 101)
    assert await contents(target) == await contents(source)
    assert done.source.contents(clock()) == done.target.contents(clock())


async def test_an_item_that_only_the_target_has_stays_if_it_is_kept(
    tables: tuple[TableHandle, TableHandle], clock: ManualClock
) -> None:
    source, target = tables
    await source.put(message(1))
    await target.put(message(2))
    done = await copy_table(source, target, kept=[("u2", "00002")])
    assert done.removed == 0
    assert done.source.contents(clock()) == done.target.contents(clock())
    assert await target.get(("u2", "00002")) is not None


async def test_what_expires_meanwhile_is_no_difference(
    tables: tuple[TableHandle, TableHandle], clock: ManualClock
) -> None:
    source, target = tables
    await source.put(message(1, expiry=int(clock()) + 1))
    await source.put(message(2, expiry=int(clock()) + 300))
    done = await copy_table(source, target)
    # Between reading the one store and the other.
    clock.advance(2)
    later = Summary(MESSAGES)
    async for page in pages(target):
        for item in page:
            later.add(item)
    assert done.source.contents(clock()) == later.contents(clock())
    assert later.contents(clock()).items == 1


def test_the_hash_of_a_table_depends_on_each_item_and_on_no_order() -> None:
    def hashed(*items: Item) -> tuple[int, str]:
        summary = Summary(MESSAGES)
        for item in items:
            summary.add(item)
        return summary.contents(START)

    one, two = message(1, data="a"), message(2, data="a")
    assert hashed(one, two) == hashed(two, one)
    different = [(), (one,), (one, one), (one, two), (one, message(2, data="b"))]
    assert len({hashed(*items) for items in different}) == len(different)


@given(any_items)
def test_equal_items_have_one_hash(item: Item) -> None:
    as_floats: Item = {
        name: float(value) if type(value) is int and abs(value) < 1 << 53 else value
        for name, value in reversed(item.items())
    }
    assert item_hash(as_floats) == item_hash(item)


@cases("other", [{"a": True}, {"a": "1"}, {"a": b"1"}, {"a": ["1"]}, {"a": 1, "b": None}, {}])
def test_different_items_have_different_hashes(other: Item) -> None:
    assert item_hash({"a": 1}) != item_hash(other)
    assert item_hash({"a": frozenset("1")}) != item_hash(other)
