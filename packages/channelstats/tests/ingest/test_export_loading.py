"""The first import fills the table without its indexes, and asks nothing that needs one."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import apsw
import pytest

from channelstats.ingest.events import ChannelDone, Reached
from channelstats.ingest.export_import import ExportImport
from channelstats.slack.export import Export
from keytables.sqlite.reader import Reader
from support.channelstats.house import COMPAT, EXAMPLE, NOW, House
from support.clocks import ManualClock


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that were queried by an index that was missing."""
    queried: list[str] = []
    run_in_thread = Reader.run_in_thread

    async def noted(self: Reader, read: Any, table: str) -> Any:
        queried.append(table)
        return await run_in_thread(self, read, table)

    monkeypatch.setattr(Reader, "run_in_thread", noted)
    return queried


def indexes(folder: Path) -> int:
    """How many indexes of messages there are, beside that of the key."""
    connection = apsw.Connection(str(folder / "store.sqlite"))
    try:
        sql = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'channelstats.Message~%~index%'"
        return int(connection.execute(sql).get)
    finally:
        connection.close()


async def test_an_empty_table_is_filled_without_indexes_and_nothing_asks_for_one(
    empty: House, tmp_path: Path, slow: list[str]
) -> None:
    archive = Export.open(EXAMPLE)
    run = ExportImport(archive, empty.tables, clock=ManualClock(NOW), counting=COMPAT).run()
    meanwhile = [indexes(tmp_path) async for event in run if isinstance(event, ChannelDone)]
    assert meanwhile == [0, 0]
    assert indexes(tmp_path) == 3
    assert slow == []


async def test_an_import_that_goes_on_has_the_indexes(
    empty: House, tmp_path: Path, slow: list[str]
) -> None:
    clock, archive = ManualClock(NOW), Export.open(EXAMPLE)
    async with aclosing(
        ExportImport(archive, empty.tables, clock=clock, counting=COMPAT).run()
    ) as run:
        async for event in run:
            if isinstance(event, ChannelDone):
                break
    assert indexes(tmp_path) == 0
    again = ExportImport(archive, empty.tables, clock=clock, counting=COMPAT).run()
    meanwhile = [indexes(tmp_path) async for event in again if isinstance(event, Reached)]
    assert meanwhile == [3]
    assert slow == []


async def test_another_import_keeps_the_indexes(
    empty: House, tmp_path: Path, slow: list[str]
) -> None:
    await empty.take_in(EXAMPLE)
    run = ExportImport(
        Export.open(EXAMPLE), empty.tables, clock=ManualClock(NOW), counting=COMPAT
    ).run()
    assert {indexes(tmp_path) async for event in run if isinstance(event, Reached)} == {3}
    assert slow == []
