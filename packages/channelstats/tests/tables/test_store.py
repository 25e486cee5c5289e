"""One run writes messages at a time."""

import asyncio
from pathlib import Path

import pytest

from channelstats.tables import Tables, Taken
from channelstats.tables.configuration import WRITER_SECONDS, Configuration
from keytables import Unavailable
from keytables.lease import Lease
from support import engines
from support.channelstats.dated import opened
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine

KEY = ("writer",)
BEGUN = 1_710_000_000
"""2024-03-09 16:00:00 UTC."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGUN)


@pytest.mark.parametrize("name", engines.EVERY)
async def test_while_one_run_writes_another_is_refused_with_since_when(
    name: str, tmp_path: Path, clock: ManualClock
) -> None:
    async with engines.engine(name, tmp_path, clock) as engine:
        one, other = await opened(engine), await opened(engine)
        async with one.writing(clock):
            clock.advance(60)
            with pytest.raises(Taken, match="since 2024-03-09 16:00:00 UTC") as refused:
                await begun(other, clock)
            assert "\n" not in str(refused.value)
        await begun(other, clock)


async def begun(tables: Tables, clock: ManualClock) -> None:
    async with tables.writing(clock):
        pass


async def test_a_run_that_was_taken_over_says_so(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = await opened(MemoryEngine(clock))
    over = asyncio.Event()
    mine, other = (
        Lease(tables.configuration._table, KEY, clock, seconds=WRITER_SECONDS, pause=pause)
        for pause in (lambda _: over.wait(), asyncio.sleep)
    )
    monkeypatch.setattr(Configuration, "writer_lease", lambda *_: mine)

    async def run() -> None:
        async with tables.writing(clock):
            clock.advance(WRITER_SECONDS)
            assert await other.acquire()
            over.set()
            await asyncio.Event().wait()

    with pytest.raises(Taken, match="took over"):
        await run()


async def test_a_run_whose_store_was_away_for_too_long_blames_no_other_run(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = await opened(MemoryEngine(clock))
    away = asyncio.Event()
    lease = Lease(
        tables.configuration._table,
        KEY,
        clock,
        seconds=WRITER_SECONDS,
        pause=lambda _: away.wait(),
    )
    monkeypatch.setattr(Configuration, "writer_lease", lambda *_: lease)

    async def unavailable(_: Lease) -> bool:
        raise Unavailable("away")

    async def run() -> None:
        async with tables.writing(clock):
            monkeypatch.setattr(Lease, "renew", unavailable)
            clock.advance(WRITER_SECONDS)
            away.set()
            await asyncio.Event().wait()

    with pytest.raises(Unavailable, match="for too long"):
        await run()
    monkeypatch.undo()
    await begun(tables, clock)


async def test_what_a_run_of_the_version_before_left_is_in_nobodys_way(clock: ManualClock) -> None:
    tables = await opened(MemoryEngine(clock))
    await tables.configuration.put("writer", {"owner": "o", "since": BEGUN, "renewed": BEGUN})
    await begun(tables, clock)


async def test_what_was_written_once_and_is_read_no_more_is_removed(clock: ManualClock) -> None:
    tables = await opened(MemoryEngine(clock))
    await tables.configuration.put("topics", {"2024-03-10": {"messages": 9}})
    await tables.configuration.put("slack_analytics", {"members 2024-03-10/2024-03-16": "x"})
    for name in ("topics 20240310", "slack members 20240310/20240316", "C1"):
        await tables.bulk.put(name, "9 unicorn")
    await begun(tables, clock)
    assert await tables.bulk.names() == ["C1"]
    assert not await tables.configuration.get("topics")
