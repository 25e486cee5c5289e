"""An engine on a file of its own, opened as often as a test likes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from keytables.sqlite import SqliteEngine
from support.clocks import ManualClock

OpenSqlite = Callable[..., Awaitable[SqliteEngine]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
async def open_sqlite(path: Path, clock: ManualClock) -> AsyncIterator[OpenSqlite]:
    async with AsyncExitStack() as opened:

        async def open_one(**options: Any) -> SqliteEngine:
            engine = await SqliteEngine.open(path, **{"clock": clock, **options})
            opened.push_async_callback(engine.close)
            return engine

        yield open_one
