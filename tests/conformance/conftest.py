"""Fixtures of the conformance suite: every test runs on every engine."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support.clocks import ManualClock
from support.table_engines import FACTORIES, MESSAGES, USERS, Open
from tablestore import Engine, TableHandle


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture(params=sorted(FACTORIES))
async def open_engine(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Open]:
    factory = FACTORIES[request.param](tmp_path, clock)
    async with AsyncExitStack() as opened:

        async def open_one() -> Engine:
            engine = await factory()
            opened.push_async_callback(engine.close)
            return engine

        yield open_one


@pytest.fixture
async def engine(open_engine: Open) -> Engine:
    return await open_engine()


@pytest.fixture
async def messages(engine: Engine) -> TableHandle:
    """Keys user and place (text), expiry."""
    return await engine.ensure_table(MESSAGES)


@pytest.fixture
async def users(engine: Engine) -> TableHandle:
    """Key user; indexes by_visit (a number, keys only), by_city (with the number age); expiry."""
    return await engine.ensure_table(USERS)
