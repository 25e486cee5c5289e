"""The log is copied into the file and starts over."""

import asyncio
import os
from pathlib import Path

import apsw

from keytables import Key, Table
from keytables.failures import FailureReports
from keytables.sqlite.checkpoint import Checkpointer
from keytables.sqlite.database import failure_reports
from support.sqlite_store import OpenSqlite


def connections(path: Path) -> tuple[apsw.Connection, apsw.Connection]:
    writer, other = apsw.Connection(str(path)), apsw.Connection(str(path))
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (x)")
    return writer, other


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


def unheard() -> FailureReports:
    return failure_reports()


def write(writer: apsw.Connection, checkpointer: Checkpointer) -> None:
    with writer:
        writer.execute("INSERT INTO t VALUES (zeroblob(20000))")
    checkpointer.after_commit()


async def test_the_log_of_a_busy_writer_stays_bounded(path: Path) -> None:
    writer, other = connections(path)
    checkpointer = Checkpointer(writer, other, unheard(), step=50, limit=200)
    for _ in range(300):
        write(writer, checkpointer)
    checkpointer.stop()
    assert log_size(path) < 2 * 200 * 4120
    assert writer.execute("SELECT count(*) FROM t").get == 300


async def test_a_long_read_blocks_neither_writes_nor_checkpoints(path: Path) -> None:
    writer, other = connections(path)
    checkpointer = Checkpointer(writer, other, unheard(), step=20, limit=60)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM t").get == 0
    for _ in range(50):
        write(writer, checkpointer)
    reader.execute("COMMIT")
    before = log_size(path)
    for _ in range(100):
        write(writer, checkpointer)
    checkpointer.stop()
    assert writer.execute("SELECT count(*) FROM t").get == 150
    assert log_size(path) <= before + 60 * 4120


async def test_everything_is_in_the_file_after_the_last_close(
    open_sqlite: OpenSqlite, path: Path
) -> None:
    engine = await open_sqlite()
    table = await engine.ensure_table(Table("things", Key("a")))
    await asyncio.gather(*(table.put({"a": str(n)}) for n in range(100)))
    await engine.close()
    assert f"{path.name}-wal" not in os.listdir(path.parent)
