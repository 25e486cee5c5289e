"""An engine on a file of its own, opened as often as a test likes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import apsw
import pytest

from keytables.sqlite import SqliteEngine
from support.clocks import ManualClock
from support.sqlite_store import Connections, OpenSqlite


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    found = Connections()
    monkeypatch.setattr(apsw, "connection_hooks", [found.add])
    return found


@pytest.fixture
async def open_sqlite(
    path: Path, clock: ManualClock, connections: Connections
) -> AsyncIterator[OpenSqlite]:
    async with AsyncExitStack() as opened:

        async def open_one(**options: Any) -> SqliteEngine:
            engine = await SqliteEngine.open(path, **{"clock": clock, **options})
            opened.push_async_callback(engine.close)
            return engine

        yield open_one


@pytest.fixture
async def engine(open_sqlite: OpenSqlite) -> SqliteEngine:
    return await open_sqlite()
