"""A store on the run's server, and engines on it as other processes have them.

Modules that say `VIRTUAL_TIME = True` wait for no real time.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from keytables import TableHandle
from keytables.postgresql import PostgresEngine
from support.clocks import ManualClock
from support.event_loops import pytest_asyncio_loop_factories
from support.postgres_servers import postgres
from support.table_engines import MESSAGES, OpenPostgres, PostgresStore

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(4_000_000_000.0)


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(postgres(), clock)
    yield opened
    await opened.clear()


@pytest.fixture
async def open_postgres(store: PostgresStore) -> AsyncIterator[OpenPostgres]:
    async with AsyncExitStack() as opened:

        async def open_one(**options: object) -> PostgresEngine:
            engine = await store.open(**options)
            opened.push_async_callback(engine.close)
            return engine

        yield open_one


@pytest.fixture
async def messages(open_postgres: OpenPostgres) -> TableHandle:
    return await (await open_postgres()).ensure_table(MESSAGES)
