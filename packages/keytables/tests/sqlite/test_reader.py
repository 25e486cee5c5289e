"""Reads hold the loop for a bounded time; those that read a whole table run in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from keytables import Index, Key, Page, Table, TableHandle, Unavailable
from keytables.sqlite.database import failure_reports
from keytables.sqlite.reader import Reader
from support.clocks import ManualClock
from support.sqlite_store import Connections, OpenSqlite

ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
async def reader(path: Path) -> AsyncIterator[Reader]:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (a)").close()
    yield Reader(connection, str(path), failure_reports())
    connection.close()


async def test_slow_reads_run_one_by_one_in_a_thread(reader: Reader) -> None:
    threads = set()

    def read(_: apsw.Connection) -> None:
        threads.add(threading.get_ident())

    await asyncio.gather(*(reader.run_in_thread(read, "t") for _ in range(20)))
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    await reader.close()


async def test_close_ends_slow_reads_that_run_or_wait(reader: Reader) -> None:
    started = threading.Event()

    def endless(connection: apsw.Connection) -> object:
        started.set()
        return connection.execute(ENDLESS).get

    reading = [asyncio.create_task(reader.run_in_thread(endless, "t")) for _ in range(3)]
    await asyncio.to_thread(started.wait)
    await reader.close()
    for task in reading:
        with pytest.raises(Unavailable):
            await task
    with pytest.raises(Unavailable):
        await reader.run_in_thread(endless, "t")


TABLE = Table("things", Key("a"), Key("b"), indexes=(Index("by_c", Key("c")),), expiry="end")
ROWS = 3000
READS: dict[str, Callable[[TableHandle], Awaitable[Page]]] = {
    "query": lambda table: table.query("1", limit=10),
    "index": lambda table: table.query_index("by_c", "x", limit=10),
    "scan": lambda table: table.scan(limit=10),
}


@pytest.mark.parametrize("name", READS)
async def test_a_read_examines_a_bounded_number_of_expired_rows(
    open_sqlite: OpenSqlite, connections: Connections, clock: ManualClock, name: str
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(TABLE)
    await table.batch_write(
        puts=[{"a": "1", "b": f"{n:05}", "c": "x", "end": clock.now + 1} for n in range(ROWS)]
    )
    await READS[name](table)
    clock.advance(1)
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        return False

    # Called every 10 instructions of SQLite; a row takes about that many.
    connections.reader.set_progress_handler(step, 10)
    page = await READS[name](table)
    connections.reader.set_progress_handler(None)
    assert page.items == []
    assert page.cursor is not None
    assert steps < ROWS


async def test_a_full_page_that_only_expired_rows_follow_has_no_cursor(
    open_sqlite: OpenSqlite, clock: ManualClock
) -> None:
    table = await (await open_sqlite()).ensure_table(TABLE)
    await table.batch_write(
        puts=[{"a": "1", "b": str(n), "end": clock.now + (1 if n else 9)} for n in range(9)]
    )
    clock.advance(1)
    page = await table.query("1", limit=1)
    assert [item["b"] for item in page.items] == ["0"]
    assert page.cursor is None
