"""The engines that tests of the domain run on, by name."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keytables import Clock, Engine
from keytables.sqlite import SqliteEngine
from support import dynamo_servers
from support.memory_engine import MemoryEngine
from support.postgres_servers import postgres
from support.soak import slow
from support.table_engines import DynamoStore, PartedSqliteStore, PostgresStore

NAMES = ("memory", "sqlite")
EVERY = (*NAMES, slow("sqlite-parts"), "postgresql", "ministack")
"""With databases that are processes of their own, for tests that are worth the time; in `make slow`
with a store in several files too.
"""


@asynccontextmanager
async def engine(name: str, folder: Path, clock: Clock) -> AsyncIterator[Engine]:
    """Open the engine of that name and close it again."""
    opened: Engine
    database: DynamoStore | PostgresStore | None = None
    if name == "memory":
        opened = MemoryEngine(clock)
    elif name == "sqlite":
        opened = await SqliteEngine.open(folder / "store.sqlite", clock=clock)
    elif name == "sqlite-parts":
        opened = await PartedSqliteStore(folder, clock).open()
    elif name == "postgresql":
        database = PostgresStore(postgres(), clock)
        opened = await database.open()
    else:
        database = DynamoStore(getattr(dynamo_servers, name)(), clock)
        opened = await database.open()
    try:
        yield opened
    finally:
        await opened.close()
        if database is not None:
            await database.clear()


def engine_fixture(names: Sequence[Any]) -> Any:
    """A fixture `engine` for a module or folder whose tests run on each of these engines; it takes
    its time from the fixture `clock`.
    """

    @pytest.fixture(params=names, name="engine")
    async def opened(
        request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
    ) -> AsyncIterator[Engine]:
        async with engine(request.param, tmp_path, clock) as found:
            yield found

    return opened
