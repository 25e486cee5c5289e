"""Whatever is sent, the response is the documented one, and the service is not affected.

Rule: after each test a bystander that was connected all the time gets what is sent to it, exactly
once, and the service has logged no error.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from support.application_server import application_server
from support.raw_client import RawClient, raw_client
from support.service import Service, running_service
from support.user_agent import UserAgent

Connect = Callable[..., Awaitable[UserAgent]]
HELLO_TIMEOUT = 6.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("bad-input")
    with running_service(data, "--hello-timeout", str(HELLO_TIMEOUT)) as service:
        yield service


@pytest.fixture(autouse=True)
async def bystander(running: Service) -> AsyncIterator[None]:
    """Another user agent, which must not notice anything."""
    agent = await running.connect()
    _, endpoint = await agent.register()
    yield
    async with application_server() as server:
        answer = await server.push(endpoint, b"still there")
        first, again = await agent.notification(), await server.push(endpoint, b"again")
        assert first["version"] == answer.message_id
        assert (await agent.notification())["version"] == again.message_id
    assert agent.notifications.empty()
    await agent.close()
    assert running.errors == []


@pytest.fixture
async def http(running: Service) -> AsyncIterator[RawClient]:
    """A connection to the endpoint port."""
    async with raw_client(running.endpoint_port) as client:
        yield client


@pytest.fixture
async def ws(running: Service) -> AsyncIterator[RawClient]:
    """A connection to the WebSocket port, not upgraded yet."""
    async with raw_client(running.websocket_port) as client:
        yield client


@pytest.fixture
async def target(connect: Connect) -> tuple[UserAgent, str]:
    """A user agent and an endpoint of its."""
    agent = await connect()
    _, endpoint = await agent.register()
    return agent, endpoint
