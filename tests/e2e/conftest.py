"""What all end-to-end tests share: who sends, and the user agents of one test."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from support.application_server import ApplicationServer, application_server
from support.service import Service
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]


@pytest.fixture
async def sender() -> AsyncIterator[ApplicationServer]:
    """An application server."""
    async with application_server() as server:
        yield server


@pytest.fixture
async def connect(running: Service) -> AsyncIterator[Connect]:
    """Connects user agents to the module's service (`running`), by UAID or as new ones; they are
    closed at the end.
    """
    agents: list[UserAgent] = []

    async def connect(uaid: str | None = None) -> UserAgent:
        agents.append(await running.connect(uaid))
        return agents[-1]

    yield connect
    for agent in agents:
        await agent.close()
