"""Shared by all tests of the push service: a log of their own, a node, a cluster."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from autopush.telemetry import logs
from support import engines
from support.clocks import ManualClock
from support.connection_harness import Harness
from support.month_cluster import Cluster


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """Ends the logging that a test configured."""
    yield
    logs.shutdown()


@pytest.fixture
def end_logs(tmp_path: Path) -> Callable[[], str]:
    """Log to a file; the call ends that and returns what was logged, as JSON lines."""
    path = tmp_path / "log"
    logs.configure(output=str(path))

    def read() -> str:
        logs.shutdown()
        return path.read_text()

    return read


@pytest.fixture
async def harness() -> Harness:
    return await Harness.open()


@pytest.fixture
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """On the engine in memory; with `support.month_cluster.EVERY_ENGINE`, on each of them."""
    clock = ManualClock()
    async with engines.engine(getattr(request, "param", "memory"), tmp_path, clock) as engine:
        yield Cluster(engine, clock)
