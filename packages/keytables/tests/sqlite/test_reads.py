"""A read never holds the loop for long, whatever lies in its way."""

from collections.abc import Awaitable, Callable

import pytest

from keytables import Index, Key, Page, Table, TableHandle
from keytables.sqlite import SqliteEngine
from support.clocks import ManualClock

OpenSqlite = Callable[..., Awaitable[SqliteEngine]]
TABLE = Table("things", Key("a"), Key("b"), indexes=(Index("by_c", Key("c")),), expiry="end")
ROWS = 3000
READS: dict[str, Callable[[TableHandle], Awaitable[Page]]] = {
    "query": lambda table: table.query("1", limit=10),
    "index": lambda table: table.query_index("by_c", "x", limit=10),
    "scan": lambda table: table.scan(limit=10),
}


@pytest.mark.parametrize("name", READS)
async def test_a_read_examines_a_bounded_number_of_expired_rows(
    open_sqlite: OpenSqlite, clock: ManualClock, name: str
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

    # Called after every 10 instructions of SQLite; a row takes about that many.
    engine._database.reader.set_progress_handler(step, 10)
    page = await READS[name](table)
    engine._database.reader.set_progress_handler(None)
    assert page.items == []
    assert page.cursor is not None
    assert steps < ROWS


async def test_a_page_that_is_full_knows_that_only_expired_rows_follow(
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
