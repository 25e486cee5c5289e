"""A full disk: what is refused, what goes on, and how it heals."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from keytables import Key, KeytablesError, Param, StorageFull, Table, TableHandle, Update
from keytables.sqlite import SqliteEngine
from keytables.sqlite.space import CHUNK, RESERVE, FileSpace
from support.clocks import ManualClock
from support.small_disk import fill, small_disk
from support.sqlite_store import Connections, OpenSqlite

MESSAGES = Table("messages", Key("user"), Key("id"), expiry="end")
USERS = Table("users", Key("user"))
DISK = 40 << 20
BODY = "x" * 4000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK) as folder:
        yield folder


@pytest.fixture
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The store is on the small disk, if the test has one."""
    folder: Path = tmp_path
    if "disk" in request.fixturenames:
        folder = request.getfixturevalue("disk")
    return folder / "store"


async def store_until_full(messages: TableHandle, clock: ManualClock) -> int:
    """Store messages that live for 100 seconds until one is refused; return how many are stored."""
    stored = 0
    while True:
        puts = [
            messages.put({"user": "1", "id": f"{n:06}", "data": BODY, "end": clock.now + 100})
            for n in range(stored, stored + 50)
        ]
        results = await asyncio.gather(*puts, return_exceptions=True)
        stored += results.count(None)
        if any(results):
            assert {type(result) for result in results} <= {StorageFull, type(None)}
            return stored


async def use_as_a_service(users: TableHandle, messages: TableHandle) -> None:
    """What has to go on while new messages are refused."""
    numbers = range(300)
    set_seen = Update(set={"seen": Param("now")})
    await asyncio.gather(*(users.update((f"{n}",), set_seen, {"now": n}) for n in numbers))
    await asyncio.gather(*(users.put({"user": f"new {n}", "data": "y" * 200}) for n in numbers))
    await asyncio.gather(*(messages.delete(("1", f"{n:06}")) for n in numbers))


async def until(engine: SqliteEngine, *, nearly_full: bool) -> None:
    while engine.is_nearly_full != nearly_full:  # noqa: ASYNC110 - nothing tells of free space
        await asyncio.sleep(0.05)


async def tables(engine: SqliteEngine) -> tuple[TableHandle, TableHandle]:
    return await engine.ensure_table(USERS), await engine.ensure_table(MESSAGES)


async def test_a_full_disk_refuses_messages_and_heals_when_they_expire(
    disk: Path, open_sqlite: OpenSqlite, clock: ManualClock
) -> None:
    heard: list[KeytablesError] = []
    engine = await open_sqlite(on_failure=heard.append)
    users, messages = await tables(engine)
    await asyncio.gather(*(users.put({"user": f"{n}", "data": "y" * 200}) for n in range(300)))
    stored = await store_until_full(messages, clock)
    assert {type(error) for error in heard} == {StorageFull}
    fill(disk)
    await use_as_a_service(users, messages)
    with pytest.raises(StorageFull):
        await asyncio.gather(
            *(messages.put({"user": "2", "id": f"{n}", "data": BODY * 9}) for n in range(600))
        )
    clock.advance(200)
    assert await engine.sweep() == stored - 300
    end = clock.now + 100
    await asyncio.gather(
        *(messages.put({"user": "3", "id": f"{n}", "data": BODY, "end": end}) for n in range(300))
    )
    assert len((await messages.query("3")).items) > 0


async def test_a_store_opens_on_a_full_disk_and_heals_there(
    disk: Path, path: Path, open_sqlite: OpenSqlite, clock: ManualClock
) -> None:
    first = await open_sqlite()
    users, messages = await tables(first)
    await asyncio.gather(*(users.put({"user": f"{n}", "data": "y" * 200}) for n in range(300)))
    stored = await store_until_full(messages, clock)
    await first.close()
    other = fill(disk)
    engine = await open_sqlite()
    fill(disk)  # what the reserve gave back
    await use_as_a_service(*await tables(engine))
    clock.advance(200)
    assert await engine.sweep() == stored - 300
    other.unlink()
    await engine.close()
    assert os.stat(f"{path}-reserve").st_size == RESERVE


async def test_it_is_nearly_full_below_the_watermark_until_there_is_more_than_that(
    disk: Path, open_sqlite: OpenSqlite
) -> None:
    engine = await open_sqlite(min_free_space=DISK // 2)
    await until(engine, nearly_full=False)
    other = disk / "other"
    other.write_bytes(bytes(DISK // 2))
    await until(engine, nearly_full=True)
    os.truncate(other, DISK // 2 - (DISK // 12))  # more than the minimum, less than above it
    await asyncio.sleep(1.5)
    assert engine.is_nearly_full
    other.unlink()
    await until(engine, nearly_full=False)


async def test_without_a_watermark_a_full_disk_is_found_when_asked_for(
    disk: Path, open_sqlite: OpenSqlite, clock: ManualClock
) -> None:
    engine = await open_sqlite()
    _, messages = await tables(engine)
    await engine.check_space()
    await store_until_full(messages, clock)
    with pytest.raises(StorageFull):
        await engine.check_space()
    assert not engine.is_nearly_full
    clock.advance(200)
    await engine.sweep()
    await engine.check_space()


async def test_deleted_messages_count_as_free_space(
    disk: Path, open_sqlite: OpenSqlite, clock: ManualClock
) -> None:
    engine = await open_sqlite(min_free_space=8 << 20)
    _, messages = await tables(engine)
    await store_until_full(messages, clock)
    await until(engine, nearly_full=True)
    clock.advance(200)
    await engine.sweep()
    await until(engine, nearly_full=False)


async def test_without_a_watermark_it_is_never_nearly_full(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: pytest.fail("nobody asked"))
    assert not engine.is_nearly_full
    await asyncio.sleep(0)


async def test_the_file_has_room_for_all_that_is_committed_also_after_a_checkpoint(
    open_sqlite: OpenSqlite, connections: Connections, path: Path
) -> None:
    _, messages = await tables(await open_sqlite())
    for n in range(20):
        await asyncio.gather(
            *(messages.put({"user": "1", "id": f"{n} {m}", "data": BODY}) for m in range(50))
        )
        needed = connections.reader.execute("PRAGMA page_count").get * 4096
        assert os.stat(path).st_size >= needed
        if n % 5 == 0:
            connections.reader.wal_checkpoint()
            assert os.stat(path).st_size % CHUNK == 0
    assert needed > CHUNK


async def test_a_large_write_is_refused_without_the_reserve_and_a_small_one_is_not(
    open_sqlite: OpenSqlite, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_sqlite()
    users, messages = await tables(engine)
    real = os.statvfs(path.parent)
    full = SimpleNamespace(f_bavail=0, f_frsize=real.f_frsize)
    os.truncate(f"{path}-reserve", 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: full)
        puts = [messages.put({"user": "1", "id": f"{n}", "data": BODY}) for n in range(400)]
        results = await asyncio.gather(*puts, users.put({"user": "1"}), return_exceptions=True)
    assert {type(result) for result in results[:-1]} == {StorageFull}
    assert results[-1] is None
    await asyncio.gather(
        *(messages.put({"user": "1", "id": f"{n}", "data": BODY}) for n in range(400))
    )
    assert os.stat(f"{path}-reserve").st_size == RESERVE


def test_a_reserve_that_cannot_be_made_for_another_reason_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = FileSpace(str(tmp_path / "store"))

    def refuse(*_: object) -> None:
        raise PermissionError(1, "not here")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert space.make_reserve()
    assert os.stat(tmp_path / "store-reserve").st_size == 0
