"""What the tests of several bridges use: certificates, tokens, and Google's older servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import gcm_server
from support.certificates import self_signed
from support.event_loops import collect_what_is_left
from support.scripted_provider import ScriptedProvider

__all__ = ["collect_what_is_left"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return self_signed(tmp_path_factory.mktemp("authority") / "authority.pem")


@pytest.fixture(autouse=True)
def trusted(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of those of the system, which take 20 ms to read, where a test names no other."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))


@pytest.fixture
def token(request: pytest.FixtureRequest) -> str:
    """The token of a device that no other test has; it begins with the `TOKEN` of the module."""
    return f"{request.module.TOKEN}-{request.node.name}".replace(" ", "-")


@pytest.fixture(scope="module")
def google() -> Iterator[ScriptedProvider]:
    """Google's servers of GCM and of FCM's legacy API."""
    with ScriptedProvider(gcm_server.judge) as provider:
        yield provider
