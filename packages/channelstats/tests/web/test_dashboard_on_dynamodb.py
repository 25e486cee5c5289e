"""The dashboard over DynamoDB shows what it shows over the embedded store."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from channelstats.tables import Tables
from channelstats.views.model import VIEWS
from support import dynamo_servers
from support.channelstats.dashboard import Dashboard, dashboard
from support.channelstats.house import EXAMPLE, NOW, UTC, House
from support.clocks import ManualClock
from support.table_engines import DynamoStore

WEEK = "weeks=1"


@pytest.fixture
async def remote(tmp_path: Path) -> AsyncIterator[Dashboard]:
    database = DynamoStore(dynamo_servers.ministack(), ManualClock(NOW))
    engine = await database.open()
    house = House(engine, await Tables.open(engine, "channelstats", UTC))
    await house.take_in(EXAMPLE)
    async with dashboard(house, tmp_path, slack_name="example") as opened:
        yield opened
    await engine.close()
    await database.clear()


async def test_every_view_is_the_same_over_either_store(
    board: Dashboard, remote: Dashboard
) -> None:
    for name in VIEWS:
        address = f"/{name}.json?{WEEK}"
        assert json.loads(await remote.text(address)) == json.loads(await board.text(address))
    assert await remote.text(f"/threads?{WEEK}") == await board.text(f"/threads?{WEEK}")
    assert json.loads(await remote.text("/health")) == {"status": "ok"}
