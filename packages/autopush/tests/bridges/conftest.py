"""Bridges trust one certificate that nobody shows, where a test names no other."""

from pathlib import Path

import pytest

from support.certificates import self_signed
from support.event_loops import collect_what_is_left

__all__ = ["collect_what_is_left"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("authority") / "authority.pem")


@pytest.fixture(autouse=True)
def trusted(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the authorities of the system, which take 20 ms to read."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
