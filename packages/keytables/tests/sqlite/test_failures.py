"""The owner of an engine hears of each failure of the database, and of nothing else."""

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from keytables import (
    Attr,
    ConditionFailed,
    Key,
    KeytablesError,
    SchemaError,
    StorageFull,
    StoreDamaged,
    Table,
    TableHandle,
    Throttled,
    Unavailable,
)
from keytables.sqlite.checkpoint import Checkpointer
from keytables.sqlite.database import failure_reports, translate
from support.clocks import ManualClock
from support.sqlite_store import Connections, OpenSqlite, failing_commits, select, write_lock

TABLE = Table("things", Key("a"), Key("b"), expiry="end")
DATA = "x" * 900


class Heard(list[KeytablesError]):
    """What the owner hears, and in which threads."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def __call__(self, error: KeytablesError) -> None:
        self.append(error)
        self.threads.add(threading.get_ident())


@pytest.fixture
def heard() -> Heard:
    return Heard()


async def test_a_failed_commit_is_heard_once(
    open_sqlite: OpenSqlite, connections: Connections, heard: Heard
) -> None:
    table = await (await open_sqlite(on_failure=heard)).ensure_table(TABLE)
    with failing_commits(connections.writer):
        puts = [table.put({"a": "1", "b": str(n)}) for n in range(10)]
        results = await asyncio.gather(*puts, return_exceptions=True)
    assert {type(result) for result in results} == {Unavailable}
    assert [type(error) for error in heard] == [Unavailable]
    assert heard.threads == {threading.get_ident()}


class FailingDisk:
    """The connection of a checkpointer whose disk fails."""

    system_errno = errno.EIO

    def wal_checkpoint(self, **_: object) -> None:
        raise apsw.IOError("disk I/O error")


async def test_a_failed_checkpoint_is_heard_on_the_loop(path: Path, heard: Heard) -> None:
    writer = apsw.Connection(str(path))
    writer.execute("PRAGMA journal_mode = WAL")
    failures = failure_reports(heard)
    disk = cast(apsw.Connection, FailingDisk())
    checkpointer = Checkpointer(writer, disk, failures, step=1)
    writer.execute("CREATE TABLE t (x)")
    checkpointer.after_commit()
    await asyncio.to_thread(checkpointer.stop)
    await asyncio.sleep(0)
    assert [type(error) for error in heard] == [Unavailable]
    assert heard.threads == {threading.get_ident()}


async def test_a_lock_that_others_keep_is_heard_of(
    open_sqlite: OpenSqlite, path: Path, heard: Heard
) -> None:
    table = await (await open_sqlite(lock_timeout=0.05, on_failure=heard)).ensure_table(TABLE)
    with write_lock(path):
        puts = [table.put({"a": "1", "b": str(n)}) for n in range(10)]
        await asyncio.gather(*puts, return_exceptions=True)
    assert [type(error) for error in heard] == [Throttled]


async def test_conditions_mistakes_and_limits_are_not_heard_of(
    open_sqlite: OpenSqlite, heard: Heard
) -> None:
    engine = await open_sqlite(on_failure=heard, max_waiting=5)
    table = await engine.ensure_table(TABLE)
    with pytest.raises(ConditionFailed):
        await table.put({"a": "1", "b": "1"}, condition=Attr("a").exists())
    with pytest.raises(SchemaError):
        await table.get(("1",))
    puts = [table.put({"a": "1", "b": str(n)}) for n in range(10)]
    results = await asyncio.gather(*puts, return_exceptions=True)
    assert Throttled in {type(result) for result in results}
    await engine.close()
    with pytest.raises(Unavailable):
        await table.put({"a": "1", "b": "1"})
    with pytest.raises(Unavailable):
        await table.get(("1", "1"))
    assert heard == []


async def test_any_other_exception_is_reported_as_unavailable(heard: Heard) -> None:
    failure_reports(heard).report(OSError(errno.ENOLCK, "no locks"))
    assert type(heard[0]) is Unavailable
    assert "no locks" in str(heard[0])


async def test_an_owner_that_raises_does_not_stop_the_writer(
    open_sqlite: OpenSqlite, connections: Connections
) -> None:
    raised: list[dict[str, Any]] = []

    def refuse(error: KeytablesError) -> None:
        raise RuntimeError

    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    table = await (await open_sqlite(on_failure=refuse)).ensure_table(TABLE)
    with failing_commits(connections.writer), pytest.raises(Unavailable):
        await table.put({"a": "1", "b": "1"})
    await table.put({"a": "1", "b": "2"})
    assert isinstance(raised[0]["exception"], RuntimeError)


def test_an_error_of_the_disk_for_want_of_space_is_a_full_disk() -> None:
    assert isinstance(translate(apsw.FullError("full")), StorageFull)
    assert isinstance(translate(apsw.IOError("write"), errno=errno.EDQUOT), StorageFull)
    assert type(translate(apsw.IOError("write"), errno=errno.EIO)) is Unavailable


# ── A garbage page ────────────────────────────────────────────────────────────────────────────────


async def fill(table: TableHandle, clock: ManualClock) -> None:
    end = clock.now + 100
    for user in range(20):
        await asyncio.gather(
            *(
                table.put({"a": f"u{user}", "b": f"{n:03}", "data": f"<{user}>{DATA}", "end": end})
                for n in range(40)
            )
        )


def damage(path: Path, text: bytes) -> None:
    """Put garbage in place of a page with that text."""
    content = path.read_bytes()
    pages = [n for n in range(len(content) // 4096) if text in content[n * 4096 : n * 4096 + 4096]]
    with path.open("r+b") as file:
        file.seek(pages[len(pages) // 2] * 4096)
        file.write(os.urandom(4096))


async def test_a_garbage_page_ends_what_it_concerns_and_nothing_else(
    open_sqlite: OpenSqlite, path: Path, clock: ManualClock, heard: Heard
) -> None:
    first = await open_sqlite()
    await fill(await first.ensure_table(TABLE), clock)
    await first.close()
    damage(path, b"<10>")
    engine = await open_sqlite(on_failure=heard)
    table = await engine.ensure_table(TABLE)
    with pytest.raises(StoreDamaged):
        await table.query("u10")
    assert [type(error) for error in heard] == [StoreDamaged]
    for user in (9, 11):
        assert len((await table.query(f"u{user}")).items) == 40
    # Writes to it fail alone, whatever they were committed with.
    keys = [(f"u{user}", f"{n:03}") for user in (9, 10, 11) for n in range(40)]
    puts = [table.put({"a": a, "b": b, "end": clock.now + 100}) for a, b in keys]
    results = await asyncio.gather(*puts, return_exceptions=True)
    assert {key[0] for key, result in zip(keys, results, strict=True) if result} == {"u10"}
    # Of what has expired, all is deleted but for rows of pages that are merged with it.
    clock.advance(200)
    await engine.sweep()
    left = select(path, 'SELECT p FROM "things~1" INDEXED BY "things~1~key"')
    assert ("u10",) in left
    assert len(set(left)) <= 6
    await table.put({"a": "u1", "b": "new"})


async def test_a_damaged_item_is_unavailable_and_heard_of(
    open_sqlite: OpenSqlite, connections: Connections, heard: Heard
) -> None:
    table = await (await open_sqlite(on_failure=heard)).ensure_table(TABLE)
    await table.put({"a": "1", "b": "1"})
    await table.put({"a": "2", "b": "1"})
    connections.writer.execute("UPDATE \"things~1\" SET b = x'c1c1' WHERE p = '1'")
    for read in (table.get(("1", "1")), table.query("1"), table.scan()):
        with pytest.raises(Unavailable, match="damaged"):
            await read
    assert len(heard) == 3
    assert await table.get(("2", "1")) == {"a": "2", "b": "1"}
