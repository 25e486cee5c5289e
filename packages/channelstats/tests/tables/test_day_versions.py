"""Versions of dates."""

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest

from channelstats.tables.day_versions import EVERY_ZONE, DayVersions
from channelstats.tables.items import table
from keytables import Engine
from support import engines
from support.clocks import ManualClock

A, B, C = "2024-02-29", "2024-03-01", "2024-03-02"
DAYS = (date(2024, 2, 29), date(2024, 3, 2))


@pytest.fixture(params=engines.NAMES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.engine(request.param, tmp_path, ManualClock()) as opened:
        yield opened


@pytest.fixture
async def versions(engine: Engine) -> DayVersions:
    return DayVersions(await engine.ensure_table(table("channelstats", "Configuration")))


def runs(*names: str) -> frozenset[str]:
    return frozenset(names)


async def test_a_date_is_open_from_the_opening_to_the_closing_and_its_version_is_new(
    versions: DayVersions,
) -> None:
    assert await versions.of(*DAYS) == {A: "", B: "", C: ""}
    seen: set[str | None] = {"", None}
    for _ in range(2):
        await versions.open("run", [A, B])
        assert await versions.of(*DAYS) == {A: None, B: None, C: ""}
        assert await versions.opened() == {A: runs("run"), B: runs("run")}
        await versions.close({A: runs("run"), B: runs("run")})
        found = await versions.of(*DAYS)
        assert found[A] not in seen
        assert await versions.opened() == {}
        seen.add(found[A])


async def test_opening_and_closing_twice_is_as_good_as_once(versions: DayVersions) -> None:
    for _ in range(2):
        await versions.open("run", [B])
    for _ in range(2):
        await versions.close({B: runs("run")})
    assert (await versions.of(*DAYS))[B]


async def test_a_date_is_closed_by_the_last_of_its_runs(versions: DayVersions) -> None:
    for run in ("one", "two", "dead"):
        await versions.open(run, [B])
    await versions.close({B: runs("one")})
    assert await versions.opened() == {B: runs("two", "dead")}
    await versions.close({B: runs("two", "dead")})
    assert await versions.opened() == {}


async def test_the_state_since_a_date_is_that_of_it_and_later_ones(
    versions: DayVersions,
) -> None:
    first, last = DAYS
    none = await versions.since(first)
    await versions.open("run", [B])
    assert await versions.since(first) is None
    assert await versions.since(last) == none
    await versions.close({B: runs("run")})
    once = await versions.since(first)
    assert none != once is not None
    await versions.open("run", [A])
    await versions.close({A: runs("run")})
    assert await versions.since(first) != once
    assert await versions.since(date(2024, 3, 1)) == once


async def test_it_is_known_whether_rows_may_be_older_than_versions(versions: DayVersions) -> None:
    assert await versions.of_all_rows() is None
    await versions.add_zones(frozenset(("UTC",)))
    await versions.open("run", [C])
    assert await versions.of_all_rows() == {C: None}
    assert await versions.of(*DAYS) == {C: None}, "no rows are of the others"
    assert await versions.of(*DAYS, every=True) == {A: "", B: "", C: None}
    await versions.add_zones(EVERY_ZONE)
    assert await versions.of_all_rows() is None
