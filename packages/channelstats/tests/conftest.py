from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.channelstats.house import House, house
from support.channelstats.slack_house import Slack, running_slack


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[House]:
    """Tables without anything in them."""
    async with house(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def slack_process() -> Iterator[Slack]:
    with running_slack() as running:
        yield running


@pytest.fixture
def slack(slack_process: Slack) -> Slack:
    """A fake Slack with a clock of its own for whoever waits."""
    return Slack(slack_process.url)
