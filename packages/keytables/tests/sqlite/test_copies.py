"""Copies of a store: complete, consistent, and put in place as a whole or not at all."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from keytables import Item, Key, Table, Unavailable
from keytables.engine import TableHandle
from keytables.sqlite import SqliteEngine, copies, database
from keytables.sqlite.locks import UsageLock
from support.pages import items_of
from support.paths import PYTHONPATH
from support.sqlite_store import OpenSqlite
from support.tools import run_captured

TABLE = Table("notes", Key("author"), Key("title"))
LARGE = "x" * 3000


async def notes_of(engine: SqliteEngine) -> TableHandle:
    return await engine.ensure_table(TABLE)


def note(number: int, text: str = LARGE) -> Item:
    return {"author": "ada", "title": f"{number:06}", "text": text}


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[TableHandle]:
    engine = await SqliteEngine.open(path)
    try:
        yield await notes_of(engine)
    finally:
        await engine.close()


def fill(path: Path, *numbers: int) -> None:
    async def fill() -> None:
        async with opened(path) as table:
            await asyncio.gather(*(table.put(note(number)) for number in numbers))

    asyncio.run(fill())


def notes(path: Path) -> dict[int, str]:
    """The numbers and texts of all notes in the store at that path."""

    async def read() -> dict[int, str]:
        async with opened(path) as table:
            items = await items_of(table.scan)
            return {int(str(item["title"])): str(item["text"]) for item in items}

    return asyncio.run(read())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy"


# ── Copying ───────────────────────────────────────────────────────────────────────────────────────


async def test_writers_go_on_while_a_copy_is_made_and_it_is_of_the_state_at_its_beginning(
    open_sqlite: OpenSqlite, path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "STEP_PAGES", 10)
    first, second = [await notes_of(await open_sqlite()) for _ in range(2)]
    await asyncio.gather(*(first.put(note(number)) for number in range(200)))
    loop = asyncio.get_running_loop()
    steps: list[int] = []

    async def write() -> None:
        # Both ways of changing pages that are not copied yet, and those that are.
        number = len(steps)
        await first.put(note(1000 + number))
        await second.put(note(number, "changed"))
        await second.delete(("ada", f"{199 - number:06}"))

    def on_progress(done: int, total: int) -> None:
        steps.append(total)
        if len(steps) <= 20:
            asyncio.run_coroutine_threadsafe(write(), loop).result(10)

    await asyncio.to_thread(copies.copy_store, path, target, on_progress=on_progress)
    assert len(steps) > 20
    assert len(set(steps)) == 1
    copies.check_copy(target)
    assert await asyncio.to_thread(notes, target) == dict.fromkeys(range(200), LARGE)
    assert await first.get(("ada", "000003")) == note(3, "changed")


def test_a_copy_is_one_private_file_and_reading_it_leaves_none_beside(
    path: Path, target: Path
) -> None:
    fill(path, 1)
    before = os.umask(0)
    try:
        copies.copy_store(path, target)
    finally:
        os.umask(before)
    copies.check_copy(target)
    assert [name.name for name in target.parent.glob("copy*")] == ["copy"]
    assert target.stat().st_mode & 0o777 == 0o600


def test_the_log_that_a_killed_process_left_is_copied_and_kept(path: Path, target: Path) -> None:
    program = (
        "import asyncio, os, signal, sys; from keytables import Key, Table\n"
        "from keytables.sqlite import SqliteEngine\n"
        "async def main():\n"
        "    engine = await SqliteEngine.open(sys.argv[1])\n"
        "    table = await engine.ensure_table(Table('notes', Key('author'), Key('title')))\n"
        "    await table.put({'author': 'ada', 'title': '000007', 'text': 'in the log'})\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, path],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    log = path.with_name("store-wal").read_bytes()
    assert log
    copies.copy_store(path, target)
    assert path.with_name("store-wal").read_bytes() == log
    assert notes(target) == notes(path) == {7: "in the log"}


def test_what_progress_raises_ends_the_copying_and_leaves_no_file(
    path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "STEP_PAGES", 1)
    fill(path, *range(50))

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copies.copy_store(path, target, on_progress=stop)
    assert not list(target.parent.glob("copy*"))


def test_a_full_disk_leaves_no_file(path: Path, target: Path) -> None:
    fill(path, *range(200))
    program = (
        "import sys; from keytables import Unavailable; from keytables.sqlite import copies\n"
        "try: copies.copy_store(*sys.argv[1:])\n"
        "except Unavailable as error: sys.exit(str(error))\n"
    )
    ended = run_captured(
        [sys.executable, "-c", program, path, target],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)),
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"cannot copy {path} to {target}: ")
    assert not list(target.parent.glob("copy*"))


def test_an_existing_file_is_not_overwritten(path: Path, target: Path) -> None:
    fill(path, 1)
    target.write_text("mine")
    with pytest.raises(Unavailable, match=r"cannot write .*copy: File exists"):
        copies.copy_store(path, target)
    assert target.read_text() == "mine"


def test_a_missing_store_is_not_created(path: Path, target: Path) -> None:
    with pytest.raises(Unavailable, match="there is no store at"):
        copies.copy_store(path, target)
    assert not path.exists()
    assert not target.exists()


def test_a_file_that_is_no_store_is_not_copied(path: Path, target: Path) -> None:
    path.write_bytes(b"not a database " * 1000)
    with pytest.raises(Unavailable, match="it is not a database"):
        copies.copy_store(path, target)
    path.write_bytes(b"")
    with pytest.raises(Unavailable, match="there is no store at"):
        copies.copy_store(path, target)
    assert not target.exists()


# ── Checking ──────────────────────────────────────────────────────────────────────────────────────


def test_a_damaged_copy_is_found(path: Path, target: Path) -> None:
    fill(path, *range(200))
    copies.copy_store(path, target)
    content = bytearray(target.read_bytes())
    content[40_000:44_000] = bytes(4_000)
    target.write_bytes(content)
    with pytest.raises(Unavailable, match=r"damaged|cannot read"):
        copies.check_copy(target)


def test_a_copy_that_ends_too_early_is_found(path: Path, target: Path) -> None:
    fill(path, *range(200))
    copies.copy_store(path, target)
    os.truncate(target, target.stat().st_size // 2)
    with pytest.raises(Unavailable, match=r"damaged|cannot read"):
        copies.check_copy(target)


@pytest.mark.parametrize("content", [b"", b"not a database " * 1000])
def test_a_file_that_is_no_store_is_no_copy(target: Path, content: bytes) -> None:
    target.write_bytes(content)
    with pytest.raises(Unavailable, match=r"empty|not a database"):
        copies.check_copy(target)


def test_a_copy_of_a_newer_version_is_refused(path: Path, target: Path) -> None:
    fill(path, 1)
    copies.copy_store(path, target)
    newer = apsw.Connection(str(target))
    newer.execute(f"PRAGMA user_version = {database.FILE_VERSION + 1}")
    newer.close()
    with pytest.raises(Unavailable, match="newer version"):
        copies.check_copy(target)


# ── Replacing ─────────────────────────────────────────────────────────────────────────────────────


def test_a_store_is_replaced_and_the_old_one_kept_with_its_log(
    path: Path, target: Path, tmp_path: Path
) -> None:
    fill(path, 1)
    copies.copy_store(path, target)
    fill(path, 2)
    path.with_name("store-wal").write_bytes(b"of the old file")
    copies.replace_store(path, target, keep_in=tmp_path / "kept")
    assert not path.with_name("store-wal").exists()
    assert notes(path).keys() == {1}
    assert (tmp_path / "kept/store-wal").read_bytes() == b"of the old file"
    assert notes(tmp_path / "kept/store").keys() == {1, 2}
    assert copies.check_copy(target) == ("notes",)


def test_a_store_is_put_where_there_is_none(path: Path, target: Path, tmp_path: Path) -> None:
    fill(path, 1)
    copies.copy_store(path, target)
    new = tmp_path / "elsewhere" / "store"
    new.parent.mkdir()
    copies.replace_store(new, target, keep_in=tmp_path / "kept")
    assert new.stat().st_mode & 0o777 == 0o600
    assert notes(new).keys() == {1}
    assert not (tmp_path / "kept").exists()


async def test_a_store_that_is_open_is_not_replaced(
    engine: SqliteEngine, path: Path, target: Path, tmp_path: Path
) -> None:
    table = await notes_of(engine)
    await table.put(note(1))
    await asyncio.to_thread(copies.copy_store, path, target)
    await table.put(note(2))
    with pytest.raises(Unavailable, match="in use"):
        copies.replace_store(path, target, keep_in=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    assert await table.get(("ada", "000002")) == note(2)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".store")]


def test_a_store_cannot_be_opened_or_copied_while_it_is_replaced(path: Path, target: Path) -> None:
    fill(path, 1)
    usage = UsageLock(str(path))
    assert usage.try_exclude()
    try:
        with pytest.raises(Unavailable, match="is being restored"):
            asyncio.run(SqliteEngine.open(path, opening_timeout=0))
        with pytest.raises(Unavailable, match="is being restored"):
            copies.copy_store(path, target)
    finally:
        usage.close()
    assert notes(path).keys() == {1}


def test_an_interrupted_replacement_is_noticed_until_it_is_repeated(
    path: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, 1)
    copies.copy_store(path, target)
    fill(path, 2)

    def lose_power(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", lose_power)
        with pytest.raises(KeyboardInterrupt):
            copies.replace_store(path, target, keep_in=tmp_path / "kept")
    with pytest.raises(Unavailable, match="interrupted: repeat it"):
        asyncio.run(SqliteEngine.open(path, opening_timeout=0))
    copies.replace_store(path, target, keep_in=tmp_path / "kept again")
    assert notes(path).keys() == {1}
    assert notes(tmp_path / "kept/store").keys() == {1, 2}


def test_what_cannot_be_kept_is_not_replaced(
    path: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(path, 1)
    copies.copy_store(path, target)
    fill(path, 2)

    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", no_links)
        with pytest.raises(Unavailable, match=r"cannot replace .*: Operation not permitted"):
            copies.replace_store(path, target, keep_in=tmp_path / "kept")
    assert notes(path).keys() == {1, 2}
    assert not (tmp_path / "kept").exists()
    assert not list(tmp_path.glob(".store*"))


def test_what_is_kept_already_is_not_touched(path: Path, target: Path, tmp_path: Path) -> None:
    fill(path, 1)
    copies.copy_store(path, target)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "store").write_text("kept before")
    with pytest.raises(Unavailable, match="File exists"):
        copies.replace_store(path, target, keep_in=kept)
    assert (kept / "store").read_text() == "kept before"
    assert notes(path).keys() == {1}
