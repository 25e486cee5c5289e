"""Marks of dates, on every engine."""

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest

from channelstats.tables.day_marks import EVERY_ZONE, DayMarks
from channelstats.tables.declarations import table
from keytables import Engine
from support import engines
from support.clocks import ManualClock

A, B, C = "2024-02-29", "2024-03-01", "2024-03-02"
DAYS = (date(2024, 2, 29), date(2024, 3, 2))


@pytest.fixture(params=engines.EVERY)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.engine(request.param, tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
async def marks(engine: Engine) -> DayMarks:
    return DayMarks(await engine.ensure_table(table("channelstats", "Configuration")))


def runs(*names: str) -> frozenset[str]:
    return frozenset(names)


async def test_a_date_is_open_from_the_opening_to_the_closing_and_its_mark_is_new(
    marks: DayMarks,
) -> None:
    assert await marks.of(*DAYS) == {A: "", B: "", C: ""}
    seen: set[str | None] = {"", None}
    for _ in range(2):
        await marks.open("run", [A, B])
        assert await marks.of(*DAYS) == {A: None, B: None, C: ""}
        assert await marks.opened() == {A: runs("run"), B: runs("run")}
        await marks.close({A: runs("run"), B: runs("run")})
        found = await marks.of(*DAYS)
        assert found[A] not in seen
        assert await marks.opened() == {}
        seen.add(found[A])


async def test_opening_and_closing_twice_is_as_good_as_once(marks: DayMarks) -> None:
    for _ in range(2):
        await marks.open("run", [B])
    for _ in range(2):
        await marks.close({B: runs("run")})
    assert (await marks.of(*DAYS))[B]


async def test_a_date_is_closed_by_the_last_of_its_runs(marks: DayMarks) -> None:
    for run in ("one", "two", "dead"):
        await marks.open(run, [B])
    await marks.close({B: runs("one")})
    assert await marks.opened() == {B: runs("two", "dead")}
    await marks.close({B: runs("two", "dead")})
    assert await marks.opened() == {}


async def test_the_state_since_a_date_is_that_of_it_and_all_later_ones(marks: DayMarks) -> None:
    first, last = DAYS
    none = await marks.since(first)
    await marks.open("run", [B])
    assert await marks.since(first) is None
    assert await marks.since(last) == none
    await marks.close({B: runs("run")})
    once = await marks.since(first)
    assert none != once is not None
    await marks.open("run", [A])
    await marks.close({A: runs("run")})
    assert await marks.since(first) != once
    assert await marks.since(date(2024, 3, 1)) == once


async def test_it_is_known_whether_rows_may_be_older_than_marks(marks: DayMarks) -> None:
    assert await marks.every() is None
    await marks.add_zones(frozenset(("UTC",)))
    await marks.open("run", [C])
    assert await marks.every() == {C: None}
    await marks.add_zones(EVERY_ZONE)
    assert await marks.every() is None
