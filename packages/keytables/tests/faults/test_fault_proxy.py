"""The fault proxy does what its plan says, and its books are right."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.fault_http import Message, read_message
from support.fault_proxy import (
    UNDONE,
    UNTOLD,
    Call,
    Fault,
    FaultProxy,
    always,
    randomly,
    script,
)


@dataclass
class Database:
    """Answers every call with its body; one that asks for it, with a refusal."""

    port: int = 0
    seen: list[dict[str, Any]] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_message(reader)) is not None:
            body = json.loads(request.body)
            self.seen.append(body)
            status = 400 if body.get("refuse") else 200
            start = b"HTTP/1.1 %d OK" % status
            writer.write(bytes(Message(start, [(b"x-amz-crc32", b"1")], json.dumps(body).encode())))
        writer.close()


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    found = Database()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(database.port) as started:
        yield started


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def call(self, operation: str, body: dict[str, Any] | None = None) -> Message | None:
        """The answer; None: the connection was closed in its place."""
        headers = [(b"X-Amz-Target", b"DynamoDB_20120810." + operation.encode())]
        content = json.dumps(body or {}).encode()
        self.writer.write(bytes(Message(b"POST / HTTP/1.1", headers, content)))
        return await read_message(self.reader)


@asynccontextmanager
async def calling(proxy: FaultProxy) -> AsyncIterator[Caller]:
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    try:
        yield Caller(reader, writer)
    finally:
        writer.close()


async def outcome(proxy: FaultProxy, operation: str, body: dict[str, Any] | None = None) -> str:
    """What the caller of a call on a connection of its own gets."""
    async with calling(proxy) as caller:
        try:
            answer = await caller.call(operation, body)
        except (ConnectionResetError, asyncio.IncompleteReadError) as failure:
            return type(failure).__name__
        return "closed" if answer is None else f"{answer.status}"


async def test_without_a_plan_calls_pass_through_on_one_connection(
    proxy: FaultProxy, database: Database
) -> None:
    async with calling(proxy) as caller:
        for number in range(3):
            answer = await caller.call("PutItem", {"number": number})
            assert answer is not None
            assert (answer.status, json.loads(answer.body)) == (200, {"number": number})
    assert database.seen == [{"number": number} for number in range(3)]
    assert [(done.call.body, done.told) for done in proxy.applied] == [
        ({"number": number}, True) for number in range(3)
    ]
    assert proxy.operations == {"PutItem": 3}
    assert proxy.faults == {Fault.NONE: 3}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.THROTTLED, "400"),
        (Fault.THROTTLED_OTHERWISE, "400"),
        (Fault.ERROR, "500"),
        (Fault.UNAVAILABLE, "503"),
        (Fault.RESET, "ConnectionResetError"),
        (Fault.LOST, "closed"),
        (Fault.HALF, "IncompleteReadError"),
        (Fault.BROKEN, "500"),
        (Fault.DELAYED, "200"),
        (Fault.DRIPPING, "200"),
    ],
    ids=lambda value: value.name if isinstance(value, Fault) else value,
)
async def test_a_fault_is_done_to_one_call(
    proxy: FaultProxy, database: Database, fault: Fault, expected: str
) -> None:
    proxy.plan = script(fault)
    # How an RST reaches a reader depends on what came before it.
    got = await outcome(proxy, "PutItem", {"number": 1})
    assert got == expected or {got, expected} <= {"IncompleteReadError", "ConnectionResetError"}
    assert len(database.seen) == (0 if fault in UNDONE else 1)
    assert [done.told for done in proxy.applied] == (
        [] if fault in UNDONE else [fault not in UNTOLD]
    )
    assert proxy.faults == {fault: 1}
    assert await outcome(proxy, "PutItem", {"number": 2}) == "200"


async def test_throttling_is_said_as_the_database_says_it(proxy: FaultProxy) -> None:
    proxy.plan = script(Fault.THROTTLED, Fault.THROTTLED_OTHERWISE)
    async with calling(proxy) as caller:
        codes = []
        for _ in range(2):
            answer = await caller.call("GetItem")
            assert answer is not None
            codes.append(json.loads(answer.body)["__type"].partition("#")[2])
    assert codes == ["ProvisionedThroughputExceededException", "ThrottlingException"]


async def test_a_silent_server_waits_until_the_caller_gives_up(
    proxy: FaultProxy, database: Database
) -> None:
    proxy.plan = script(Fault.SILENT)
    async with calling(proxy) as caller:
        waiting = asyncio.ensure_future(caller.call("PutItem"))
        while not proxy.done:  # noqa: ASYNC110 - the proxy tells of nothing
            await asyncio.sleep(0)
        assert not waiting.done()
        caller.writer.close()
        assert await waiting is None
    assert [done.told for done in proxy.applied] == [False]


async def test_refusals_get_through_where_they_are_spared(proxy: FaultProxy) -> None:
    proxy.plan, proxy.spare_refusals = always(Fault.LOST), True
    assert await outcome(proxy, "PutItem", {"refuse": True}) == "400"
    assert await outcome(proxy, "PutItem", {}) == "closed"
    assert [done.status for done in proxy.done] == [400, 200]
    assert len(proxy.applied) == 1


@pytest.mark.parametrize(
    ("operation", "requests", "rest"),
    [
        ("BatchWriteItem", {"t": [1, 2, 3], "u": [4]}, {"t": [3]}),
        ("BatchGetItem", {"t": {"Keys": [1, 2], "Also": 5}}, {"t": {"Keys": [2], "Also": 5}}),
    ],
)
async def test_half_of_a_batch_is_answered_unprocessed(
    proxy: FaultProxy, database: Database, operation: str, requests: Any, rest: Any
) -> None:
    proxy.plan = script(Fault.PARTLY)
    async with calling(proxy) as caller:
        answer = await caller.call(operation, {"RequestItems": requests})
    assert answer is not None
    assert answer.header(b"x-amz-crc32") == b""
    (seen,) = database.seen
    left = json.loads(answer.body)
    assert rest in (left.get("UnprocessedItems"), left.get("UnprocessedKeys"))
    for table, asked in requests.items():
        done, held = seen["RequestItems"][table], rest.get(table, [])
        if operation == "BatchGetItem":
            asked, done, held = asked["Keys"], done["Keys"], held["Keys"]
        assert done + held == asked
    assert all(done.call.body == seen for done in proxy.applied)


async def test_a_batch_of_one_is_never_held_back(proxy: FaultProxy, database: Database) -> None:
    proxy.plan = always(Fault.PARTLY)
    body = {"RequestItems": {"t": [1]}}
    assert await outcome(proxy, "BatchWriteItem", body) == "200"
    assert database.seen == [body]


async def test_a_proxy_that_is_down_refuses_and_cuts_and_comes_back(proxy: FaultProxy) -> None:
    port = proxy.port
    async with calling(proxy) as caller:
        assert await caller.call("GetItem") is not None
        await proxy.down()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await caller.reader.read()
    await proxy.up()
    assert proxy.port == port
    assert await outcome(proxy, "GetItem") == "200"


async def test_only_the_operation_that_is_named_is_disturbed(proxy: FaultProxy) -> None:
    proxy.plan = script(Fault.ERROR, only="PutItem")
    assert await outcome(proxy, "GetItem") == "200"
    assert await outcome(proxy, "PutItem") == "500"
    assert await outcome(proxy, "PutItem") == "200"


def test_chance_is_the_same_for_the_same_seed() -> None:
    chances = {Fault.LOST: 0.2, Fault.RESET: 0.3}

    def faults(seed: int) -> list[Fault]:
        plan = randomly(chances, seed=seed)
        return [plan(Call(number, "PutItem", {})) for number in range(200)]

    assert faults(1) == faults(1) != faults(2)
    assert set(faults(1)) == {Fault.LOST, Fault.RESET, Fault.NONE}
