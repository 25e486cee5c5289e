"""Writes to one key that wait together: only the last is applied, and it answers for all."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from keytables import (
    Attr,
    ConditionFailed,
    Item,
    Key,
    Returning,
    Table,
    TableHandle,
    TableNotFound,
    Throttled,
    Unavailable,
    Update,
)
from keytables.sqlite import SqliteEngine
from keytables.sqlite.shared import again

OpenSqlite = Callable[..., Awaitable[SqliteEngine]]
TABLE = Table("things", Key("a"), Key("b"))
KEY = ("1", "1")


@pytest.fixture
async def engine(open_sqlite: OpenSqlite) -> SqliteEngine:
    return await open_sqlite()


@pytest.fixture
async def table(engine: SqliteEngine) -> TableHandle:
    return await engine.ensure_table(TABLE)


def put(table: TableHandle, value: int = 0, key: tuple[str, str] = KEY) -> Awaitable[None]:
    return table.put({"a": key[0], "b": key[1], "n": value})


def applied(engine: SqliteEngine) -> list[str]:
    """Return a list that grows with each write that is applied: "put" or "delete"."""
    seen: list[str] = []

    def trace(_: object, sql: str, values: object) -> bool:
        if sql.startswith(("INSERT", "DELETE")):
            seen.append("put" if sql.startswith("INSERT") else "delete")
        return True

    engine._database.writer.exec_trace = trace
    return seen


@pytest.mark.parametrize(
    ("writes", "expected"),
    [("pd", ["delete"]), ("pp", ["put"]), ("dp", ["put"]), ("ppdpd", ["delete"])],
)
async def test_only_the_last_of_writes_to_one_key_is_applied(
    engine: SqliteEngine, table: TableHandle, writes: str, expected: list[str]
) -> None:
    await put(table, -1)
    seen = applied(engine)
    waiting = [put(table, n) if w == "p" else table.delete(KEY) for n, w in enumerate(writes)]
    assert await asyncio.gather(*waiting) == [None] * len(writes)
    assert seen == expected
    last = {"a": "1", "b": "1", "n": len(writes) - 1}
    assert await table.get(KEY) == (last if writes[-1] == "p" else None)


async def test_without_a_sort_key_too(engine: SqliteEngine) -> None:
    table = await engine.ensure_table(Table("single", Key("a")))
    seen = applied(engine)
    await asyncio.gather(table.put({"a": "1", "n": 1}), table.delete(("1",)))
    assert seen == ["delete"]
    await asyncio.gather(table.put({"a": "1", "n": 1}), table.put({"a": "2", "n": 2}))
    assert seen == ["delete", "put", "put"]


async def test_none_of_them_is_answered_before_the_commit(
    engine: SqliteEngine, table: TableHandle
) -> None:
    writes = [asyncio.ensure_future(put(table)), asyncio.ensure_future(table.delete(KEY))]
    early: list[bool] = []

    def hook() -> bool:
        early.extend(write.done() for write in writes)
        return False

    engine._database.writer.set_commit_hook(hook)
    await writes[0]
    assert early == [False, False]
    assert writes[1].done()


@pytest.mark.parametrize(
    "between",
    [
        lambda table: table.put({"a": "1", "b": "1"}, condition=Attr("n") == 2),
        lambda table: table.delete(KEY, returning=Returning.OLD),
        lambda table: table.delete(KEY, condition=Attr("n") == 2),
        lambda table: table.update(KEY, Update(set={"n": 3})),
        lambda table: table.delete(("1", "other")),
    ],
    ids=["conditional put", "returning delete", "conditional delete", "update", "another key"],
)
async def test_another_operation_in_between_keeps_them_apart(
    engine: SqliteEngine, table: TableHandle, between: Callable[[TableHandle], Awaitable[Any]]
) -> None:
    seen = applied(engine)
    await asyncio.gather(put(table, 1), between(table), table.delete(KEY), return_exceptions=True)
    assert seen[0] == "put"
    assert seen[-1] == "delete"
    assert await table.get(KEY) is None


async def test_what_lies_in_between_sees_what_was_put(table: TableHandle) -> None:
    first = put(table, 1)
    old = table.delete(KEY, returning=Returning.OLD)
    second = put(table, 2)
    refused = table.delete(KEY, condition=Attr("n") == 1)
    third = put(table, 3)
    assert await old == {"a": "1", "b": "1", "n": 1}
    with pytest.raises(ConditionFailed) as caught:
        await refused
    assert caught.value.item == {"a": "1", "b": "1", "n": 2}
    for waiting in (first, second, third):
        await waiting
    assert await table.get(KEY) == {"a": "1", "b": "1", "n": 3}


async def test_what_is_applied_already_stays_so(engine: SqliteEngine, table: TableHandle) -> None:
    seen = applied(engine)
    first = put(table)
    while not seen:  # noqa: ASYNC110 - applied within a turn or two, committed later
        await asyncio.sleep(0)
    second = table.delete(KEY)
    await first
    await second
    assert seen == ["put", "delete"]
    assert await table.get(KEY) is None


async def test_a_failing_commit_fails_each_with_an_error_of_its_own(
    engine: SqliteEngine, table: TableHandle
) -> None:
    engine._database.writer.set_commit_hook(lambda: True)
    waiting = [put(table), table.delete(KEY), put(table)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
    assert len({id(outcome) for outcome in outcomes}) == 3
    engine._database.writer.set_commit_hook(None)
    assert await table.get(KEY) is None


async def test_they_count_as_waiting_until_they_are_answered(open_sqlite: OpenSqlite) -> None:
    engine = await open_sqlite(max_waiting=10, max_waiting_bytes=3000)
    table = await engine.ensure_table(TABLE)
    for _ in range(3):
        outcomes = await asyncio.gather(*(put(table) for _ in range(12)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None)] * 10 + [Throttled] * 2
    assert (engine._writer._count, engine._writer._bytes) == (0, 0)
    large: Item = {"a": "1", "b": "1", "data": "x" * 2500}
    # Only the last has to be kept.
    await asyncio.gather(*(table.put(large) for _ in range(5)))
    assert (engine._writer._count, engine._writer._bytes) == (0, 0)


async def test_a_wait_that_was_cancelled_disturbs_no_other(table: TableHandle) -> None:
    first, second = asyncio.ensure_future(put(table, 1)), asyncio.ensure_future(put(table, 2))
    first.cancel()
    await second
    assert await table.get(KEY) == {"a": "1", "b": "1", "n": 2}


async def test_puts_of_one_key_without_end_are_answered(table: TableHandle) -> None:
    newest: asyncio.Future[None]
    first: asyncio.Future[None] = asyncio.ensure_future(put(table))
    for n in range(10_000):
        newest = asyncio.ensure_future(put(table, n))
        await asyncio.sleep(0)
        if first.done():
            break
    assert first.done()
    await newest


def test_an_error_again_is_equal_and_another_one() -> None:
    for error in (TableNotFound("gone"), ConditionFailed({"a": 1}), Unavailable("disk")):
        own = again(error)
        assert own is not error
        assert type(own) is type(error)
        assert str(own) == str(error)
        assert own.__cause__ is error
        assert vars(own) == vars(error)
