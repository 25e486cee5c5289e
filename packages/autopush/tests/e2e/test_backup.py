"""A service is backed up while it is written to, and goes on from the backup."""

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.application_server import ApplicationServer
from support.service import Service, autopush, service
from support.user_agent import UserAgent

USER_AGENTS = 20
BEFORE, AFTER = 300, 300
"""Messages that are accepted before the backup begins, and at least so many until it has ended."""


@dataclass
class Traffic:
    """Pushes to user agents that are not connected, one after the other in several tasks."""

    sender: ApplicationServer
    endpoints: list[str]
    accepted: list[tuple[str, str]] = field(default_factory=list)
    """The endpoint and the ID of each message that was answered 201, in that order."""
    refused: list[int] = field(default_factory=list)
    grown: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def send(self, first: int) -> None:
        while True:
            for endpoint in self.endpoints[first::4]:
                answer = await self.sender.push(endpoint, b"x" * 1000, ttl=600)
                if answer.status != 201:
                    self.refused.append(answer.status)
                    continue
                async with self.grown:
                    self.accepted.append((endpoint, answer.message_id))
                    self.grown.notify_all()

    async def wait_for(self, count: int) -> list[tuple[str, str]]:
        """Wait until so many are accepted; returns them."""
        async with self.grown:
            await self.grown.wait_for(lambda: len(self.accepted) >= count)
            return [*self.accepted]


async def subscribe(running: Service) -> dict[str, str]:
    """User agents that are gone again: the endpoint of each, and its UAID."""
    found = {}
    for _ in range(USER_AGENTS):
        agent = await running.connect()
        found[(await agent.register())[1]] = agent.uaid
        await agent.close()
    return found


async def receive_all(agent: UserAgent, expected: set[str]) -> set[str]:
    """The IDs of all that a user agent is sent, which are at least the expected ones; it acks."""
    received: set[str] = set()
    while not received >= expected:
        message = await agent.notification()
        received.add(message["version"])
        await agent.ack([message])
    while not agent.notifications.empty():
        message = agent.notifications.get_nowait()
        received.add(message["version"])
        await agent.ack([message])
    return received


@pytest.mark.slow
async def test_everything_accepted_before_a_backup_is_delivered_after_it_was_restored(
    tmp_path: Path, sender: ApplicationServer, agents: list[UserAgent]
) -> None:
    data, backups = tmp_path / "data", tmp_path / "backups"
    async with service(data, "--workers", "2") as running:
        assert len(running.workers) == 2
        uaids = await subscribe(running)
        traffic = Traffic(sender, [*uaids])
        tasks = [asyncio.create_task(traffic.send(first)) for first in range(4)]
        before = await traffic.wait_for(BEFORE)
        await autopush("backup", backups, "--data", data)
        ended = len(traffic.accepted)
        after = (await traffic.wait_for(ended + AFTER))[ended + len(tasks) :]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert traffic.refused == []
        assert running.errors == []
    shutil.rmtree(data)
    [backup] = backups.iterdir()
    await autopush("restore", backup, "--data", data)
    async with service(data, "--workers", "2") as restored:
        for endpoint, uaid in uaids.items():
            agent = await restored.connect(uaid)
            agents.append(agent)
            assert agent.uaid == uaid
            received = await receive_all(agent, {m for to, m in before if to == endpoint})
            assert not received & {m for _, m in after}
            # Senders keep their endpoints; in this test the service has another port.
            moved = f"{restored.endpoint}/{endpoint.split('/', 3)[3]}"
            new = (await sender.push(moved, b"after the restore")).message_id
            assert new in await receive_all(agent, {new})
