import pytest

from autopush.store import PushStore, TablePlan
from keytables import Engine
from support import engines
from support.clocks import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


engine = engines.engine_fixture(engines.NAMES)


@pytest.fixture
async def store(engine: Engine, clock: ManualClock) -> PushStore:
    return await PushStore.open(engine, TablePlan(), key_hash="", clock=clock)
