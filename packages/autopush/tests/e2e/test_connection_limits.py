"""A running service and strangers who open more connections, or leave more incomplete, than they
may: they are refused, and others are served all the same.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from autopush.net.http_server import MIN_IDLE
from autopush.service.app import PAGES_MARGIN
from support import wire
from support.application_server import application_server
from support.raw_client import RawClient, get, raw_client
from support.service import Service, service

UNFINISHED = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n"


@asynccontextmanager
async def connections(port: int, number: int, sent: str = "") -> AsyncIterator[list[RawClient]]:
    """So many connections at once, each of which has sent that."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw_client(port)) for _ in range(number)]
        for client in clients:
            client.send(sent)
        yield clients


async def until_open(clients: list[RawClient], number: int) -> int:
    """Wait until no more than so many are open; returns how many got an answer: a refusal.

    The others were reset: one that has been idle for `MIN_IDLE` gives way to a new one, and on a
    busy machine the first are when the last connect.
    """
    ends = [asyncio.ensure_future(client.end()) for client in clients]
    waiting = set(ends)
    async with asyncio.timeout(10):
        while len(waiting) > number:
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    answered = sum(end.done() and end.result() != b"" for end in ends)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return answered


async def refusals(running: Service, limit: str) -> int:
    """How many the metrics have counted, as the internal port says."""
    page = (await get(running.router_port, "/metrics")).body.decode()
    [value] = [
        line.rpartition(" ")[2]
        for line in page.splitlines()
        if line.startswith("autopush_limit_refused") and f'"{limit}"' in line
    ]
    return int(float(value))


async def exchange(running: Service) -> None:
    """A user agent connects, registers, and is sent a message."""
    agent = await running.connect()
    async with application_server() as sender:
        _, endpoint = await agent.register()
        answer = await sender.push(endpoint, b"", ttl=60)
        assert answer.status == 201
        await agent.notification()
    await agent.close()


async def test_unfinished_upgrades_count_among_the_connections_of_user_agents(
    tmp_path: Path,
) -> None:
    options = ("--max-connections", "20", "--endpoint-port", "0")
    async with service(tmp_path, *options) as running:
        async with connections(running.websocket_port, 300, UNFINISHED) as clients:
            refused = await until_open(clients, 20 + PAGES_MARGIN)
            await asyncio.sleep(MIN_IDLE)
            await exchange(running)
        assert await refusals(running, "connections") >= refused > 0
        await running.logged('"limit":"connections"')
        assert sum("Refused by a limit" in line for line in running.output) == 1
        assert running.errors == []


async def test_one_address_has_only_so_many_connections(tmp_path: Path) -> None:
    options = ("--max-connections-per-address", "5", "--trusted-proxies", "none")
    async with (
        service(tmp_path, *options) as running,
        connections(running.websocket_port, 3) as websockets,
        connections(running.endpoint_port, 2),
    ):
        for websocket in websockets:
            await websocket.upgrade()
        async with raw_client(running.endpoint_port) as sixth:
            answer = await sixth.answer()
        assert (answer.status, json.loads(answer.body)["errno"]) == (429, 203)
        assert int(answer.headers["retry-after"]) > 0
        websockets[0].drop_connection()
        async with asyncio.timeout(10):
            while True:
                async with raw_client(running.endpoint_port) as client:
                    client.send("GET /status HTTP/1.1\r\nHost: h\r\n\r\n")
                    if (await client.answer()).status == 200:
                        break
        assert await refusals(running, "address_connections") >= 1


async def test_unfinished_messages_beyond_the_limit_are_given_up_and_others_go_on(
    tmp_path: Path,
) -> None:
    async with service(tmp_path, "--max-buffered-bytes", "1048576") as running:
        agent = await running.connect()
        async with connections(running.websocket_port, 20) as clients:
            for client in clients:
                await client.upgrade()
                client.send(wire.text(b"x" * 65_000, fin=False))
            codes = [await client.close_code() for client in clients[:4]]
            assert codes == [1013] * 4
            await agent.register()
            async with connections(running.endpoint_port, 40) as senders:
                head = "POST /wpush/v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n"
                for sender in senders:
                    sender.send(head + "x" * 59_000)
                waiting = {asyncio.create_task(each.answer()): each for each in senders}
                refused, others = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for answer in await asyncio.gather(*refused):
                    assert (answer.status, json.loads(answer.body)["errno"]) == (503, 201)
                for each in others:  # some of them may be refused yet
                    waiting[each].send("x" * 1000)
                statuses = {answer.status for answer in await asyncio.gather(*others)}
                assert 404 in statuses
                assert statuses <= {404, 503}
        assert await refusals(running, "buffered_bytes") >= 20
        await agent.close()
        assert running.errors == []
