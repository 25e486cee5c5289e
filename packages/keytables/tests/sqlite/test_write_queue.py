"""Of writes to one key that wait together, only the last is applied, and completes all."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from keytables import Attr, Index, Key, Kind, Returning, Table, TableHandle, Update
from keytables.sqlite import SqliteEngine
from support.sqlite_store import Connections

TABLE = Table("things", Key("a"), Key("b"))
KEY = ("1", "1")


@pytest.fixture
async def table(engine: SqliteEngine) -> TableHandle:
    return await engine.ensure_table(TABLE)


def put(table: TableHandle, value: int = 0, key: tuple[str, str] = KEY) -> Awaitable[None]:
    return table.put({"a": key[0], "b": key[1], "n": value})


def applied(connections: Connections) -> list[str]:
    """Return a list that grows with each write that is applied: "put" or "delete"."""
    seen: list[str] = []

    def trace(_: object, sql: str, values: object) -> bool:
        if sql.startswith(("INSERT", "DELETE")):
            seen.append("put" if sql.startswith("INSERT") else "delete")
        return True

    connections.writer.exec_trace = trace
    return seen


@pytest.mark.parametrize(
    ("writes", "expected"),
    [("pd", ["delete"]), ("pp", ["put"]), ("dp", ["put"]), ("ppdpd", ["delete"])],
)
async def test_only_the_last_of_writes_to_one_key_is_applied(
    connections: Connections, table: TableHandle, writes: str, expected: list[str]
) -> None:
    await put(table, -1)
    seen = applied(connections)
    waiting = [put(table, n) if w == "p" else table.delete(KEY) for n, w in enumerate(writes)]
    assert await asyncio.gather(*waiting) == [None] * len(writes)
    assert seen == expected
    last = {"a": "1", "b": "1", "n": len(writes) - 1}
    assert await table.get(KEY) == (last if writes[-1] == "p" else None)


async def test_without_a_sort_key_too(connections: Connections, engine: SqliteEngine) -> None:
    table = await engine.ensure_table(Table("single", Key("a")))
    seen = applied(connections)
    await asyncio.gather(table.put({"a": "1", "n": 1}), table.delete(("1",)))
    assert seen == ["delete"]
    await asyncio.gather(table.put({"a": "1", "n": 1}), table.put({"a": "2", "n": 2}))
    assert seen == ["delete", "put", "put"]


INDEXED = Table(
    "indexed", Key("a"), Key("b"), indexes=(Index("by-c", Key("c", Kind.NUMBER)),), expiry="x"
)


@pytest.mark.parametrize(
    ("update", "statement"),
    [
        (Update(set={"n": 2}), "UPDATE"),
        (Update(add_to={"s": frozenset(("one",))}, remove=("n",)), "UPDATE"),
        (Update(set={"n": 2, "c": 8}), "INSERT"),
        (Update(remove=("c",)), "INSERT"),
        (Update(set={"x": 5_000_000_000}), "INSERT"),
    ],
    ids=["set", "add and remove", "of an index", "removed from an index", "the expiry"],
)
async def test_an_update_that_names_no_column_writes_no_index(
    connections: Connections, engine: SqliteEngine, update: Update, statement: str
) -> None:
    table = await engine.ensure_table(INDEXED)
    await table.put({"a": "1", "b": "1", "c": 7, "n": 1, "x": 4_000_000_000})
    seen: list[str] = []

    def trace(_: object, sql: str, __: object) -> bool:
        seen.append(sql.partition(" ")[0])
        return True

    connections.writer.exec_trace = trace
    new = await table.update(KEY, update, returning=Returning.NEW)
    assert statement in seen
    assert {"UPDATE", "INSERT"} - set(seen) == {"UPDATE", "INSERT"} - {statement}
    assert new == await table.get(KEY)
    assert new is not None
    found = [item for c in (7, 8) for item in (await table.query_index("by-c", c)).items]
    assert found == ([new] if "c" in new else [])


async def test_an_update_of_an_absent_item_writes_a_whole_row(engine: SqliteEngine) -> None:
    table = await engine.ensure_table(INDEXED)
    await table.update(KEY, Update(set={"n": 2}))
    assert await table.get(KEY) == {"a": "1", "b": "1", "n": 2}


async def test_none_of_them_is_completed_before_the_commit(
    connections: Connections, table: TableHandle
) -> None:
    writes = [asyncio.ensure_future(put(table)), asyncio.ensure_future(table.delete(KEY))]
    early: list[bool] = []

    def hook() -> bool:
        early.extend(write.done() for write in writes)
        return False

    connections.writer.set_commit_hook(hook)
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
async def test_all_are_applied_if_another_operation_is_in_between(
    connections: Connections, table: TableHandle, between: Callable[[TableHandle], Awaitable[Any]]
) -> None:
    seen = applied(connections)
    await asyncio.gather(put(table, 1), between(table), table.delete(KEY), return_exceptions=True)
    assert seen[0] == "put"
    assert seen[-1] == "delete"
    assert await table.get(KEY) is None


async def test_a_write_that_is_applied_already_is_not_replaced(
    connections: Connections, table: TableHandle
) -> None:
    seen = applied(connections)
    first = put(table)
    while not seen:  # noqa: ASYNC110 - applied in one of the next iterations, committed later
        await asyncio.sleep(0)
    second = table.delete(KEY)
    await first
    await second
    assert seen == ["put", "delete"]
    assert await table.get(KEY) is None


async def test_endless_puts_of_one_key_are_completed(table: TableHandle) -> None:
    newest: asyncio.Future[None]
    first: asyncio.Future[None] = asyncio.ensure_future(put(table))
    for n in range(10_000):
        newest = asyncio.ensure_future(put(table, n))
        await asyncio.sleep(0)
        if first.done():
            break
    assert first.done()
    await newest
