"""Endpoint daemons that are restarted in turn behind nginx: an upgrade that no sender notices."""

import asyncio
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from support.application_server import ApplicationServer
from support.certificates import LOOPBACK, Authority
from support.proxies import Nginx
from support.service import Service
from support.sockets import unused_port

SENDERS = 8
ROUNDS = 2
PUSHES = 60
"""Between two restarts."""


class Senders:
    """Push as fast as they are answered."""

    def __init__(self, sender: ApplicationServer, endpoint: str) -> None:
        self._sender, self._endpoint = sender, endpoint
        self.statuses: Counter[int] = Counter()
        self._answered = asyncio.Condition()

    async def run(self, number: int) -> None:
        while True:
            answer = await self._sender.push(self._endpoint, b"x" * 500, topic=f"sender{number}")
            async with self._answered:
                self.statuses[answer.status] += 1
                self._answered.notify_all()

    async def answers(self, count: int) -> None:
        """Wait for so many more answers."""
        async with self._answered:
            wanted = self.statuses.total() + count
            await self._answered.wait_for(lambda: self.statuses.total() >= wanted)


@pytest.mark.slow
async def test_no_push_fails_while_one_endpoint_daemon_after_the_other_is_restarted(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    files = authority.issue(tmp_path)
    tls = authority.client()
    public = unused_port()
    url = ("--endpoint-url", f"https://{LOOPBACK}:{public}")
    connection = Service(tmp_path / "data", url, command="connection")
    endpoints = [Service(tmp_path / "data", url, command="endpoint") for _ in range(2)]
    first, second = (int(each.ports["--port"]) for each in endpoints)
    nginx = Nginx(tmp_path, files, port=public, upstream=first)
    nginx.add_upstreams(second)
    connector = aiohttp.TCPConnector(ssl=tls)
    services = [connection, *endpoints]
    try:
        for service in services:
            await service.start()
        async with aiohttp.ClientSession(connector=connector) as session:
            with nginx:
                agent = await connection.connect()
                _, endpoint = await agent.register()
                await agent.close()
                senders = Senders(ApplicationServer(session), endpoint)
                tasks = [asyncio.create_task(senders.run(number)) for number in range(SENDERS)]
                for service in endpoints * ROUNDS:
                    await senders.answers(PUSHES)
                    assert await service.stop() == 0
                    await senders.answers(PUSHES)
                    await service.start()
                await senders.answers(PUSHES)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        assert senders.statuses.keys() == {201}
        assert senders.statuses[201] >= 2 * ROUNDS * 2 * PUSHES
    finally:
        for service in services:
            await service.stop()
