"""Writing a store anew leaves nothing of what was deleted, while others have it open."""

from contextlib import closing
from pathlib import Path

import pytest

from keytables import Key, Table, Unavailable
from keytables.sqlite import SqliteEngine
from keytables.sqlite.locks import FairLock
from keytables.sqlite.wiping import wipe_store

TABLE = Table("notes", Key("key"))
SECRET = "a secret text"


def holding(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if SECRET.encode() in path.read_bytes()]


async def test_nothing_of_what_was_deleted_stays_in_any_file(tmp_path: Path) -> None:
    """Not even without overwriting what is deleted, and in the log."""
    engine = await SqliteEngine.open(tmp_path / "store")
    try:
        table = await engine.ensure_table(TABLE)
        for number in range(50):
            await table.put({"key": str(number), "text": SECRET * 50 if number % 2 else "kept"})
        for number in range(1, 50, 2):
            await table.delete((str(number),))
        assert holding(tmp_path) != []
        wipe_store(tmp_path / "store")
        assert holding(tmp_path) == []
        assert await table.get(("2",)) == {"key": "2", "text": "kept"}
        await table.put({"key": "new"})
        assert len((await table.scan()).items) == 26
    finally:
        await engine.close()


async def test_a_store_that_others_write_to_for_too_long_is_left_as_it_is(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path / "store")
    await engine.close()
    with closing(FairLock(str(tmp_path / "store"))) as lock:
        lock.acquire()
        with pytest.raises(Unavailable, match="locked"):
            wipe_store(tmp_path / "store", timeout=0.01)
    wipe_store(tmp_path / "store")
