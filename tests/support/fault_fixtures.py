"""A database behind a fault proxy, and engines on it."""

import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest

from keytables.dynamodb import DynamoEngine
from keytables.dynamodb.client import Client
from support import dynamo_servers
from support.clocks import ManualClock
from support.fault_proxy import FaultProxy

OpenEngine = Callable[..., Awaitable[DynamoEngine]]
"""Opens an engine through the proxy, as another process does."""

_prefixes = itertools.count()


@pytest.fixture
def database_port() -> int:
    port = urlsplit(dynamo_servers.ministack()).port
    assert port is not None
    return port


@pytest.fixture
async def proxy(database_port: int) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(database_port) as started:
        yield started


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(4_000_000_000)  # far from what a real clock lets expire


@pytest.fixture
async def open_engine(proxy: FaultProxy, clock: ManualClock) -> AsyncIterator[OpenEngine]:
    prefix = f"faults-{os.getpid()}-{next(_prefixes)}-"
    async with AsyncExitStack() as opened:

        async def open_one(
            *, endpoint: str | None = None, alternator: bool = False
        ) -> DynamoEngine:
            client = await Client.open(
                region="us-east-1",
                endpoint=endpoint or proxy.url,
                clock=clock,
                credentials=lambda: None,
            )
            engine = DynamoEngine(client, prefix=prefix, alternator=alternator, clock=clock)
            opened.push_async_callback(engine.close)
            return engine

        yield open_one
