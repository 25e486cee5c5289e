"""A store is divided and merged as a whole or not at all, and loses nothing."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keytables import Engine, Index, Item, Key, Kind, Range, StorageFull, Table, Unavailable
from keytables.sqlite import (
    SqliteEngine,
    copies,
    database,
    divide_store,
    division,
    layout,
    open_sqlite,
)
from keytables.sqlite.layout import count_parts, part_files, store_files
from keytables.sqlite.locks import UsageLock
from support import forked
from support.pages import items_of
from support.soak import slow
from support.sqlite_store import select

NOTES = Table(
    "notes",
    Key("author"),
    Key("title"),
    indexes=(Index("by_length", Key("kind"), Key("length", Kind.NUMBER)),),
    expiry="expiry",
)
NUMBERS = Table("numbers", Key("number", Kind.NUMBER))
BLOBS = Table("blobs", Key("blob", Kind.BINARY))
TABLES = (NOTES, NUMBERS, BLOBS)


def rows_of(table: Table) -> list[Item]:
    if table is NUMBERS:
        return [{"number": number} for number in (*range(-20, 20), 0.5, 1e-9)]
    if table is BLOBS:
        return [
            {"blob": bytes([number, 255 - number]), "set": frozenset({"a"})} for number in range(50)
        ]
    notes: list[Item] = [
        {"author": f"ada {number % 40}", "title": f"{number}", "kind": "k", "length": number}
        for number in range(1500)
    ]
    for item in notes[::3]:
        item["expiry"] = 4_000_000_000
    return notes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


Content = dict[str, list[str]]
"""The items of each table, in a form that can be sorted and compared."""


def comparable(items: list[Item]) -> list[str]:
    return sorted(repr(sorted(item.items())) for item in items)


async def _fill(path: Path) -> Content:
    engine = await open_sqlite(path)
    for table in TABLES:
        await (await engine.ensure_table(table)).batch_write(puts=rows_of(table))
    await engine.close()
    return {table.name: comparable(rows_of(table)) for table in TABLES}


async def _all_items(engine: Engine, table: Table) -> list[Item]:
    return await items_of((await engine.open_table(table)).scan)


async def _content(path: Path) -> Content:
    engine = await open_sqlite(path)
    try:
        found = {table.name: comparable(await _all_items(engine, table)) for table in TABLES}
        index = await (await engine.open_table(NOTES)).query_index(
            "by_length", "k", sort=Range(ge=1490)
        )
        assert [item["length"] for item in index.items] == list(range(1490, 1500))
        assert await engine.table_names() == sorted(table.name for table in TABLES)
        return found
    finally:
        await engine.close()


def fill(path: Path) -> Content:
    return asyncio.run(_fill(path))


def content_of(path: Path) -> Content:
    return asyncio.run(_content(path))


@contextmanager
def in_use(path: Path) -> Iterator[None]:
    usage = UsageLock(str(path))
    assert usage.try_share()
    try:
        yield
    finally:
        usage.close()


def test_a_store_is_divided_and_merged_with_all_that_is_in_it(path: Path) -> None:
    content = fill(path)
    for before, parts in [(1, 4), (4, 2), (2, 3), (3, 1)]:
        done = divide_store(path, parts)
        assert done is not None
        assert (done.before, done.parts) == (before, parts)
        assert done.rows == sum(map(len, content.values()))
        assert len(store_files(str(path))) == parts
        assert content_of(path) == content
        assert {file.parts for file in part_files(str(path))} <= {parts}
    assert divide_store(path, 1) is None


def test_a_merged_store_is_a_file_as_before_parts(path: Path) -> None:
    fill(path)
    [before] = (select(path, "PRAGMA user_version"),)
    divide_store(path, 4)
    assert select(path, "PRAGMA user_version") != before
    divide_store(path, 1)
    assert select(path, "PRAGMA user_version") == before
    assert ("part",) not in select(path, "SELECT name FROM sqlite_schema")
    assert not part_files(str(path))


def test_a_new_store_is_made_in_parts_at_once(path: Path) -> None:
    assert divide_store(path, 1) is None
    assert not path.exists()
    done = divide_store(path, 3)
    assert done is not None
    assert (done.before, done.rows) == (1, 0)
    assert count_parts(str(path)) == 3
    assert path.stat().st_mode & 0o777 == 0o600
    assert {file.path.stat().st_mode & 0o777 for file in part_files(str(path))} == {0o600}


def test_a_store_that_is_open_is_not_divided(path: Path) -> None:
    content = fill(path)
    with in_use(path), pytest.raises(Unavailable, match="store is in use"):
        divide_store(path, 2)
    assert not part_files(str(path))
    assert content_of(path) == content


def test_a_store_is_not_divided_without_space_for_the_new_files(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = fill(path)
    monkeypatch.setattr(division, "free_space", lambda _: 8_000_000)
    with pytest.raises(StorageFull, match=r"\d+ MB have to be free .*, there are 8"):
        divide_store(path, 2)
    assert not part_files(str(path))
    assert content_of(path) == content


def test_what_progress_raises_ends_it_and_leaves_the_old_store(path: Path) -> None:
    content = fill(path)

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        divide_store(path, 2, on_progress=stop)
    assert {file.name for file in path.parent.iterdir() if "of" in file.name} == set()
    assert content_of(path) == content


def test_an_interrupted_restore_is_repeated_first(path: Path) -> None:
    fill(path)
    usage = UsageLock(str(path))
    usage.mark()
    with pytest.raises(Unavailable, match=r"a restore of .* was interrupted: repeat it"):
        divide_store(path, 2)
    usage.clear_mark()
    usage.close()


def test_parts_without_their_first_file_are_neither_removed_nor_forgotten(path: Path) -> None:
    content = fill(path)
    divide_store(path, 3)
    path.rename(path.with_name("moved"))
    for attempt in (lambda: asyncio.run(open_sqlite(path)), lambda: divide_store(path, 2)):
        with pytest.raises(Unavailable, match=r"store-1of3 is part of a store.*put back the file"):
            attempt()
    path.with_name("moved").rename(path)
    assert content_of(path) == content


async def test_a_process_that_opens_a_store_while_it_is_divided_gets_the_new_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await SqliteEngine.open(path)
    await engine.ensure_table(NUMBERS)
    await engine.close()
    loop = asyncio.get_running_loop()
    opening: list[asyncio.Task[Engine]] = []
    is_waiting = asyncio.Event()

    open_real = database.open_usage_lock

    def open_usage_lock(path: str) -> UsageLock:
        try:
            return open_real(path)
        except database.StoreLocked:
            loop.call_soon_threadsafe(is_waiting.set)
            raise

    async def begin() -> None:
        opening.append(loop.create_task(open_sqlite(path)))
        await is_waiting.wait()

    def on_begin(parts: int) -> None:
        assert parts == 1
        asyncio.run_coroutine_threadsafe(begin(), loop).result(10)

    monkeypatch.setattr(database, "open_usage_lock", open_usage_lock)
    await asyncio.to_thread(divide_store, path, 3, on_begin=on_begin)
    assert is_waiting.is_set()
    opened = await opening[0]
    assert opened.parts == 3
    await opened.close()


_DIVIDING = """
import os, signal
from keytables.sqlite import divide_store
left = {step}
def killing(function):
    def called(*args, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **options)
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return called
for name in ("fsync", "fdatasync", "rename", "unlink", "open", "close"):
    setattr(os, name, killing(getattr(os, name)))
divide_store({path!r}, {parts})
"""


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends"])
def test_files_that_another_process_makes_meanwhile_are_those_of_its_division(
    path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    mark = layout.DivisionMark(str(path))
    new = path.with_name(f"{path.name}-0of2")

    def found_during_a_division(_: str) -> list[layout.PartFile]:
        monkeypatch.undo()
        mark.set()
        new.touch()
        files = part_files(str(path))
        if ends:
            new.unlink()  # renamed
            mark.complete()
        return files

    monkeypatch.setattr(layout, "part_files", found_during_a_division)
    layout.check_part_files(str(path))
    assert mark.exists() != ends


@pytest.mark.parametrize(("before", "parts"), [(1, 2), slow(3, 2), slow(2, 1)])
def test_a_kill_at_any_step_leaves_the_old_store_or_the_new_one(
    path: Path, before: int, parts: int
) -> None:
    content = fill(path)
    divide_store(path, before)
    seen: set[int] = set()
    for step in range(0, 10_000, 3):  # in turn before and after a call, of two in three
        ended = forked.run(program=_DIVIDING.format(path=str(path), parts=parts, step=step))
        found = count_parts(str(path))
        seen.add(found)
        assert content_of(path) == content
        # Opening it has removed what was left.
        assert not path.with_name("store-division").exists()
        assert all(file.is_of(found) for file in part_files(str(path)))
        assert not path.with_name(f"store-0of{parts}").exists()
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
        divide_store(path, before)
    assert seen == {before, parts}


# ── Copies of a store in parts ────────────────────────────────────────────────────────────────────


def test_a_copy_of_a_store_in_parts_is_one_file_with_all_of_it(path: Path, tmp_path: Path) -> None:
    content = fill(path)
    divide_store(path, 3)
    progress: list[tuple[int, int]] = []
    copies.copy_store(path, tmp_path / "copy", on_progress=lambda *now: progress.append(now))
    assert sorted(copies.check_copy(tmp_path / "copy")) == sorted(content)
    assert progress[-1][0] == progress[-1][1]
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    assert content_of(tmp_path / "copy") == content
    with pytest.raises(Unavailable, match="is one part of a store"):
        copies.check_copy(path)


async def test_a_copy_of_parts_has_what_was_committed_before_and_no_writer_waits(
    path: Path, tmp_path: Path
) -> None:
    await asyncio.to_thread(divide_store, path, 3)
    engine = await open_sqlite(path)
    table = await engine.ensure_table(NUMBERS)
    await table.batch_write(puts=[{"number": number} for number in range(3000)])
    loop = asyncio.get_running_loop()
    written: list[int] = []

    def on_progress(done: int, total: int) -> None:
        number = 10_000 + len(written)
        asyncio.run_coroutine_threadsafe(_put(number), loop).result(10)
        written.append(number)

    async def _put(number: int) -> None:
        await table.put({"number": number})

    await asyncio.to_thread(copies.copy_store, path, tmp_path / "copy", on_progress=on_progress)
    await engine.close()
    assert len(written) > 3
    copy = await SqliteEngine.open(tmp_path / "copy")
    numbers = sorted(int(str(item["number"])) for item in await _all_items(copy, NUMBERS))
    await copy.close()
    assert numbers == list(range(3000))


def test_a_store_in_parts_is_replaced_as_a_whole_and_kept(path: Path, tmp_path: Path) -> None:
    content = fill(path)
    copies.copy_store(path, tmp_path / "copy")
    divide_store(path, 3)
    asyncio.run(_empty(path))
    copies.replace_store(path, tmp_path / "copy", keep_in=tmp_path / "kept")
    assert not part_files(str(path))
    assert content_of(path) == content
    assert count_parts(str(tmp_path / "kept" / "store")) == 3
    assert asyncio.run(_count(tmp_path / "kept" / "store")) == 0


async def _empty(path: Path) -> None:
    engine = await open_sqlite(path)
    for table in TABLES:
        await engine.drop_table(table.name)
        await engine.ensure_table(table)
    await engine.close()


async def _count(path: Path) -> int:
    engine = await open_sqlite(path)
    count = sum([len(await _all_items(engine, table)) for table in TABLES])
    await engine.close()
    return count
