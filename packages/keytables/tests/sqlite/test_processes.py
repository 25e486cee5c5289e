"""Several processes on one store: none starves, and a killed one harms no other."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from keytables import Engine, Key, Kind, Table, TableHandle
from keytables.sqlite import divide_store, open_sqlite
from keytables.sqlite.layout import part_of
from support.pages import items_of
from support.paths import PYTHONPATH
from support.soak import slow
from support.table_writer import TABLE


@asynccontextmanager
async def writing(
    path: Path, name: str, *, concurrent: int = 20, count: int = 0
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a process that writes; it is killed in the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "support.table_writer", str(path), name),
        *(str(concurrent), str(count)),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.stdout.read()
        await process.wait()


async def lines(process: asyncio.subprocess.Process, count: int) -> list[bytes]:
    assert process.stdout is not None
    return [await process.stdout.readline() for _ in range(count)]


@pytest.fixture(params=[slow(1), 4])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Of a store of one file, and of one of four."""
    path = tmp_path / "store"
    divide_store(path, request.param)
    return path


OpenStore = Callable[[], Awaitable[Engine]]


@pytest.fixture
async def open_store(path: Path) -> AsyncIterator[OpenStore]:
    async with AsyncExitStack() as opened:

        async def open_one() -> Engine:
            engine = await open_sqlite(path)
            opened.push_async_callback(engine.close)
            return engine

        yield open_one


@pytest.fixture
async def table(open_store: OpenStore) -> TableHandle:
    return await (await open_store()).ensure_table(TABLE)


@pytest.mark.parametrize("after", [1, 40, 333])
async def test_completed_writes_survive_a_kill(
    path: Path, open_store: OpenStore, after: int
) -> None:
    async with writing(path, "victim") as victim:
        output = await lines(victim, after)
        victim.send_signal(signal.SIGKILL)
        assert victim.stdout is not None
        output += (await victim.stdout.read()).splitlines(keepends=True)
    table = await (await open_store()).ensure_table(TABLE)
    whole = [int(line) for line in output if line.endswith(b"\n") and line != b"-0\n"]
    put = {n for n in whole if n >= 0}
    # Every third is deleted again, so those may be absent.
    certain = {n for n in put if n % 3}
    deleted = {-n for n in whole if n < 0} | ({0} if b"-0\n" in output else set())
    found = {item["number"] for item in await items_of(table.query, "victim")}
    assert certain <= found
    assert not deleted & found


async def test_a_killed_process_harms_no_other(path: Path, table: TableHandle) -> None:
    for round_ in range(3):
        async with writing(path, f"victim{round_}") as victim:
            puts = [table.put({"name": "here", "number": n, "data": "x"}) for n in range(50)]
            await lines(victim, 30)
            victim.send_signal(signal.SIGKILL)
            puts += [table.put({"name": "here", "number": n, "data": "y"}) for n in range(50)]
            await asyncio.gather(*puts)
    assert [item["data"] for item in (await table.query("here")).items] == ["y"] * 50


async def test_several_processes_lose_nothing(path: Path, table: TableHandle) -> None:
    async with writing(path, "one", count=60) as one, writing(path, "two", count=60) as two:
        await asyncio.gather(*(table.put({"name": "here", "number": n}) for n in range(60)))
        for process in (one, two):
            await lines(process, 80)
            assert await process.wait() == 0
    for name, kept in [("one", 40), ("two", 40), ("here", 60)]:
        assert len((await table.query(name)).items) == kept


@pytest.mark.parametrize("busy", [slow(1), 2])
async def test_an_occasional_writer_is_not_starved_by_busy_ones(
    path: Path, open_store: OpenStore, table: TableHandle, busy: int
) -> None:
    """Few transactions of others come between a submission and its commit, in the same file."""
    names = (f"me{number}" for number in count())
    me = next(name for name in names if part_of(name, 4) == part_of("busy0", 4))
    counters = Table("counters", Key("name"), Key("n", Kind.NUMBER))
    mine = await (await open_store()).ensure_table(counters)

    async def others() -> int:
        # Its numbers grow with every transaction of a busy process.
        items = (await table.query("busy0", descending=True, limit=1)).items
        return int(str(items[0]["number"])) if items else 0

    async with asyncio.TaskGroup() as group:
        ready, done = asyncio.Event(), asyncio.Event()
        running = 0

        async def keep_busy(number: int) -> None:
            nonlocal running
            async with writing(path, f"busy{number}", concurrent=8) as process:
                assert process.stdout is not None
                running += 1
                if running == busy:
                    ready.set()
                while not done.is_set():
                    await process.stdout.readline()

        for number in range(busy):
            group.create_task(keep_busy(number))
        await ready.wait()
        between: list[int] = []
        # On a machine with other work they may not run for a while.
        while len(between) < 40 or not sum(between):
            before = await others()
            await mine.put({"name": me, "n": len(between)})
            between.append(await others() - before)
        done.set()
    # A transaction of a busy process holds at most its 8 concurrent writes. Three may come between:
    # one during our pause, the one that was running when we submitted, and the next one of a
    # process that waited for the lock before us.
    assert sorted(between)[-3] <= 3 * 8
