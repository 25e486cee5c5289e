from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autopush.store import PushStore, TablePlan
from keytables import Engine
from support import engines
from support.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=engines.NAMES)
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[Engine]:
    async with engines.engine(request.param, tmp_path, clock) as opened:
        yield opened


@pytest.fixture
async def store(engine: Engine, clock: ManualClock) -> PushStore:
    return await PushStore.open(
        engine,
        TablePlan(),
        key_hash="",
        clock=clock,
    )
