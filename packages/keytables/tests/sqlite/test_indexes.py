"""Indexes are dropped during a bulk load, and created afterwards, also after it failed."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from keytables import Index, Item, Key, Table, TableHandle, TableNotFound
from keytables.sqlite import SqliteEngine
from support.pages import items_of
from support.paths import PYTHONPATH
from support.sqlite_store import Connections, OpenSqlite, select
from support.table_loader import TABLE, items

ALL = {"index0", "index1", "key"}


def indexes(path: Path) -> set[str]:
    """The suffixes of the names of all indexes in the file."""
    names = select(path, "SELECT name FROM sqlite_schema WHERE type = 'index'")
    return {str(name).rpartition("~")[2] for (name,) in names if "~" in str(name)}


async def of_color(table: TableHandle, color: str) -> list[Item]:
    return await items_of(table.query_index, "by_color", color)


async def scanned(table: TableHandle, color: str) -> list[Item]:
    """The result of a query by color, from a scan of the table."""
    found = [item for item in await items_of(table.scan) if item["color"] == color]
    return sorted(found, key=lambda item: str(item["number"]))


async def results_are_right(table: TableHandle) -> bool:
    for color in "rgb":
        found = await of_color(table, color)
        numbers = [int(str(item["number"])) for item in found]
        assert numbers == sorted(numbers)
        assert sorted(found, key=lambda item: str(item["number"])) == await scanned(table, color)
        assert found
    return True


async def fail_loading(table: TableHandle) -> None:
    """Load the table with an error in the middle."""
    with contextlib.suppress(KeyError):
        async with table.loading():
            await table.batch_write(puts=items(0))
            raise KeyError


@pytest.fixture
async def table(engine: SqliteEngine) -> TableHandle:
    return await engine.ensure_table(TABLE)


# --- one process -----------------------------------------------------------------------------


async def test_an_empty_table_is_loaded_without_its_indexes(path: Path, table: TableHandle) -> None:
    assert indexes(path) == ALL
    async with table.loading():
        assert indexes(path) == {"key"}
        await table.batch_write(puts=items(0))
        assert indexes(path) == {"key"}
        assert await results_are_right(table)
    assert indexes(path) == ALL
    assert await results_are_right(table)


async def test_expired_items_are_found_by_an_index_while_a_table_is_loaded(
    path: Path, engine: SqliteEngine
) -> None:
    expiring = Table("expiring", Key("name"), indexes=(Index("by_n", Key("n")),), expiry="end")
    table = await engine.ensure_table(expiring)
    async with table.loading():
        assert indexes(path) == {"key", "expiry"}
        await table.put({"name": "gone", "n": "n", "end": 1})
        assert await engine.sweep() == 1
    assert indexes(path) == {"key", "expiry", "index0"}


async def test_a_table_that_holds_items_keeps_its_indexes(path: Path, table: TableHandle) -> None:
    put = table.batch_write(puts=items(0))  # submitted, not committed
    async with table.loading():
        assert indexes(path) == ALL
    await put


async def test_one_table_is_loaded_at_a_time(
    path: Path, engine: SqliteEngine, table: TableHandle
) -> None:
    other = await engine.ensure_table(Table("other", Key("a"), indexes=(Index("by_b", Key("b")),)))
    async with table.loading():
        before = indexes(path)
        async with other.loading(), table.loading():
            assert indexes(path) == before == {"key", "index0"}  # that of the other
        assert indexes(path) == before
    assert indexes(path) == ALL


async def test_indexes_missing_after_a_failed_load_are_created_before_the_next(
    path: Path, table: TableHandle
) -> None:
    await fail_loading(table)
    async with table.loading():
        assert indexes(path) == ALL


async def test_a_table_dropped_while_it_is_loaded_is_not_found(
    engine: SqliteEngine, table: TableHandle
) -> None:
    async with contextlib.AsyncExitStack() as loaded:
        await loaded.enter_async_context(table.loading())
        await engine.drop_table(TABLE.name)
        with pytest.raises(TableNotFound):
            await table.query_index("by_color", "r")
        with pytest.raises(TableNotFound):
            await loaded.aclose()
    await (await engine.ensure_table(TABLE)).put({"name": "new"})


async def test_a_query_without_its_index_runs_in_a_thread(
    table: TableHandle, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def trace(cursor: object, sql: str, values: object) -> bool:
        if sql.startswith("SELECT b"):
            threads.append(threading.current_thread())
        return True

    def trace_connection(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    connections.reader.exec_trace = trace
    monkeypatch.setattr(apsw, "connection_hooks", [trace_connection])
    async with table.loading():
        await table.query_index("by_color", "r")
    assert threads[-1] is not threading.current_thread()
    await table.query_index("by_color", "r")
    assert threads[-1] is threading.current_thread()


async def test_a_store_that_cannot_be_written_is_read_without_indexes(
    path: Path, open_sqlite: OpenSqlite, table: TableHandle
) -> None:
    await fail_loading(table)
    keeper = apsw.Connection(str(path))
    keeper.execute("BEGIN IMMEDIATE")
    try:
        reader = await open_sqlite(lock_timeout=0.05)
        assert await results_are_right(await reader.ensure_table(TABLE))
    finally:
        keeper.close()
    assert indexes(path) == {"key"}


# --- several ---------------------------------------------------------------------------------


@asynccontextmanager
async def loading(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a process that loads a table; it is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "support.table_loader", str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    assert process.stdout is not None
    await process.stdout.readline()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("batches", [0, 5])
async def test_after_a_kill_the_next_who_opens_the_table_creates_its_indexes(
    path: Path, open_sqlite: OpenSqlite, batches: int
) -> None:
    async with loading(path) as victim:
        assert victim.stdout is not None
        for _ in range(batches):
            await victim.stdout.readline()
        assert indexes(path) == {"key"}
    assert indexes(path) == {"key"}
    table = await (await open_sqlite()).ensure_table(TABLE)
    assert indexes(path) == ALL
    assert await results_are_right(table)


async def test_a_process_reads_and_writes_a_table_that_another_loads(
    path: Path, open_sqlite: OpenSqlite
) -> None:
    async with loading(path) as loader:
        table = await (await open_sqlite()).ensure_table(TABLE)
        assert indexes(path) == {"key"}
        first = await of_color(table, "r")
        assert [item["number"] for item in first] == list(range(0, 3 * len(first), 3))
        assert len(first) >= 200 // 3
        await table.put({"name": "mine", "color": "r", "number": -1})
        assert (await of_color(table, "r"))[0]["name"] == "mine"
        await loader.communicate(b"end\n")
        assert loader.returncode == 0
    assert indexes(path) == ALL
    assert (await of_color(table, "r"))[0]["name"] == "mine"
    assert await results_are_right(table)
