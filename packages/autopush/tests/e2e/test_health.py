"""What `/health` of a running service says, whichever of its workers is asked."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.service import Service, service
from support.user_agent import UserAgent

pytestmark = pytest.mark.slow

WORKERS = 3
ASKED = 12
"""Requests of one round, each on a connection of its own: the kernel spreads them over all workers,
so that all are asked except, in one round of some hundred thousand, one.
"""
PATIENCE = 60.0

OK = {"status": "OK", "ready": WORKERS, "expected": WORKERS}

Page = tuple[int, dict[str, Any]]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Service]:
    # A worker that a test stops is to be missing, not to be replaced.
    options = ("--workers", str(WORKERS), "--watchdog-timeout", "0")
    async with service(tmp_path, *options) as running:
        yield running


async def ask(url: str, seconds: float) -> Page | None:
    """One answer; None if there was none in time."""
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url}/health") as response,
        ):
            return response.status, await response.json()
    except (TimeoutError, aiohttp.ClientError):
        return None


async def ask_all(running: Service, seconds: float = 1.0) -> list[Page | None]:
    """What the workers answer, on both public ports."""
    urls = [running.endpoint, f"http://127.0.0.1:{running.websocket_port}"]
    return list(await asyncio.gather(*(ask(url, seconds) for url in urls * (ASKED // 2))))


async def until_all_say(running: Service, **members: object) -> list[Page]:
    """Ask until every answer has these members: a worker publishes what it has to say every second.
    A worker that is stopped gives no answer.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            answers = [page for page in await ask_all(running) if page is not None]
            if answers and all(members.items() <= document.items() for _, document in answers):
                return answers
            await asyncio.sleep(0.2)


async def test_every_worker_says_that_all_serve_and_how_many_clients_they_have(
    running: Service, agents: list[UserAgent]
) -> None:
    for number in range(1, 8):
        agents.append(await running.connect())
        for status, document in await until_all_say(running, clients=number):
            assert (status, document["status"]) == (200, "OK")
            assert document["workers"] == OK
            assert document["router"] == document["storage"] == {"status": "OK"}
            assert document["routers"]["fcm"] is False
