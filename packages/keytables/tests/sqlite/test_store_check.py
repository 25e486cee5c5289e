"""What is damaged is said in words, before SQLite forgets it."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from keytables import Index, Key, Table, Unavailable
from keytables.sqlite import SqliteEngine, StoreCheck, check_store, divide_store
from keytables.sqlite.database import FILE_VERSION, StoreLocked
from keytables.sqlite.layout import store_files
from keytables.sqlite.locks import UsageLock
from support.paths import PYTHONPATH

MESSAGES = Table("messages", Key("a"), Key("b"), expiry="end")
USERS = Table("users", Key("a"), indexes=(Index("by_c", Key("c")),))
KILLED = """
import asyncio, os, signal, sys
from keytables import Key, Table
from keytables.sqlite import SqliteEngine
async def main():
    engine = await SqliteEngine.open(sys.argv[1])
    table = await engine.ensure_table(Table("messages", Key("a"), Key("b"), expiry="end"))
    for n in range(100):
        await table.put({"a": str(n % 7), "b": str(n), "data": "x" * 3000})
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def fill(path: Path) -> None:
    async def fill() -> None:
        engine = await SqliteEngine.open(path)
        messages, users = await engine.ensure_table(MESSAGES), await engine.ensure_table(USERS)
        for n in range(200):
            messages.put({"a": "1", "b": str(n), "data": f"<message>{'x' * 2000}"})
            users.put({"a": str(n), "c": f"<c{n}>", "data": f"<user>{'x' * 2000}"})
        await engine.close()

    asyncio.run(fill())


async def killed(path: Path) -> None:
    """Fill a store with 101 transactions and more, and kill the process that has it open."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", KILLED, str(path)), env={**os.environ, "PYTHONPATH": PYTHONPATH}
    )
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL


def damage(path: Path, text: bytes, number: int = 20) -> None:
    """Put garbage in place of a page that holds the text."""
    content = path.read_bytes()
    pages = [n for n in range(len(content) // 4096) if text in content[n * 4096 : n * 4096 + 4096]]
    with path.open("r+b") as file:
        file.seek(pages[min(number, len(pages) - 1)] * 4096)
        file.write(b"\x99" * 4096)


def test_a_sound_store_is_sound(path: Path) -> None:
    fill(path)
    before = {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)}
    assert check_store(path, timeout=60) == StoreCheck()
    assert (
        before.items()
        <= {name: (path.parent / name).read_bytes() for name in os.listdir(path.parent)}.items()
    )


def test_there_may_be_no_store_yet(path: Path) -> None:
    assert check_store(path, timeout=60) == StoreCheck()
    assert not path.exists()


@pytest.mark.parametrize(("text", "name"), [(b"<message>", "messages"), (b"<user>", "users")])
def test_a_garbage_page_names_its_table_alone(path: Path, text: bytes, name: str) -> None:
    fill(path)
    damage(path, text)
    check = check_store(path, timeout=60)
    assert len(check.damage) == 1
    assert check.damage[0].startswith(f"table '{name}': some of its rows cannot be read")
    assert check.is_complete
    assert not check.is_unclean


def test_an_index_that_does_not_fit_is_named_with_its_table(path: Path) -> None:
    fill(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(sql, '(a0, p)', '(p, a0)')")
    connection.close()
    (fault,) = check_store(path, timeout=60).damage
    assert fault.startswith("table 'users': an index does not fit the rows")


def test_a_damaged_list_of_free_pages_is_found(path: Path) -> None:
    fill(path)
    connection = apsw.Connection(str(path))
    connection.execute('DELETE FROM "messages~1"')
    connection.close()
    content = path.read_bytes()
    trunk = int.from_bytes(content[32:36], "big")
    with path.open("r+b") as file:
        file.seek((trunk - 1) * 4096)
        file.write(b"\x99" * 4096)
    (fault,) = check_store(path, timeout=60).damage
    assert fault.startswith("the list of free pages is damaged")


def test_a_damaged_head_leaves_nothing(path: Path) -> None:
    fill(path)
    with path.open("r+b") as file:
        file.write(b"\x99" * 4096)
    (fault,) = check_store(path, timeout=60).damage
    assert "nothing of it can be read" in fault


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_file_cut_to_nothing_is_damaged_and_its_log_is_left(
    path: Path, *, is_killed: bool
) -> None:
    if is_killed:
        await killed(path)
    else:
        await asyncio.to_thread(fill, path)
    os.truncate(path, 0)
    logs = [each.name for each in path.parent.glob("*-wal")]
    check = await asyncio.to_thread(check_store, path, timeout=60)
    assert check.damage == ("the file is empty: it has no tables",)
    assert [each.name for each in path.parent.glob("*-wal")] == logs == ["store-wal"] * is_killed


def test_it_ends_in_time_and_says_so(path: Path) -> None:
    fill(path)
    connection = apsw.Connection(str(path))
    connection.execute(
        'INSERT INTO "messages~1" (p, s, b) WITH RECURSIVE n (i) AS '
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) SELECT 'x', i, x'80' FROM n"
    )
    connection.close()
    check = check_store(path, timeout=0.01)
    assert not check.is_complete
    assert check.damage == ()


async def test_a_process_that_was_killed_has_left_its_log(path: Path) -> None:
    await killed(path)
    check = await asyncio.to_thread(check_store, path, timeout=60)
    assert check == StoreCheck(is_unclean=True)


async def test_a_flipped_bit_in_the_log_is_found_although_sqlite_reads_over_it(path: Path) -> None:
    await killed(path)
    log = path.with_name("store-wal")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    for _ in range(2):  # looking at it changes nothing
        (fault,) = (await asyncio.to_thread(check_store, path, timeout=60)).damage
        assert fault.startswith("the log is damaged: of its 10")
    engine = await SqliteEngine.open(path)
    table = await engine.ensure_table(MESSAGES)
    assert len((await table.scan()).items) < 90
    await engine.close()


FRAME = 24 + 4096
COMMITS = 20
"""The first of them creates the table."""


@pytest.fixture
def log(path: Path) -> bytearray:
    """The log of a store that was not closed; what is copied from the file is not in it."""
    fill(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE t (x)")
    for _ in range(COMMITS - 1):
        connection.execute("INSERT INTO t VALUES (randomblob(9000))")
    log, content = path.with_name("store-wal").read_bytes(), path.read_bytes()
    connection.close()
    path.write_bytes(content)
    return bytearray(log)


def readable(path: Path) -> int:
    """How many of the transactions in the log SQLite reads."""
    with closing(apsw.Connection(str(path))) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 't'").get:
            return 0
        return int(connection.execute("SELECT count(*) FROM t").get) + 1


def log_damage(path: Path, log: bytes | bytearray) -> str:
    path.with_name("store-wal").write_bytes(log)
    found = check_store(path, timeout=60)
    assert found.damage == found.log_damage
    return "".join(found.log_damage)


@pytest.mark.parametrize("offset", [500, 4000, 2, 9, 20])
@pytest.mark.parametrize("frame", [0, 30])
def test_a_flipped_bit_in_a_frame_loses_what_is_behind_it(
    path: Path, log: bytearray, frame: int, offset: int
) -> None:
    log[32 + frame * FRAME + offset] ^= 4
    found = log_damage(path, log)
    lost = COMMITS - readable(path)
    assert lost > 5
    assert found == (
        f"the log is damaged: of its {COMMITS} transactions the last {lost} cannot be read"
    )


@pytest.mark.parametrize("offset", [1, 6, 11, 13, 18, 27])
def test_a_flipped_bit_in_the_head_of_the_log_loses_everything(
    path: Path, log: bytearray, offset: int
) -> None:
    log[offset] ^= 1
    assert f"the last {COMMITS} cannot be read" in log_damage(path, log)
    assert readable(path) == 0


def cut(log: bytearray) -> None:
    del log[-3000:]


def missing(log: bytearray) -> None:
    log[-2 * FRAME : -FRAME] = bytes(FRAME)


def torn(log: bytearray) -> None:
    log[-2000:] = bytes(2000)


def allocated(log: bytearray) -> None:
    log.extend(bytes(100_000))


def left_from_before(log: bytearray) -> None:
    old = bytearray(log[32 : 32 + 3 * FRAME])
    for begin in range(0, len(old), FRAME):
        old[begin + 8 : begin + 12] = b"olds"
    log.extend(old)


def short(log: bytearray) -> None:
    log[:] = b"short"


def empty(log: bytearray) -> None:
    log[:] = bytes(100_000)


@pytest.mark.parametrize("leave", [cut, missing, torn, allocated, left_from_before, short, empty])
def test_what_a_power_cut_leaves_of_the_log_is_no_damage(
    path: Path, log: bytearray, leave: Callable[[bytearray], None]
) -> None:
    leave(log)
    assert not log_damage(path, log)


async def test_a_store_in_use_is_checked_without_its_log(path: Path) -> None:
    engine = await SqliteEngine.open(path)
    table = await engine.ensure_table(MESSAGES)
    await table.put({"a": "1", "b": "1"})
    check = await asyncio.to_thread(check_store, path, timeout=60)
    assert check == StoreCheck(is_in_use=True)
    await table.put({"a": "1", "b": "2"})
    await engine.close()


def test_a_store_that_is_being_restored_is_not_checked(path: Path) -> None:
    fill(path)
    usage = UsageLock(str(path))
    assert usage.try_exclude()
    with pytest.raises(StoreLocked):
        check_store(path, timeout=60)
    usage.close()


def test_a_store_of_a_newer_version_is_not_called_damaged(path: Path) -> None:
    fill(path)
    newer = apsw.Connection(str(path))
    newer.execute(f"PRAGMA user_version = {FILE_VERSION + 1}")
    newer.close()
    with pytest.raises(Unavailable, match="newer version"):
        check_store(path, timeout=60)


# ── A store in several parts ──────────────────────────────────────────────────────────────────────


def divided(path: Path) -> list[Path]:
    """A store of three parts with rows in each; their files."""
    fill(path)
    divide_store(path, 3)
    return [Path(file) for file in store_files(str(path))]


def test_every_part_is_checked_and_named(path: Path) -> None:
    files = divided(path)
    assert check_store(path, timeout=60) == StoreCheck()
    damage(files[2], b"<user>", number=1)
    files[1].unlink()
    check = check_store(path, timeout=60)
    lost, damaged = check.damage
    assert lost == "store-1of3: the file is missing: its rows are lost"
    assert damaged.startswith("store-2of3: table 'users': some of its rows cannot be read")


def test_a_log_that_one_part_has_left_is_checked(path: Path) -> None:
    log = Path(f"{divided(path)[1]}-wal")
    log.write_bytes(b"x" * 5000)
    assert check_store(path, timeout=60).is_unclean


def test_a_store_that_does_not_say_how_many_parts_it_has_is_damaged(path: Path) -> None:
    divided(path)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("DELETE FROM part")
    check = check_store(path, timeout=60)
    assert check.damage == (f"{path} does not say how many parts the store has",)
