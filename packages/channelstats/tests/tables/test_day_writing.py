"""Dates are open while rows of them are written, whatever happens to the run."""

import asyncio
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from channelstats.tables import Tables
from channelstats.tables.columns import DayFiles
from channelstats.tables.message_row import MessageRow
from keytables import Engine, Page, Throttled
from support import engines
from support.channelstats.dated import (
    FIRST,
    LAST,
    in_order,
    kept,
    messages_of,
    opened,
    read,
    row,
    tamper,
    there,
    words,
)
from support.clocks import ManualClock
from support.gated_engine import GatedEngine
from support.memory_engine import MemoryEngine
from support.soak import slow_after

ROW, NEXT_DAY = row(0), row(24)
DAY = "2024-03-09"


@pytest.fixture(params=engines.NAMES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    async with engines.engine(request.param, tmp_path, ManualClock()) as found:
        yield found


async def open_days(tables: Tables) -> list[str]:
    versions = await tables.messages.versions.of(FIRST, LAST)
    return [day for day, version in versions.items() if version is None]


class Killed(Exception):
    """The process is no more."""


class HeldCall:
    """The call of this number: it waits until the test lets it go."""

    def __init__(self, engine: GatedEngine, number: int) -> None:
        self.reached, self.opens = asyncio.Event(), asyncio.Event()
        engine.at(number, self._hold)

    async def _hold(self) -> None:
        self.reached.set()
        await self.opens.wait()


def dies(engine: GatedEngine, before: int) -> None:
    """Let the process die before its call of this number, and never come back."""

    async def hook(reached: int, what: str) -> None:
        if reached >= before:
            raise Killed

    engine.start_counting()
    engine.before = hook


async def written_and_closed(engine: Engine, *rows: Any, zone: str = "UTC") -> None:
    tables = await opened(engine, zone)
    await tables.messages.write(rows)
    await tables.messages.close_days()


# ── opening ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_closed_date_is_read_from_its_file_an_open_one_from_its_rows(
    engine: Engine,
) -> None:
    writer, reader = await opened(engine), await opened(engine)
    await writer.messages.write([ROW, row(1)])
    for number in (2, 3):
        await tamper(engine, ROW, number)
        assert words(await read(reader)) == [1, number]
    await writer.messages.close_days()
    assert words(await read(reader)) == [1, 3]
    await tamper(engine, ROW)
    assert words(await read(reader)) == [1, 3]
    assert words(await read(reader, refresh=True)) == [1, 999]
    assert words(await read(reader)) == [1, 999]


async def test_a_new_day_leaves_the_files_of_others_alone(engine: Engine) -> None:
    tables = await opened(engine)
    await written_and_closed(engine, ROW, NEXT_DAY)
    assert words(await read(tables)) == [1, 1]
    await written_and_closed(engine, row(48), row(24.5))
    for one in (ROW, NEXT_DAY):
        await tamper(engine, one)
    assert words(await read(tables)) == [1, 1, 1, 999]


async def test_dates_are_open_before_the_first_row_is_there_and_once_for_each_run() -> None:
    inner = MemoryEngine()
    engine = GatedEngine(inner)
    tables = await opened(engine)
    engine.start_counting()
    await tables.messages.write([ROW, NEXT_DAY])
    opening = [number for number, call in enumerate(engine.calls) if "Configuration" in call]
    assert engine.calls[-1] == "batch_write channelstats.Message"
    assert max(opening) < len(engine.calls) - 1
    engine.start_counting()
    await tables.messages.write([row(1), row(25)])
    assert engine.calls == ["batch_write channelstats.Message"]


async def test_a_month_of_dates_is_one_write() -> None:
    engine = GatedEngine(MemoryEngine())
    tables = await opened(engine)
    await tables.messages.write([ROW])
    engine.start_counting()
    await tables.messages.write([row(24 * day) for day in range(-7, 20)])
    assert engine.calls.count("update channelstats.Configuration") == 2  # that month, and its name


async def test_writing_nothing_opens_nothing() -> None:
    engine = GatedEngine(MemoryEngine())
    tables = await opened(engine)
    engine.start_counting()
    await tables.messages.write([])
    await tables.messages.delete([])
    await tables.messages.close_days()
    assert {call.split()[0] for call in engine.calls} <= {"get", "batch_get"}


async def test_whoever_writes_at_the_same_time_waits_until_the_date_is_open() -> None:
    engine = GatedEngine(MemoryEngine())
    tables = await opened(engine)
    gate = HeldCall(engine, 1)
    writes = [asyncio.create_task(tables.messages.write([row(hour)])) for hour in range(3)]
    await gate.reached.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    assert await there(engine.inner) == []
    assert not any(call.startswith("batch_write") for call in engine.calls)
    gate.opens.set()
    await asyncio.gather(*writes)
    assert len(await there(engine.inner)) == 3


# ── closing ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_date_that_is_still_written_to_is_not_closed() -> None:
    engine = GatedEngine(MemoryEngine())
    tables = await opened(engine)
    await tables.messages.write([ROW, NEXT_DAY])
    gate = HeldCall(engine, 0)
    writing = asyncio.create_task(tables.messages.write([row(1)]))
    await gate.reached.wait()
    closing = asyncio.create_task(tables.messages.close_days())
    await asyncio.sleep(0)
    gate.opens.set()
    await asyncio.gather(writing, closing)
    assert await open_days(tables) == [DAY]
    await tables.messages.close_days()
    assert await open_days(tables) == []


async def test_after_a_write_that_failed_its_dates_stay_open_until_the_next_run(
    engine: Engine,
) -> None:
    gated = GatedEngine(engine)
    tables = await opened(gated)
    await tables.messages.write([NEXT_DAY, ROW])

    async def hook(number: int, what: str) -> None:
        if what.startswith("batch_write"):
            raise Throttled

    gated.before = hook
    with pytest.raises(Throttled):
        await tables.messages.write([ROW])
    gated.release()
    await tables.messages.close_days()
    assert await open_days(tables) == [DAY]
    await tables.messages.take_over_days()
    await tables.messages.close_days()
    assert await open_days(tables) == []


async def test_after_a_closing_that_failed_half_way_its_dates_are_opened_again(
    engine: Engine,
) -> None:
    gated = GatedEngine(engine)
    tables = await opened(gated)
    earlier = row(-24 * 14)  # in the month before
    await tables.messages.write([earlier, ROW])
    updates: list[str] = []

    async def hook(number: int, what: str) -> None:
        if what.startswith("update"):
            updates.append(what)
            if len(updates) == 2:
                raise Throttled

    gated.before = hook
    with pytest.raises(Throttled):
        await tables.messages.close_days()
    gated.release()
    reader = await opened(engine)
    await read(reader, date(2024, 2, 1))
    await tables.messages.write([msgspec.structs.replace(earlier, word_count=5)])
    assert words(await read(reader, date(2024, 2, 1))) == [1, 5]


async def test_a_date_is_closed_only_when_the_index_shows_what_was_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = MemoryEngine()
    tables = await opened(engine)
    handle = await messages_of(engine)
    ask = handle.query_index
    waits: list[float] = []

    async def behind(*args: Any, **how: Any) -> Page:
        found = await ask(*args, **how)
        if len(waits) > looks:
            return found
        return Page([{**item, "word_count": 0} for item in found.items], None)

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(handle, "query_index", behind)
    monkeypatch.setattr(tables.messages._writer, "_pause", pause)
    looks = 3
    await tables.messages.write([ROW])
    await tables.messages.close_days()
    assert len(waits) == 4
    assert await open_days(tables) == []

    looks = 10**6  # for ever
    await tables.messages.write([ROW])
    await tables.messages.close_days()
    assert await open_days(tables) == [DAY]
    looks = 0
    await tables.messages.close_days()
    assert await open_days(tables) == []


async def test_a_date_is_closed_only_when_the_index_shows_a_deletion(engine: Engine) -> None:
    await written_and_closed(engine, ROW, row(1))
    tables = await opened(engine)
    assert words(await read(tables)) == [1, 1]
    await tables.messages.delete([ROW])
    await tables.messages.close_days()
    assert await open_days(tables) == []
    assert words(await read(tables)) == [1]


async def test_what_is_being_deleted_is_kept_nowhere(engine: Engine) -> None:
    await written_and_closed(engine, ROW, NEXT_DAY)
    tables = await opened(engine)
    await read(tables)
    assert {DAY, "2024-03-10"} <= kept(engine)
    await tables.messages.delete([ROW])
    assert DAY not in kept(engine)
    assert "2024-03-10" in kept(engine)


async def test_a_file_of_what_rows_were_before_is_gone_when_the_run_ends(engine: Engine) -> None:
    await written_and_closed(engine, ROW, NEXT_DAY)
    tables = await opened(engine)
    await read(tables)
    await written_and_closed(engine, row(0, 2))
    assert kept(engine) == {"2024-03-10"}


async def test_a_run_that_ends_while_files_are_made_leaves_none_of_what_it_deleted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written_and_closed(engine, ROW, NEXT_DAY)
    put = DayFiles.put

    async def put_late(files: DayFiles, *of: Any) -> None:
        run = await opened(engine)
        await run.messages.delete([ROW])
        await run.messages.close_days()
        await put(files, *of)

    monkeypatch.setattr(DayFiles, "put", put_late)
    await (await opened(engine)).messages.keep_days()
    assert kept(engine) == {"2024-03-10"}


async def test_what_was_deleted_elsewhere_is_gone_when_a_process_first_reads(
    engine: Engine, tmp_path: Path
) -> None:
    """Another machine has a folder of its own."""
    await written_and_closed(engine, ROW, NEXT_DAY)
    here = await Tables.open(engine, "channelstats", ZoneInfo("UTC"), tmp_path / "here")
    await read(here)
    await (await opened(engine)).messages.delete([ROW])
    again = await Tables.open(engine, "channelstats", ZoneInfo("UTC"), tmp_path / "here")
    await read(again, LAST, LAST)
    assert {path.name[:10] for path in (tmp_path / "here").iterdir()} == {"2024-03-10"}


# ── runs that die ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("before", slow_after(2, range(8)))
async def test_wherever_a_run_dies_what_is_read_is_what_is_there(
    engine: Engine, before: int
) -> None:
    await written_and_closed(engine, ROW, NEXT_DAY)
    reader = await opened(engine)
    await read(reader)
    gated = GatedEngine(engine)
    dying = await opened(gated)
    dies(gated, before)
    try:
        await dying.messages.write([row(0, 2), row(24, 3), row(48)])
        await dying.messages.close_days()
    except Killed:
        pass
    else:
        assert before == 7  # after its last call
    assert await read(reader) == await there(engine)

    if "2024-03-10" in await open_days(reader):  # something may still have been on its way
        await tamper(engine, row(24), 77)
        assert 77 in words(await read(reader))
    following = await opened(engine)
    await following.messages.take_over_days()
    await following.messages.close_days()
    assert await open_days(following) == []
    for _ in range(2):
        assert await read(reader) == await there(engine)


async def test_a_run_that_found_nothing_to_write_closes_what_others_left(engine: Engine) -> None:
    dead, following = await opened(engine), await opened(engine)
    await dead.messages.write([ROW])
    await following.messages.take_over_days()
    assert await open_days(following) == [DAY]
    await following.messages.close_days()
    assert await open_days(following) == []


async def test_nobody_closes_the_dates_of_a_run_that_came_later(engine: Engine) -> None:
    first, second = await opened(engine), await opened(engine)
    await first.messages.take_over_days()
    await second.messages.write([ROW])
    await first.messages.write([row(1)])
    await first.messages.close_days()
    assert await open_days(first) == [DAY]
    await second.messages.close_days()
    assert await open_days(first) == []


# ── zones ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("later", ["Pacific/Kiritimati", "Etc/GMT+12", "America/Los_Angeles"])
@pytest.mark.parametrize("earlier", ["UTC", "Asia/Tokyo"])
async def test_a_row_that_moves_to_another_date_leaves_no_trace_under_the_old_one(
    engine: Engine, earlier: str, later: str
) -> None:
    rows = [row(hours) for hours in range(-12, 13, 4)]
    await written_and_closed(engine, *rows, zone=earlier)
    reader = await opened(engine)
    await read(reader)
    await written_and_closed(engine, *[row(hours, 5) for hours in range(-12, 13, 4)], zone=later)
    for _ in range(2):
        assert words(await read(reader)) == [5] * len(rows)


async def test_in_one_zone_a_row_opens_its_date_alone(engine: Engine) -> None:
    tables = await opened(engine, "Asia/Tokyo")
    await tables.messages.write([row(0), row(4)])
    assert await open_days(tables) == [DAY, "2024-03-10"]
    await tables.messages.close_days()
    await tables.messages.write([row(0)])
    assert await open_days(tables) == [DAY]


# ── stores that are older than versions ─────────────────────────────────────────────────────────


async def old_store(engine: Engine, of: MessageRow = ROW, **dated: str) -> None:
    """A store without versions, whose row somebody dated in a zone of their own."""
    await (await opened(engine)).messages.write([of])
    configuration = (await opened(engine)).configuration
    for key in ("days", "days 2024-03"):
        await configuration.delete(key)
    handle = await messages_of(engine)
    item = await handle.get((of.cid_ts,))
    assert item is not None
    await handle.put({**item, **dated})


async def test_of_an_old_store_nothing_is_kept(engine: Engine) -> None:
    await old_store(engine)
    tables = await opened(engine)
    assert words(await read(tables)) == [1]
    assert kept(engine) == set()
    await tamper(engine, ROW)
    assert words(await read(tables)) == [999]


@pytest.mark.parametrize(
    ("hours", "dated"), [(0, DAY), (-1, "2024-03-08"), (0, "2024-03-10"), (-26, "2024-03-08")]
)
async def test_what_an_old_store_holds_may_be_dated_in_any_zone(
    engine: Engine, hours: int, dated: str
) -> None:
    await old_store(engine, row(hours), date=dated)
    reader = await opened(engine)
    assert words(await read(reader)) == [1]
    await written_and_closed(engine, row(hours, 5))
    for _ in range(2):
        assert words(await read(reader)) == [5]


async def counts(tables: Tables) -> list[int]:
    return words(in_order([frame async for frame in tables.messages.all()]))


async def test_all_messages_are_read_by_their_dates_where_all_dates_are_known(
    engine: Engine,
) -> None:
    await written_and_closed(engine, ROW, NEXT_DAY)
    tables = await opened(engine)
    assert await counts(tables) == [1, 1]
    await tamper(engine, ROW)
    assert await counts(tables) == [1, 1]
    some = [frame async for frame in tables.messages.all(["word_count"])]
    assert {tuple(frame.columns) for frame in some} == {("word_count",)}


async def test_after_days_are_kept_the_first_reading_reads_no_rows(engine: Engine) -> None:
    await written_and_closed(engine, ROW, NEXT_DAY)
    writer = await opened(engine)
    await writer.messages.write([row(72)])
    await (await opened(engine)).messages.keep_days()
    assert kept(engine) == {DAY, "2024-03-10"}, "not of the date that is open"
    gated = GatedEngine(engine)
    tables = await opened(gated)
    gated.start_counting()
    assert words(await read(tables, FIRST, date(2024, 3, 10))) == [1, 1]
    assert not any("Message" in call for call in gated.calls)
    assert words(await read(tables)) == [1, 1, 1]
    assert [call.split()[0] for call in gated.calls if "Message" in call] == ["query_index"]


async def test_readers_at_the_same_time_read_the_rows_of_a_date_once(engine: Engine) -> None:
    await written_and_closed(engine, ROW, NEXT_DAY)
    gated = GatedEngine(engine)
    tables = await opened(gated)
    gated.start_counting()
    last = date(2024, 3, 10)
    both = asyncio.gather(read(tables, FIRST, last), read(tables, FIRST, last))
    await asyncio.gather(both, tables.messages.keep_days())
    assert [words(one) for one in both.result()] == [[1, 1], [1, 1]]
    assert [call.split()[0] for call in gated.calls if "Message" in call] == ["query_index"] * 2


async def test_all_messages_of_an_old_store_are_read_from_the_rows(engine: Engine) -> None:
    await old_store(engine)
    tables = await opened(engine)
    await written_and_closed(engine, NEXT_DAY)
    await read(tables)
    await tamper(engine, ROW)
    assert await counts(tables) == [1, 999]
