"""Several processes on one file: nobody starves, nobody harms another by dying."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from keytables import Key, Kind, Table, TableHandle
from keytables.sqlite import SqliteEngine
from support.paths import PYTHONPATH
from support.table_writer import TABLE

OpenSqlite = Callable[..., Awaitable[SqliteEngine]]


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


@pytest.fixture
async def table(open_sqlite: OpenSqlite) -> TableHandle:
    return await (await open_sqlite()).ensure_table(TABLE)


@pytest.mark.parametrize("after", [1, 40, 333])
async def test_what_was_answered_survives_a_kill(
    path: Path, open_sqlite: OpenSqlite, after: int
) -> None:
    async with writing(path, "victim") as victim:
        answers = await lines(victim, after)
        victim.send_signal(signal.SIGKILL)
        assert victim.stdout is not None
        answers += (await victim.stdout.read()).splitlines(keepends=True)
    table = await (await open_sqlite()).ensure_table(TABLE)
    whole = [int(line) for line in answers if line.endswith(b"\n") and line != b"-0\n"]
    put = {n for n in whole if n >= 0}
    # Of those divisible by three the delete was submitted, so they may be gone.
    certain = {n for n in put if n % 3}
    deleted = {-n for n in whole if n < 0} | ({0} if b"-0\n" in answers else set())
    found = set()
    page = await table.query("victim")
    while True:
        found |= {item["number"] for item in page.items}
        if page.cursor is None:
            break
        page = await table.query("victim", after=page.cursor)
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
    async with (
        writing(path, "one", count=60) as one,
        writing(path, "two", count=60) as two,
    ):
        await asyncio.gather(*(table.put({"name": "here", "number": n}) for n in range(60)))
        for process in (one, two):
            await lines(process, 80)
            assert await process.wait() == 0
    for name, kept in [("one", 40), ("two", 40), ("here", 60)]:
        assert len((await table.query(name)).items) == kept


@pytest.mark.parametrize("busy", [1, 2])
async def test_an_occasional_writer_gets_its_turn_beside_busy_ones(
    path: Path, open_sqlite: OpenSqlite, table: TableHandle, busy: int
) -> None:
    """Counts, not clocks: few transactions of others come between asking and committing."""
    turns = Table("turns", Key("name"), Key("n", Kind.NUMBER))
    engine = await open_sqlite()
    mine = await engine.ensure_table(turns)
    reader = engine._database.reader

    def others() -> int:
        # Its numbers grow with every transaction of a busy process.
        return int(
            reader.execute(
                "SELECT coalesce(max(s), 0) FROM "
                f"(SELECT s FROM {table.statements.name} WHERE p = ?)",  # type: ignore[attr-defined]
                ("busy0",),
            ).get
        )

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
        between = []
        for n in range(40):
            before = others()
            await mine.put({"name": "me", "n": n})
            between.append(others() - before)
        done.set()
    # A transaction of a busy process holds at most its 8 concurrent writes. Three may come between:
    # one while we rest after our last, the one that was running when we asked, and, of a process
    # that stood in the queue before us, the next.
    assert sum(between) > 0, "the others were not busy"
    assert sorted(between)[-3] <= 3 * 8
