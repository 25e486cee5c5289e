"""Fixtures of the conformance suite: every test runs on every engine that has what it needs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from keytables import Engine, TableHandle
from support.clocks import ManualClock
from support.table_engines import CANDIDATES, MESSAGES, USERS, Open, candidates

START = 4_000_000_000.0
"""Later than any clock, so that a server that removes expired items itself finds none."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop tests of engines that lack what they need."""
    items[:] = [item for item in items if not lacks(item)]


def lacks(item: pytest.Item) -> bool:
    needed = [marker.args[0] for marker in item.iter_markers("needs")]
    if not needed:
        return False
    assert isinstance(item, pytest.Function)
    return not CANDIDATES[str(item.callspec.params["open_engine"])].lacks.keys().isdisjoint(needed)


@pytest.fixture(params=candidates())
async def open_engine(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Open]:
    store = CANDIDATES[request.param].make(tmp_path, clock)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(store.clear)

        async def open_one() -> Engine:
            engine = await store.open()
            opened.push_async_callback(engine.close)
            return engine

        yield open_one


@pytest.fixture
def many(request: pytest.FixtureRequest, open_engine: Open) -> int:
    """A number of items that does not fit on one page."""
    name: str = request.node.callspec.params["open_engine"]
    return CANDIDATES[name].many


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
