"""The engine: one order of writes for all handles of a table, and an end to everything."""

import asyncio
from typing import Any

import pytest

from keytables import Index, Key, SchemaError, Table, Unavailable
from keytables.dynamodb import DynamoEngine
from support.clocks import ManualClock
from support.fake_caller import FakeCaller, verdict

TABLE = Table("things", Key("a"))
DESCRIBED: dict[str, Any] = {
    "Table": {
        "TableStatus": "ACTIVE",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
    }
}


def engine(caller: FakeCaller, prefix: str = "x.") -> DynamoEngine:
    return DynamoEngine(caller, prefix=prefix, clock=ManualClock())


async def turn() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_tables_of_a_store_have_its_prefix() -> None:
    caller = FakeCaller(DESCRIBED)
    table = await engine(caller).ensure_table(TABLE)
    await table.put({"a": "1"})
    assert [request["TableName"] for _, request in caller.calls] == ["x.things", "x.things"]


async def test_a_name_that_is_too_long_with_the_prefix_is_refused() -> None:
    caller = FakeCaller()
    with pytest.raises(SchemaError):
        await engine(caller, "x" * 250).ensure_table(TABLE)
    assert caller.calls == []


async def test_handles_of_one_table_share_one_order() -> None:
    extra = Table("things", Key("a"), indexes=(Index("by_a", Key("a")),))
    described = {"Table": {**DESCRIBED["Table"]}}
    described["Table"]["GlobalSecondaryIndexes"] = [
        {
            "IndexName": "by_a",
            "KeySchema": DESCRIBED["Table"]["KeySchema"],
            "Projection": {"ProjectionType": "ALL"},
        }
    ]
    caller = FakeCaller(described, described)
    store = engine(caller)
    first, second = await store.ensure_table(TABLE), await store.ensure_table(extra)
    caller.gate = asyncio.Event()
    put, delete = first.put({"a": "1"}), second.delete(("1",))
    await turn()
    assert caller.operations[2:] == ["PutItem"]
    caller.gate.set()
    await put
    await delete
    assert caller.operations[2:] == ["PutItem", "DeleteItem"]


async def test_a_table_is_dropped_after_the_writes_to_it() -> None:
    caller = FakeCaller(DESCRIBED, {}, {}, verdict("ResourceNotFoundException"))
    store = engine(caller)
    table = await store.ensure_table(TABLE)
    caller.gate = asyncio.Event()
    put = table.put({"a": "1"})
    drop = asyncio.ensure_future(store.drop_table("things"))
    await turn()
    assert caller.operations == ["DescribeTable", "PutItem"]
    caller.gate.set()
    await drop
    await put
    assert caller.operations == ["DescribeTable", "PutItem", "DeleteTable", "DescribeTable"]


async def test_close_waits_for_the_writes_submitted_and_takes_no_more() -> None:
    caller = FakeCaller(DESCRIBED)
    store = engine(caller)
    table = await store.ensure_table(TABLE)
    caller.gate = asyncio.Event()
    put = table.put({"a": "1"})
    close = asyncio.ensure_future(store.close())
    await turn()
    assert not close.done()
    with pytest.raises(Unavailable):
        await table.put({"a": "2"})
    caller.gate.set()
    await close
    await put
    assert caller.operations == ["DescribeTable", "PutItem", "close"]
