"""The first import fills the table without its indexes, and asks nothing that needs one."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from channelstats.ingest.export_import import ImportOptions
from channelstats.ingest.runs import Event
from keytables.sqlite.reader import Reader
from support.channelstats.house import EXAMPLE, House


class Interrupted(Exception):
    """Ends an import from its report."""


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


async def indexes_meanwhile(empty: House, folder: Path) -> list[int]:
    """How many indexes there are whenever an import reports."""
    found: list[int] = []
    await empty.take_in(EXAMPLE, on_event=lambda _: found.append(indexes(folder)))
    return found


async def test_an_empty_table_is_filled_without_indexes_and_nothing_asks_for_one(
    empty: House, tmp_path: Path, slow: list[str]
) -> None:
    assert await indexes_meanwhile(empty, tmp_path) == [0, 0]
    assert indexes(tmp_path) == 3
    assert slow == []


async def test_an_import_that_goes_on_has_the_indexes(
    empty: House, tmp_path: Path, slow: list[str]
) -> None:
    def interrupt(event: Event) -> None:
        if getattr(event, "channel", "") == "general":
            raise Interrupted

    with pytest.raises(Interrupted):
        await empty.take_in(EXAMPLE, on_event=interrupt)
    assert indexes(tmp_path) == 0
    assert await indexes_meanwhile(empty, tmp_path) == [3]
    assert slow == []


async def test_another_import_keeps_the_indexes(
    empty: House, tmp_path: Path, slow: list[str]
) -> None:
    await empty.take_in(EXAMPLE, options=ImportOptions(include_private=True))
    assert await indexes_meanwhile(empty, tmp_path) == [3, 3]
    assert slow == []
