"""The fault proxy injects what its plan says, and its records are right."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.fault_proxy import (
    NOT_APPLIED,
    NOT_DELIVERED,
    Call,
    Fault,
    FaultProxy,
    Message,
    always,
    randomly,
    read_message,
    script,
)
from support.stream_server import stream_server


@dataclass
class Database:
    """Responds to every call with its body; with status 400 to one that has `refuse`."""

    port: int = 0
    received: list[dict[str, Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_message(reader)) is not None:
            body = json.loads(request.body)
            self.received.append(body)
            status = 400 if body.get("refuse") else 200
            start = b"HTTP/1.1 %d OK" % status
            writer.write(bytes(Message(start, [(b"x-amz-crc32", b"1")], json.dumps(body).encode())))


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    found = Database()
    async with stream_server(found.serve) as (_, found.port):
        yield found


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(database.port) as started:
        yield started


class ProxyClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def call(self, operation: str, body: dict[str, Any] | None = None) -> Message | None:
        """The response; None: the connection was closed instead."""
        headers = [(b"X-Amz-Target", b"DynamoDB_20120810." + operation.encode())]
        content = json.dumps(body or {}).encode()
        self.writer.write(bytes(Message(b"POST / HTTP/1.1", headers, content)))
        return await read_message(self.reader)


@asynccontextmanager
async def connect(proxy: FaultProxy) -> AsyncIterator[ProxyClient]:
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    try:
        yield ProxyClient(reader, writer)
    finally:
        writer.close()


async def outcome(proxy: FaultProxy, operation: str, body: dict[str, Any] | None = None) -> str:
    """The result of a call on a connection of its own."""
    async with connect(proxy) as client:
        try:
            response = await client.call(operation, body)
        except (ConnectionResetError, asyncio.IncompleteReadError) as failure:
            return type(failure).__name__
        return "closed" if response is None else f"{response.status}"


async def test_without_a_plan_calls_pass_through_on_one_connection(
    proxy: FaultProxy, database: Database
) -> None:
    async with connect(proxy) as client:
        for number in range(3):
            response = await client.call("PutItem", {"number": number})
            assert response is not None
            assert (response.status, json.loads(response.body)) == (200, {"number": number})
    assert database.received == [{"number": number} for number in range(3)]
    assert [(served.call.body, served.delivered) for served in proxy.applied] == [
        ({"number": number}, True) for number in range(3)
    ]
    assert proxy.operations == {"PutItem": 3}
    assert proxy.faults == {Fault.NONE: 3}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.THROTTLED, "400"),
        (Fault.THROTTLED_GENERALLY, "400"),
        (Fault.ERROR, "500"),
        (Fault.UNAVAILABLE, "503"),
        (Fault.RESET, "ConnectionResetError"),
        (Fault.CLOSED, "closed"),
        (Fault.TRUNCATED, "IncompleteReadError"),
        (Fault.FALSE_ERROR, "500"),
        (Fault.DELAYED, "200"),
        (Fault.SLOW, "200"),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else value,
)
async def test_a_fault_is_for_one_call(
    proxy: FaultProxy, database: Database, fault: Fault, expected: str
) -> None:
    proxy.plan = script(fault)
    # What a reader gets for an RST depends on what it has received before.
    got = await outcome(proxy, "PutItem", {"number": 1})
    assert got == expected or {got, expected} <= {"IncompleteReadError", "ConnectionResetError"}
    assert len(database.received) == (0 if fault in NOT_APPLIED else 1)
    assert [served.delivered for served in proxy.applied] == (
        [] if fault in NOT_APPLIED else [fault not in NOT_DELIVERED]
    )
    assert proxy.faults == {fault: 1}
    assert await outcome(proxy, "PutItem", {"number": 2}) == "200"


async def test_without_a_response_the_proxy_waits_until_the_client_closes(
    proxy: FaultProxy, database: Database
) -> None:
    proxy.plan = script(Fault.NO_RESPONSE)
    async with connect(proxy) as client:
        waiting = asyncio.ensure_future(client.call("PutItem"))
        while not proxy.served:  # noqa: ASYNC110 - the proxy has no event for it
            await asyncio.sleep(0)
        assert not waiting.done()
        client.writer.close()
        assert await waiting is None
    assert [served.delivered for served in proxy.applied] == [False]


async def test_error_responses_are_delivered_where_they_are_spared(proxy: FaultProxy) -> None:
    proxy.plan, proxy.spare_error_responses = always(Fault.CLOSED), True
    assert await outcome(proxy, "PutItem", {"refuse": True}) == "400"
    assert await outcome(proxy, "PutItem", {}) == "closed"
    assert [served.status for served in proxy.served] == [400, 200]
    assert len(proxy.applied) == 1


@pytest.mark.parametrize(
    ("operation", "requests", "rest"),
    [
        ("BatchWriteItem", {"t": [1, 2, 3], "u": [4]}, {"t": [3]}),
        ("BatchGetItem", {"t": {"Keys": [1, 2], "Also": 5}}, {"t": {"Keys": [2], "Also": 5}}),
    ],
)
async def test_half_of_a_batch_is_unprocessed(
    proxy: FaultProxy, database: Database, operation: str, requests: Any, rest: Any
) -> None:
    proxy.plan = script(Fault.PARTIAL_BATCH)
    async with connect(proxy) as client:
        response = await client.call(operation, {"RequestItems": requests})
    assert response is not None
    assert response.header(b"x-amz-crc32") == b""
    (received,) = database.received
    left = json.loads(response.body)
    assert rest in (left.get("UnprocessedItems"), left.get("UnprocessedKeys"))
    for table, parts in requests.items():
        done, held = received["RequestItems"][table], rest.get(table, [])
        if operation == "BatchGetItem":
            parts, done, held = parts["Keys"], done["Keys"], held["Keys"]
        assert done + held == parts
    assert all(served.call.body == received for served in proxy.applied)


async def test_a_batch_of_one_is_never_partial(proxy: FaultProxy, database: Database) -> None:
    proxy.plan = always(Fault.PARTIAL_BATCH)
    body = {"RequestItems": {"t": [1]}}
    assert await outcome(proxy, "BatchWriteItem", body) == "200"
    assert database.received == [body]


async def test_a_stopped_proxy_refuses_and_resets_connections_until_it_is_started(
    proxy: FaultProxy,
) -> None:
    port = proxy.port
    async with connect(proxy) as client:
        assert await client.call("GetItem") is not None
        await proxy.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await client.reader.read()
    await proxy.start()
    assert proxy.port == port
    assert await outcome(proxy, "GetItem") == "200"


async def test_only_the_named_operation_gets_faults(proxy: FaultProxy) -> None:
    proxy.plan = script(Fault.ERROR, only="PutItem")
    assert await outcome(proxy, "GetItem") == "200"
    assert await outcome(proxy, "PutItem") == "500"
    assert await outcome(proxy, "PutItem") == "200"


def test_faults_are_the_same_for_the_same_seed() -> None:
    chances = {Fault.CLOSED: 0.2, Fault.RESET: 0.3}

    def faults(seed: int) -> list[Fault]:
        plan = randomly(chances, seed=seed)
        return [plan(Call(number, "PutItem", {})) for number in range(200)]

    assert faults(1) == faults(1) != faults(2)
    assert set(faults(1)) == {Fault.CLOSED, Fault.RESET, Fault.NONE}
