import os
import shutil
from pathlib import Path

import pytest

from channelstats.credentials import Purpose
from support.channelstats.called import DATA, called
from support.channelstats.fake_slack import TOKEN
from support.channelstats.house import EXAMPLE, NOW
from support.channelstats.slack_house import Slack
from support.channelstats.town import open_for_business, settle


def _set_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CHANNELSTATS_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _set_nothing(monkeypatch)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def taken_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that the worked example was taken into, at its time: for tests to copy."""
    folder = tmp_path_factory.mktemp("taken-in") / "data"
    with pytest.MonkeyPatch.context() as patch:
        _set_nothing(patch)
        flags = ("--quiet", "--data", str(folder))
        assert called("import-export", str(EXAMPLE), *flags, now=NOW) == 0
    return folder


@pytest.fixture
def connected(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> Slack:
    """The fake Slack, its address and its token being set."""
    monkeypatch.setenv("CHANNELSTATS_SLACK_API", f"{slack.url}/api/")
    monkeypatch.setenv(Purpose.READ.variable, TOKEN)
    return slack


@pytest.fixture
def there(connected: Slack, tmp_path: Path) -> Slack:
    """The fake Slack with the town, which the data folder holds too."""
    settle(tmp_path)
    open_for_business(connected)
    return connected


@pytest.fixture
def example(taken_in: Path) -> None:
    """The worked example: its first week is there, its second is not at its end."""
    shutil.copytree(taken_in, DATA)
