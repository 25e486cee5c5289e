"""Shared by all end-to-end tests: an application server and the user agents of one test."""

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
async def agents() -> AsyncIterator[list[UserAgent]]:
    """The user agents that are closed when the test is over."""
    agents: list[UserAgent] = []
    yield agents
    for agent in agents:
        await agent.close()


@pytest.fixture
def open_connection(running: Service, agents: list[UserAgent]) -> Connect:
    """Connects user agents to the module's service (`running`), without a hello."""

    async def open_connection() -> UserAgent:
        agents.append(await UserAgent.connect(running.websocket))
        return agents[-1]

    return open_connection


@pytest.fixture
def connect(open_connection: Connect) -> Connect:
    """Connects user agents to the module's service (`running`), by UAID or as new ones."""

    async def connect(uaid: str | None = None) -> UserAgent:
        agent = await open_connection()
        await agent.hello(uaid)
        return agent

    return connect
