"""The engine: one sequence of writes for all handles of a table, dropping and closing."""

import asyncio
from typing import Any

import pytest

from keytables import Index, Key, SchemaError, Table
from keytables.dynamodb import DynamoEngine
from support.clocks import ManualClock
from support.fake_api_client import FakeApiClient, service_error

TABLE = Table("things", Key("a"))
DESCRIBED: dict[str, Any] = {
    "Table": {
        "TableStatus": "ACTIVE",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
    }
}


def engine(client: FakeApiClient, prefix: str = "x.") -> DynamoEngine:
    return DynamoEngine(client, prefix=prefix, clock=ManualClock())


async def run_scheduled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_name_that_is_too_long_with_the_prefix_is_refused() -> None:
    client = FakeApiClient()
    with pytest.raises(SchemaError):
        await engine(client, "x" * 250).ensure_table(TABLE)
    assert client.calls == []


async def test_handles_of_a_table_share_its_sequence_of_writes() -> None:
    extra = Table("things", Key("a"), indexes=(Index("by_a", Key("a")),))
    described = {"Table": {**DESCRIBED["Table"]}}
    described["Table"]["GlobalSecondaryIndexes"] = [
        {
            "IndexName": "by_a",
            "KeySchema": DESCRIBED["Table"]["KeySchema"],
            "Projection": {"ProjectionType": "ALL"},
        }
    ]
    client = FakeApiClient(described, described)
    store = engine(client)
    first, second = await store.ensure_table(TABLE), await store.ensure_table(extra)
    client.gate = asyncio.Event()
    put, delete = first.put({"a": "1"}), second.delete(("1",))
    await run_scheduled()
    assert client.operations[2:] == ["PutItem"]
    client.gate.set()
    await put
    await delete
    assert client.operations[2:] == ["PutItem", "DeleteItem"]


async def test_a_table_is_dropped_after_the_writes_to_it() -> None:
    client = FakeApiClient(DESCRIBED, {}, {}, service_error("ResourceNotFoundException"))
    store = engine(client)
    table = await store.ensure_table(TABLE)
    client.gate = asyncio.Event()
    put = table.put({"a": "1"})
    drop = asyncio.ensure_future(store.drop_table("things"))
    await run_scheduled()
    assert client.operations == ["DescribeTable", "PutItem"]
    client.gate.set()
    await drop
    await put
    assert client.operations == ["DescribeTable", "PutItem", "DeleteTable", "DescribeTable"]
