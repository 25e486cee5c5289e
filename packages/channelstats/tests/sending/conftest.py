"""A push service, and the worked example with somebody who waits for its second week."""

from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest

from channelstats.ingest.export_import import ImportOptions
from channelstats.settings import Settings, load
from support.channelstats.house import EXAMPLE, make_store
from support.channelstats.mail_server import SmtpServer, smtp_server
from support.channelstats.push_service import PushService, push_service


@pytest.fixture
async def service() -> AsyncIterator[PushService]:
    async with push_service() as running:
        yield running


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SmtpServer]:
    async with smtp_server(tmp_path) as running:
        yield running


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load({"data": str(tmp_path / "data")}, {})


@pytest.fixture(scope="session")
def taken_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked example: its first week is there, of its second one the end is not read."""
    options = ImportOptions(until=date(2024, 3, 15))
    return make_store(tmp_path_factory.mktemp("first-week"), EXAMPLE, options)
