"""A store of several parts: what becomes of one of them does nothing to the others."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from keytables import (
    Attr,
    ConditionFailed,
    Engine,
    Item,
    Key,
    SchemaError,
    Table,
    TableNotFound,
    Throttled,
    Unavailable,
)
from keytables.sqlite import SqliteEngine, divide_store, open_sqlite, parted_table, parts
from keytables.sqlite.layout import part_of, part_path
from support.clocks import ManualClock
from support.paths import PYTHONPATH
from support.sqlite_store import select, write_lock

NOTES = Table("notes", Key("author"), Key("title"), expiry="expiry")
PARTS = 3

Open = Callable[..., Awaitable[Engine]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    divide_store(path, PARTS)
    return path


@pytest.fixture
async def open_store(path: Path, clock: ManualClock) -> AsyncIterator[Open]:
    async with AsyncExitStack() as opened:

        async def open_one(**options: Any) -> Engine:
            engine = await open_sqlite(path, **{"clock": clock, **options})
            opened.push_async_callback(engine.close)
            return engine

        yield open_one


def author_in(part: int, number: int = 0) -> str:
    """A partition key of that part."""
    found = (f"author {each}" for each in range(10_000) if part_of(f"author {each}", PARTS) == part)
    return [author for author, _ in zip(found, range(number + 1), strict=False)][number]


def note(part: int, title: str = "a", **more: Any) -> Item:
    return {"author": author_in(part), "title": title, **more}


def file_of(path: Path, part: int) -> Path:
    return Path(part_path(str(path), part, PARTS))


def opened_parts(path: Path) -> set[int]:
    """The parts whose logs this process has open."""
    open_files = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    return {part for part in range(PARTS) if f"{file_of(path, part)}-wal" in open_files}


@contextmanager
def locked_by_a_stopped_process(path: Path) -> Iterator[None]:
    """A process that is stopped in a commit, with all its locks."""
    program = (
        "import asyncio, sys, time; import apsw; from keytables import Key, Table\n"
        "from keytables.sqlite import open_sqlite\n"
        "def hold(): print('in a commit', flush=True); time.sleep(600)\n"
        "def hook(connection): connection.set_commit_hook(hold)\n"
        "async def main():\n"
        "    engine = await open_sqlite(sys.argv[1], own_parts={0})\n"
        "    table = await engine.ensure_table("
        "Table('notes', Key('author'), Key('title'), expiry='expiry'))\n"
        "    engine._parts[0].engine._database.writer.set_commit_hook(hold)\n"
        "    await table.put({'author': sys.argv[2], 'title': 'stopped'})\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, path, author_in(0)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in a commit\n"
        process.send_signal(signal.SIGSTOP)
        yield
    finally:
        process.kill()
        process.communicate()


# ── Which part ────────────────────────────────────────────────────────────────────────────────────


def test_the_part_of_a_key_is_the_same_in_every_process_and_version() -> None:
    keys: list[object] = ["a" * 32, "é", b"a" * 32, 7, -1, 0.5]
    assert [part_of(key, 1000) for key in keys] == [511, 326, 511, 346, 962, 469]
    assert part_of(1, 1000) == part_of(1.0, 1000)
    assert part_of(0, 1000) == part_of(-0.0, 1000)


async def test_all_rows_of_a_partition_are_in_the_file_of_its_part(
    path: Path, open_store: Open
) -> None:
    engine = await open_store()
    tables = [await engine.ensure_table(NOTES), await engine.ensure_table(Table("more", Key("a")))]
    assert engine.parts == PARTS
    for part in range(PARTS):
        assert engine.part_of(author_in(part)) == part
        await tables[0].put(note(part, "x"))
        await tables[0].put(note(part, "y"))
        await tables[1].put({"a": author_in(part)})
    await engine.close()
    for part in range(PARTS):
        file, author = file_of(path, part), author_in(part)
        assert select(file, 'SELECT p, s FROM "notes~1"') == [(author, "x"), (author, "y")]
        assert select(file, 'SELECT p FROM "more~2"') == [(author,)]


# ── Opening ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_process_opens_the_part_of_another_when_it_needs_it(
    path: Path, open_store: Open
) -> None:
    other = await open_store()
    await (await other.ensure_table(NOTES)).put(note(2))
    await other.close()
    engine = await open_store(own_parts={1})
    table = await engine.ensure_table(NOTES)
    assert [part in opened_parts(path) for part in range(PARTS)] == [False, True, False]
    assert await table.get((author_in(2), "a")) == note(2)
    await table.put(note(0))
    assert await table.get((author_in(0), "a")) == note(0)
    assert opened_parts(path) == {0, 1, 2}


async def test_writes_to_a_part_that_is_being_opened_are_kept_in_order(open_store: Open) -> None:
    engine = await open_store(own_parts={0})
    table = await engine.ensure_table(NOTES)
    item = note(1, n=1)
    first = table.put(item)
    item["n"] = 2
    second = table.put(item, condition=Attr("n").absent())
    third = table.delete((author_in(1), "a"))
    fourth = table.put({**item, "n": 3}, condition=Attr("n").absent())
    read = asyncio.ensure_future(table.query(author_in(1)))
    await asyncio.sleep(0)
    fifth = table.put(note(1, "b"))
    await first
    with pytest.raises(ConditionFailed) as failed:
        await second
    assert failed.value.item == note(1, n=1)
    await asyncio.gather(third, fourth, fifth)
    assert {item["title"]: item.get("n") for item in (await read).items}["a"] == 3
    assert await table.get((author_in(1), "b")) == note(1, "b")


async def test_a_write_whose_caller_does_not_wait_is_applied_before_the_engine_closes(
    open_store: Open,
) -> None:
    engine = await open_store(own_parts={0})
    table = await engine.ensure_table(NOTES)
    table.put(note(1))
    waiter = asyncio.ensure_future(table.put(note(1, "b")))
    waiter.cancel()
    await engine.close()
    with pytest.raises(Unavailable):
        await table.put(note(2))
    other = await (await open_store()).ensure_table(NOTES)
    assert [item["title"] for item in (await other.query(author_in(1))).items] == ["a", "b"]


async def test_writes_that_wait_for_a_part_are_bounded(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parted_table, "_MAX_WAITING", 3)
    table = await (await open_store(own_parts={0})).ensure_table(NOTES)
    writes = [table.put(note(1, str(number))) for number in range(5)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(result) for result in results] == [type(None)] * 3 + [Throttled] * 2
    monkeypatch.setattr(parted_table, "_MAX_WAITING_BYTES", 1000)
    large = table.put(note(2, text="x" * 1000))
    with pytest.raises(Throttled):
        await large


async def test_bad_writes_to_a_part_that_is_not_open_are_refused_as_ever(open_store: Open) -> None:
    table = await (await open_store(own_parts={0})).ensure_table(NOTES)
    for bad in (
        table.put(note(1, value=object())),
        table.put(note(1, value="\ud800")),
        table.put({"author": author_in(1)}),
        table.put({"title": "nobody's"}),
        table.delete((author_in(1),)),
        table.delete(()),
        table.batch_write(puts=[note(0), note(1), note(2, value=object())]),
        table.batch_write(puts=[note(0), note(1), note(1)]),
    ):
        with pytest.raises(SchemaError):
            await bad
    assert not (await table.scan()).items


async def test_a_missing_part_is_refused_and_nothing_else_is(path: Path, open_store: Open) -> None:
    file = file_of(path, 1)
    file.rename(path.with_name("elsewhere"))
    table = await (await open_store(own_parts={0})).ensure_table(NOTES)
    with pytest.raises(Unavailable, match=f"{file} is missing, part 1 of {PARTS}"):
        await table.put(note(1))
    await table.put(note(0))
    await table.put(note(2))
    with pytest.raises(Unavailable, match="is missing"):
        await open_store(own_parts={1})
    path.with_name("elsewhere").rename(file)
    await table.put(note(1))
    assert await table.get((author_in(1), "a")) == note(1)


async def test_a_part_of_another_store_is_refused(
    path: Path, tmp_path: Path, open_store: Open
) -> None:
    other = tmp_path / "other"
    divide_store(other, PARTS)
    os.replace(file_of(other, 1), file_of(path, 1))
    with pytest.raises(Unavailable, match="store-1of3 is not part 1 of 3 of its store"):
        await open_store()


async def test_the_first_file_alone_and_another_part_alone_are_refused(path: Path) -> None:
    with pytest.raises(Unavailable, match=f"{path} has {PARTS} parts"):
        await SqliteEngine.open(path)
    with pytest.raises(Unavailable, match=f"store-1of{PARTS} is part 1 of {PARTS} of a store"):
        await open_sqlite(file_of(path, 1))


async def test_the_disk_is_watched_by_every_process(open_store: Open) -> None:
    for own_parts in (None, {1}, ()):
        engine = await open_store(own_parts=own_parts, min_free_space=1 << 60)
        assert engine.is_nearly_full
        await engine.close()


# ── Tables ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_table_that_was_dropped_is_not_made_again_by_an_operation_on_another_part(
    open_store: Open,
) -> None:
    first, second = await open_store(), await open_store(own_parts={0})
    await first.ensure_table(NOTES)
    table = await second.ensure_table(NOTES)
    await first.drop_table("notes")
    for part in range(PARTS):
        with pytest.raises(TableNotFound):
            await table.put(note(part))
    assert await second.table_names() == []
    again = await second.ensure_table(NOTES)
    for part in range(PARTS):
        await again.put(note(part))


async def test_a_table_made_in_some_parts_before_a_crash_is_made_in_the_others(
    path: Path, open_store: Open
) -> None:
    own = await open_store(own_parts={1})
    await own.ensure_table(NOTES)
    await own.close()
    assert select(file_of(path, 0), "SELECT count(*) FROM catalog") == [(0,)]
    engine = await open_store()
    assert await engine.table_names() == ["notes"]
    table = await engine.ensure_table(NOTES)
    for part in range(PARTS):
        await table.put(note(part))
    with pytest.raises(SchemaError, match="exists with other keys"):
        await engine.ensure_table(Table("notes", Key("author")))


# ── Processes ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_process_that_is_stopped_with_the_lock_of_its_part_delays_nothing_in_another_part(
    path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for_ever, defaults = 60.0, SqliteEngine.open.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "lock_timeout", for_ever)
    monkeypatch.setattr(parts, "_LATE_OPENING_TIMEOUT", for_ever)
    table = await (await open_store(own_parts={1, 2})).ensure_table(NOTES)
    with locked_by_a_stopped_process(path):
        began = time.monotonic()
        await table.put(note(1))
        await table.put(note(2))
        engine = await open_store(own_parts={1, 2})  # as a process that is restarted
        again = await engine.ensure_table(NOTES)
        await again.put(note(1, "b"))
        await engine.ensure_table(Table("new", Key("a")))
        assert sorted(await engine.table_names()) == ["new", "notes"]
        assert await again.get((author_in(0), "stopped")) is None  # reads do not wait
        await engine.close()
        assert time.monotonic() - began < for_ever
    await table.put(note(0))  # its locks ended with it


async def test_a_table_is_made_where_it_can_be_and_elsewhere_when_that_part_is_free_again(
    path: Path, open_store: Open
) -> None:
    engine = await open_store()
    with write_lock(file_of(path, 2)):
        table = await engine.ensure_table(NOTES)
        await table.put(note(0))
        await table.put(note(1))
    await table.put(note(2))
    assert len((await table.scan()).items) == PARTS


async def test_a_table_that_can_be_made_nowhere_is_throttled(path: Path, open_store: Open) -> None:
    engine = await open_store(own_parts={2})
    with write_lock(file_of(path, 2)), pytest.raises(Throttled):
        await engine.ensure_table(NOTES)


async def test_every_process_sweeps_its_own_parts_only(
    path: Path, open_store: Open, clock: ManualClock
) -> None:
    everything = await open_store()
    table = await everything.ensure_table(NOTES)
    for part in range(PARTS):
        await table.put(note(part, expiry=int(clock()) + 1))
    await everything.close()
    engine = await open_store(own_parts={1})
    own = await engine.ensure_table(NOTES)
    assert await own.get((author_in(2), "a"))  # opens it
    sweepers = [
        part.engine is not None and part.engine._sweeper is not None
        for part in engine._parts  # type: ignore[attr-defined]
    ]
    assert sweepers == [False, True, False]
