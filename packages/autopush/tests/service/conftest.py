from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autopush.telemetry import logs


@pytest.fixture
def end_logs(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Log to a file; the call ends that and returns what was logged, as JSON lines."""
    path = tmp_path / "log"
    logs.configure(output=str(path))

    def read() -> str:
        logs.shutdown()
        return path.read_text()

    yield read
    logs.shutdown()
