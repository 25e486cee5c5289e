"""A running service and strangers who open more connections, or leave more incomplete, than they
may: they are refused, and others are served all the same.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from support.raw_client import RawClient, get, raw_client
from support.service import Service, service


@asynccontextmanager
async def connections(port: int, number: int, sent: str = "") -> AsyncIterator[list[RawClient]]:
    """So many connections at once, each of which has sent that."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw_client(port)) for _ in range(number)]
        for client in clients:
            client.send(sent)
        yield clients


async def refusals(running: Service, limit: str) -> int:
    """How many the metrics have counted, as the internal port says."""
    page = (await get(running.router_port, "/metrics")).body.decode()
    [value] = [
        line.rpartition(" ")[2]
        for line in page.splitlines()
        if line.startswith("autopush_limit_refused") and f'"{limit}"' in line
    ]
    return int(float(value))


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
        async with asyncio.timeout(30):
            while True:
                async with raw_client(running.endpoint_port) as client:
                    client.send("GET /status HTTP/1.1\r\nHost: h\r\n\r\n")
                    if (await client.answer()).status == 200:
                        break
        assert await refusals(running, "address_connections") >= 1
