"""Libraries of application servers in other languages, unchanged, send through the service.

pywebpush, that of Python, has a module of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autopush.testing.client import VapidKey
from support import foreign_senders
from support.certificates import Authority
from support.foreign_senders import PROGRAMS
from support.service import Service, running_service
from support.subscription import Subscription
from support.user_agent import UserAgent

pytestmark = pytest.mark.slow

Connect = Callable[..., Awaitable[UserAgent]]


@pytest.fixture(scope="module", params=["1", "2"], ids=["a worker", "two workers"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """With TLS, without which that of Node sends nothing."""
    folder = tmp_path_factory.mktemp("senders")
    authority = Authority(folder)
    options = (*authority.issue(folder).options, "--workers", request.param)
    with running_service(folder / "data", *options) as service:
        service.tls = authority.client()
        yield service


@pytest.fixture
def trusted(running: Service) -> Path:
    """The certificate of the authority that the libraries are to trust."""
    return running.data.parent / "authority.pem"


@pytest.fixture
def connect(running: Service, agents: list[UserAgent]) -> Connect:
    async def connect(uaid: str | None = None) -> UserAgent:
        agents.append(await running.connect(uaid))
        return agents[-1]

    return connect


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.__name__)
def program(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param()
    return words


async def send(
    program: list[str], trusted: Path, subscription: Subscription, key: VapidKey, **more: Any
) -> str:
    """The status that the library reports."""
    send_ = foreign_senders.send
    return await asyncio.to_thread(send_, program, trusted, subscription.info, key, **more)


@pytest.mark.parametrize("urgency", [None, "very-low", "high"])
async def test_what_the_library_encrypts_is_read(
    running: Service, connect: Connect, program: list[str], trusted: Path, urgency: str | None
) -> None:
    key, agent = VapidKey(), await connect()
    subscription = await Subscription.of(agent, key.public)
    more = {"urgency": urgency} if urgency else {}
    assert await send(program, trusted, subscription, key, text="Grüße, 世界", **more) == "201"
    message = await agent.notification()
    assert subscription.read(message) == "Grüße, 世界".encode()


async def test_another_key_is_refused_and_a_subscription_that_is_gone_is_reported(
    running: Service, connect: Connect, program: list[str], trusted: Path
) -> None:
    key, agent = VapidKey(), await connect()
    subscription = await Subscription.of(agent, key.public)
    assert await send(program, trusted, subscription, VapidKey(), text="x") == "401"
    await agent.unregister(subscription.channel)
    assert await send(program, trusted, subscription, key, text="x") == "410"
