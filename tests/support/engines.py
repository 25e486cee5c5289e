"""The engines that tests of the domain run on, by name."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keytables import Clock, Engine
from support.dynamo_servers import ministack
from support.memory_engine import MemoryEngine
from support.postgres_servers import postgres
from support.soak import slow
from support.table_engines import DynamoStore, PartedSqliteStore, PostgresStore, SqliteStore, Store

NAMES = ("memory", "sqlite")
EVERY = (*NAMES, slow("sqlite-parts"), "postgresql", "ministack")
"""With databases that are processes of their own, for tests that are worth the time; in `make slow`
with a store in several files too.
"""


@asynccontextmanager
async def engine(name: str, folder: Path, clock: Clock) -> AsyncIterator[Engine]:
    """Open the engine of that name and close it again."""
    stores: dict[str, Callable[[], Store]] = {
        "sqlite": lambda: SqliteStore(folder, clock),
        "sqlite-parts": lambda: PartedSqliteStore(folder, clock),
        "postgresql": lambda: PostgresStore(postgres(), clock),
        "ministack": lambda: DynamoStore(ministack(), clock),
    }
    store = stores[name]() if name in stores else None
    opened = MemoryEngine(clock) if store is None else await store.open()
    try:
        yield opened
    finally:
        await opened.close()
        if store is not None:
            await store.clear()


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
