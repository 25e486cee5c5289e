"""ensure_table, drop_table, table_names, close."""

import asyncio
import time

import pytest

from keytables import Engine, Index, Key, Kind, SchemaError, Table, TableNotFound, Unavailable
from support.cases import cases
from support.table_engines import Open

TABLE = Table("things", Key("a"), Key("b"))


async def test_tables_are_listed_by_name(engine: Engine) -> None:
    assert await engine.table_names() == []
    for name in ("message_2026_02", "router", "message_2026_01"):
        await engine.ensure_table(Table(name, Key("a")))
    assert await engine.table_names() == ["message_2026_01", "message_2026_02", "router"]


async def test_an_existing_table_can_be_opened(engine: Engine) -> None:
    table = await engine.ensure_table(TABLE)
    await table.put({"a": "1", "b": "2"})
    opened = await engine.open_table(TABLE)
    assert opened.table == TABLE
    assert await opened.get(("1", "2")) is not None


async def test_opening_creates_no_table(engine: Engine) -> None:
    with pytest.raises(TableNotFound) as caught:
        await engine.open_table(TABLE)
    assert caught.value.table == "things"
    assert await engine.table_names() == []


async def test_a_table_with_other_keys_is_not_opened(engine: Engine) -> None:
    await engine.ensure_table(Table("things", Key("a"), Key("c")))
    with pytest.raises(SchemaError):
        await engine.open_table(TABLE)


async def test_handles_of_one_table_see_each_others_writes(engine: Engine) -> None:
    first, second = await engine.ensure_table(TABLE), await engine.ensure_table(TABLE)
    put = first.put({"a": "1", "b": "2"})
    assert await second.get(("1", "2")) is not None
    await put


@pytest.mark.parametrize(
    "other",
    [
        Table("things", Key("a")),
        Table("things", Key("a"), Key("c")),
        Table("things", Key("a"), Key("b", Kind.NUMBER)),
        pytest.param(
            Table("things", Key("a"), Key("b"), expiry="x"),
            marks=pytest.mark.needs("refusing a later expiry"),
        ),
        Table("things", Key("a"), Key("b"), indexes=(Index("by_c", Key("c")),)),
    ],
    ids=["no sort key", "other sort key", "other kind", "expiry", "index"],
)
async def test_a_different_declaration_is_refused(engine: Engine, other: Table) -> None:
    await engine.ensure_table(TABLE)
    with pytest.raises(SchemaError):
        await engine.ensure_table(other)


@cases(
    "other",
    [
        Index("by_c", Key("c"), Key("e")),
        Index("by_c", Key("c", Kind.NUMBER)),
        Index("by_c", Key("c"), keys_only=True),
    ],
)
async def test_a_different_index_is_refused(engine: Engine, other: Index) -> None:
    await engine.ensure_table(Table("things", Key("a"), indexes=(Index("by_c", Key("c")),)))
    with pytest.raises(SchemaError):
        await engine.ensure_table(Table("things", Key("a"), indexes=(other,)))


@pytest.mark.needs("time to live")
async def test_a_different_expiry_is_refused(engine: Engine) -> None:
    await engine.ensure_table(Table("things", Key("a"), expiry="x"))
    await engine.ensure_table(Table("things", Key("a"), expiry="x"))
    with pytest.raises(SchemaError):
        await engine.ensure_table(Table("things", Key("a"), expiry="y"))


async def test_the_order_of_indexes_does_not_matter(engine: Engine) -> None:
    first, second = Index("by_c", Key("c")), Index("by_d", Key("d"))
    await engine.ensure_table(Table("things", Key("a"), indexes=(first, second)))
    table = await engine.ensure_table(Table("things", Key("a"), indexes=(second, first)))
    await table.put({"a": "1", "c": "2", "d": "3"})
    assert len((await table.query_index("by_c", "2")).items) == 1
    assert len((await table.query_index("by_d", "3")).items) == 1


async def test_tables_of_one_store_do_not_mix(engine: Engine) -> None:
    tables = [await engine.ensure_table(Table(name, Key("a"))) for name in ("one", "ONE", "one.1")]
    for number, table in enumerate(tables):
        await table.put({"a": "k", "n": number})
    assert [await table.get(("k",)) for table in tables] == [
        {"a": "k", "n": number} for number in range(3)
    ]


async def test_two_processes_may_create_a_table_at_once(open_engine: Open) -> None:
    engines = [await open_engine() for _ in range(3)]
    handles = await asyncio.gather(*(engine.ensure_table(TABLE) for engine in engines))
    for number, handle in enumerate(handles):
        await handle.put({"a": "1", "b": str(number)})
    for handle in handles:
        assert len((await handle.query("1")).items) == 3


async def test_dropping_a_table_removes_its_items(engine: Engine) -> None:
    table = await engine.ensure_table(TABLE)
    await table.batch_write(puts=[{"a": str(number), "b": "x"} for number in range(333)])
    await engine.drop_table("things")
    assert await engine.table_names() == []
    with pytest.raises(TableNotFound):
        await table.get(("1", "x"))
    with pytest.raises(TableNotFound):
        await table.put({"a": "1", "b": "x"})
    again = await engine.ensure_table(TABLE)
    assert (await again.scan()).items == []


async def test_a_missing_table_can_be_dropped(engine: Engine) -> None:
    await engine.drop_table("nothing")


async def test_a_dropped_table_may_be_created_with_another_declaration(engine: Engine) -> None:
    await engine.ensure_table(TABLE)
    await engine.drop_table("things")
    table = await engine.ensure_table(Table("things", Key("n", Kind.NUMBER)))
    await table.put({"n": 1})
    assert await table.get((1,)) == {"n": 1}


async def test_close_waits_for_the_submitted_writes(open_engine: Open) -> None:
    first, second = await open_engine(), await open_engine()
    table = await first.ensure_table(TABLE)
    writes = [table.put({"a": "1", "b": str(number)}) for number in range(100)]
    await first.close()
    assert all(write.done() for write in map(asyncio.ensure_future, writes))
    assert len((await (await second.ensure_table(TABLE)).query("1")).items) == 100


async def test_a_closed_engine_is_unavailable(engine: Engine) -> None:
    table = await engine.ensure_table(TABLE)
    await engine.close()
    await engine.close()
    with pytest.raises(Unavailable):
        await table.get(("1", "2"))
    with pytest.raises(Unavailable):
        await table.put({"a": "1", "b": "2"})
    with pytest.raises(Unavailable):
        await table.query("1")
    with pytest.raises(Unavailable):
        await engine.table_names()


async def test_processes_see_each_others_writes(open_engine: Open) -> None:
    first = await (await open_engine()).ensure_table(TABLE)
    second = await (await open_engine()).ensure_table(TABLE)
    await first.put({"a": "1", "b": "2"})
    assert await second.get(("1", "2")) is not None
    await second.delete(("1", "2"))
    assert await first.get(("1", "2")) is None


async def test_a_clock_is_compared_with_that_of_the_database_if_it_has_one(engine: Engine) -> None:
    behind = await engine.clock_difference(lambda: time.time() - 600)
    assert behind == 0.0 or 500 < behind < 700
