"""A commit that failed is as if it had never been, also after the process was killed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from keytables import Item, Key, Kind, Table, Unavailable, open_engine


class FailingSync(apsw.VFS):
    """As "unix", for connections that are opened from now on. While `fails`, no log is synced."""

    def __init__(self) -> None:
        super().__init__("failing-sync", "unix", makedefault=True)
        self.fails = False

    def xOpen(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(
        self, disk: FailingSync, name: "str | apsw.URIFilename | None", flags: list[int]
    ) -> None:
        super().__init__("unix", name, flags)
        self.disk = disk
        self.is_log = bool(flags[1] & apsw.SQLITE_OPEN_WAL)

    def xSync(self, flags: int) -> None:
        if self.is_log and self.disk.fails:
            error = apsw.IOError("disk I/O error")
            # apsw hands it to SQLite; its type stub does not know it.
            vars(error)["extendedresult"] = apsw.SQLITE_IOERR_FSYNC
            raise error
        super().xSync(flags)


TABLE = Table("messages", Key("user", Kind.STRING), Key("id", Kind.STRING))
ROW: Item = {"user": "u", "id": "1", "data": "x" * 2000}
KEY = ("u", "1")


@pytest.fixture
def disk() -> Iterator[FailingSync]:
    disk = FailingSync()
    yield disk
    disk.unregister()


@pytest.mark.parametrize("failures", ["once", "until it is deleted"])
async def test_what_a_failed_commit_left_in_the_log_is_not_recovered(
    tmp_path: Path, disk: FailingSync, failures: str
) -> None:
    """The row is deleted after its put failed: there is nothing to delete, and nothing to write."""
    data, killed = tmp_path / "data", tmp_path / "killed"
    engine = await open_engine(f"sqlite://{data}/store")
    table = await engine.ensure_table(TABLE)
    await table.put({"user": "u", "id": "0"})
    disk.fails = True
    with pytest.raises(Unavailable):
        await table.put(ROW)
    if failures == "once":
        disk.fails = False
    else:
        with pytest.raises(Unavailable):
            await table.delete(KEY)
        disk.fails = False
    await table.delete(KEY)
    # As after `kill -9` of all processes: the index of the log is gone, and the log is recovered.
    shutil.copytree(data, killed, ignore=shutil.ignore_patterns("*-shm"))
    await engine.close()
    recovered = await open_engine(f"sqlite://{killed}/store")
    table = await recovered.ensure_table(TABLE)
    assert await table.get(KEY) is None
    assert await table.get(("u", "0")) is not None
    await recovered.close()
