"""What is refused when a file is opened."""

import asyncio
import os
import sqlite3
from pathlib import Path

import apsw
import pytest

from keytables import Key, Table, Unavailable
from keytables.sqlite import SqliteEngine, database, divide_store
from keytables.sqlite.layout import read_part
from keytables.sqlite.locks import UsageLock
from support.sqlite_store import write_lock


@pytest.mark.parametrize("version", ["3.51.2", "3.50.9", "3.9.0", "2.99.99"])
async def test_an_old_sqlite_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(Unavailable, match=rf"{version}.*3\.51\.3"):
        await SqliteEngine.open(tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.100.0", "4.0.0"])
async def test_a_fixed_sqlite_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    engine = await SqliteEngine.open(tmp_path / "store")
    await engine.close()


async def test_a_file_that_is_no_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    content = b"this is not a database " * 100
    path.write_bytes(content)
    with pytest.raises(Unavailable, match="not a database"):
        await SqliteEngine.open(path)
    assert path.read_bytes() == content


async def test_a_database_of_another_program_is_refused_and_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    content = path.read_bytes()
    with pytest.raises(Unavailable, match="another program"):
        await SqliteEngine.open(path)
    assert path.read_bytes() == content


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await (await SqliteEngine.open(path)).close()
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {database.FILE_VERSION + 1}")
    newer.close()
    with pytest.raises(Unavailable, match="newer version"):
        await SqliteEngine.open(path)


async def test_only_its_owner_may_read_a_new_file(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        engine = await SqliteEngine.open(tmp_path / "store")
        try:
            table = await engine.ensure_table(Table("tab", Key("pk")))
            await table.put({"pk": "a"})
            modes = {
                name: os.stat(tmp_path / name).st_mode & 0o777 for name in os.listdir(tmp_path)
            }
            assert {"store", "store-wal"} <= modes.keys()
            assert set(modes.values()) == {0o600}
        finally:
            await engine.close()
    finally:
        os.umask(before)


async def test_a_folder_is_created(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path / "data" / "deep" / "store")
    await engine.close()
    assert (tmp_path / "data" / "deep" / "store").exists()


async def test_a_folder_that_cannot_be_created_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="data folder"):
        await SqliteEngine.open(tmp_path / "file" / "store")


async def test_a_folder_that_cannot_be_written_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)  # root may all
    with pytest.raises(Unavailable, match="not writable"):
        await SqliteEngine.open(tmp_path / "store")


async def test_a_file_that_is_a_folder_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    with pytest.raises(Unavailable):
        await SqliteEngine.open(tmp_path / "store")


async def test_commits_reach_the_disk_and_reads_cannot_write(tmp_path: Path) -> None:
    opened = database.Database(tmp_path / "store")
    full = 2
    for connection in (opened.writer, opened.reader, opened.checkpointer):
        assert connection.execute("PRAGMA synchronous").get == full
        assert connection.execute("PRAGMA journal_mode").get == "wal"
    with pytest.raises(apsw.ReadOnlyError):
        opened.reader.execute("CREATE TABLE t (x)")
    opened.close()


async def test_a_failed_opening_leaves_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"no database" * 100)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await SqliteEngine.open(path)
    path.unlink()
    engine = await SqliteEngine.open(path)  # no lock was kept
    await engine.ensure_table(Table("things", Key("a")))
    await engine.close()


async def test_an_existing_file_is_opened_although_another_process_keeps_the_lock(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    first = await SqliteEngine.open(path)
    table = await first.ensure_table(Table("things", Key("a")))
    await table.put({"a": "1"})
    await first.close()
    with write_lock(path):
        engine = await asyncio.wait_for(SqliteEngine.open(path), 30)
        again = await engine.ensure_table(Table("things", Key("a")))
        assert await again.get(("1",)) == {"a": "1"}
        await engine.close()


async def test_a_file_that_cannot_be_created_in_time_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with write_lock(path), pytest.raises(Unavailable, match="another process"):
        database.Database(path, opening_timeout=0.05)
    engine = await SqliteEngine.open(tmp_path / "store")
    await engine.close()


async def test_opening_waits_for_a_program_that_has_the_file_locked(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await (await SqliteEngine.open(path)).close()
    foreign = apsw.Connection(str(path))
    foreign.execute("PRAGMA journal_mode = DELETE").close()
    foreign.execute("BEGIN EXCLUSIVE")
    opening = asyncio.ensure_future(SqliteEngine.open(path))
    done, _ = await asyncio.wait([opening], timeout=6)  # it gave up after 5
    assert not done
    foreign.execute("COMMIT")
    foreign.close()
    await (await asyncio.wait_for(opening, 30)).close()


async def test_opening_waits_for_a_restore_and_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await (await SqliteEngine.open(path)).close()
    usage = UsageLock(str(path))
    assert usage.try_exclude()
    opening = asyncio.ensure_future(SqliteEngine.open(path))
    cancelled = asyncio.ensure_future(SqliteEngine.open(path))
    done, _ = await asyncio.wait([opening, cancelled], timeout=0.3)
    assert not done
    cancelled.cancel()
    await asyncio.wait([cancelled], timeout=30)
    assert cancelled.cancelled()
    usage.close()
    await (await asyncio.wait_for(opening, 30)).close()


async def test_a_file_that_stays_locked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store"
    await (await SqliteEngine.open(path)).close()
    foreign = apsw.Connection(str(path))
    foreign.execute("PRAGMA journal_mode = DELETE").close()
    foreign.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unavailable, match="store: another process keeps it locked"):
        await SqliteEngine.open(path, opening_timeout=0.1)
    foreign.close()


@pytest.mark.parametrize("moment", ["application_id", "user_version", "sqlite_schema"])
async def test_a_file_that_another_process_creates_meanwhile_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path, created = tmp_path / "store", list[database.Database]()

    def create_meanwhile(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        if moment in sql and not created:
            hooks.clear()
            try:
                created.append(database.Database(path, opening_timeout=0.05))
            except Unavailable:  # it waits for the snapshot of the one that checks the file
                waited.append(sql)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = create_meanwhile

    waited = list[str]()
    hooks = [watch]
    monkeypatch.setattr(apsw, "connection_hooks", hooks)
    engine = await SqliteEngine.open(path)
    await engine.close()
    assert created or waited
    for other in created:
        other.close()


@pytest.mark.parametrize("wipe", [True, False])
async def test_wipe_overwrites_deleted_data(tmp_path: Path, *, wipe: bool) -> None:
    path = tmp_path / "store"
    other = await SqliteEngine.open(path)
    engine = await SqliteEngine.open(path, wipe=wipe)
    table = await engine.ensure_table(Table("things", Key("k")))
    for number in range(200):  # more than a page of them, so that whole pages are given back
        await table.put({"k": str(number), "text": "a secret " * 100})
    await table.put({"k": "kept", "text": "known"})
    for number in range(200):
        await table.delete((str(number),))
    await engine.close()
    content = path.read_bytes() + (tmp_path / "store-wal").read_bytes()  # which is still in use
    assert b"known" in content
    assert (b"a secret" in content) is not wipe
    await other.close()


@pytest.mark.parametrize(("parts", "kib"), [(1, 8192), (4, 2048), (64, 1024)])
def test_connections_to_a_part_keep_their_share_of_pages(
    tmp_path: Path, parts: int, kib: int
) -> None:
    path = str(tmp_path / "store")
    divide_store(path, parts)
    opened = database.Database(path, part=read_part(path))
    try:
        connections = (opened.writer, opened.reader, opened.checkpointer)
        assert {each.execute("PRAGMA cache_size").get for each in connections} == {-kib}
    finally:
        opened.close()
