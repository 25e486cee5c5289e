"""Several workers of one service: each user has one of them, whichever a client reaches."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.application_server import application_server
from support.service import Service, service
from support.user_agent import UserAgent

WORKERS = 3
USERS = 24


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Service]:
    async with service(tmp_path, "--workers", str(WORKERS), "--watchdog-timeout", "0") as running:
        yield running


@asynccontextmanager
async def subscribers(running: Service, count: int = USERS) -> AsyncIterator[dict[UserAgent, str]]:
    """User agents and an endpoint of each. They have connected twice: the second time most of them
    reach another worker first.
    """
    agents: dict[UserAgent, str] = {}
    for _ in range(count):
        first = await running.connect()
        _, endpoint = await first.register()
        await first.close()
        agents[await running.connect(first.uaid)] = endpoint
    yield agents
    for agent in agents:
        await agent.close()


async def push(endpoint: str) -> int:
    """The status of a push over a new connection, which any worker may accept."""
    async with application_server() as sender:
        return (await sender.push(endpoint, b"x", ttl=60)).status


@pytest.mark.slow
async def test_a_user_agent_that_returns_moves_to_the_worker_it_was_at(running: Service) -> None:
    before = running.sockets
    agent = await running.connect()
    _, endpoint = await agent.register()
    first = await running.holder(before)
    for _ in range(6):
        await agent.close()
        agent = await running.connect(agent.uaid)
        assert await running.holder(before) == first
    assert await push(endpoint) == 201
    await agent.notification()
    await agent.close()


async def test_the_users_of_a_worker_that_is_killed_have_its_successor(running: Service) -> None:
    async with subscribers(running) as agents:
        os.kill(running.workers[0], signal.SIGKILL)
        returned = 0
        for agent, endpoint in agents.items():
            assert await push(endpoint) == 201  # also while the successor starts
            ended = asyncio.ensure_future(agent.closed())
            got = asyncio.ensure_future(agent.notification())
            await asyncio.wait([ended, got], return_when=asyncio.FIRST_COMPLETED)
            if got.done():
                ended.cancel()
                await agent.ack([got.result()])
            else:
                got.cancel()
                again = await running.connect(agent.uaid)
                await again.ack([await again.notification()])
                await again.close()
                returned += 1
        assert 0 < returned < USERS


def memory(pid: int) -> dict[str, int]:
    """In kB, by the names of smaps_rollup."""
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {name.rstrip(":"): int(size) for name, size, _ in rows}


@pytest.mark.slow
async def test_workers_share_the_memory_of_what_was_there_before_them(running: Service) -> None:
    for pid in running.workers:
        sizes = memory(pid)
        assert sizes["Private_Dirty"] < 0.33 * sizes["Rss"]  # 0.44 if all of it was written to
