from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.channelstats.house import EXAMPLE, House, copied_house, make_store
from support.channelstats.slack_house import Slack, running_slack


@pytest.fixture(scope="session")
def unused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a new store, for tests to copy, which costs less than half of making one."""
    return make_store(tmp_path_factory.mktemp("unused"))


@pytest.fixture(scope="session")
def taken_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store that the worked example was taken into, for tests to copy."""
    return make_store(tmp_path_factory.mktemp("taken-in"), EXAMPLE)


@pytest.fixture
async def empty(unused: Path, tmp_path: Path) -> AsyncIterator[House]:
    """Tables without anything in them."""
    async with copied_house(unused, tmp_path) as opened:
        yield opened


@pytest.fixture
async def example(taken_in: Path, tmp_path: Path) -> AsyncIterator[House]:
    """Tables with the worked example."""
    async with copied_house(taken_in, tmp_path / "example") as opened:
        yield opened


@pytest.fixture(scope="session")
def fake_slack() -> Iterator[Slack]:
    with running_slack() as running:
        yield running


@pytest.fixture
def slack(fake_slack: Slack) -> Slack:
    """A fake Slack with a clock of its own for whoever waits."""
    return Slack(fake_slack.url, fake_slack.server)
