"""The engines under test, by name. A further engine is one more factory."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support.clocks import ManualClock
from tablestore import Clock, Engine, Index, Key, Kind, Table, TableHandle
from tablestore.sqlite import SqliteEngine

Open = Callable[[], Awaitable[Engine]]
"""Opens an engine on the store of the test: each call as another process would."""


def sqlite(folder: Path, clock: Clock) -> Open:
    async def open_engine() -> Engine:
        return await SqliteEngine.open(folder / "store.sqlite", clock=clock)

    return open_engine


FACTORIES = {"sqlite": sqlite}

MESSAGES = Table("messages", Key("user"), Key("place"), expiry="expiry")
USERS = Table(
    "users",
    Key("user"),
    indexes=(
        Index("by_visit", Key("visit", Kind.NUMBER), keys_only=True),
        Index("by_city", Key("city"), Key("age", Kind.NUMBER)),
    ),
    expiry="expiry",
)


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
