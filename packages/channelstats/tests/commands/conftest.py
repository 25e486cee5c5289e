import os
from pathlib import Path

import pytest

from channelstats.credentials import Purpose
from support.channelstats.fake_slack import TOKEN
from support.channelstats.slack_house import Slack


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("CHANNELSTATS_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def connected(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> Slack:
    """The fake Slack, its address and its token being set."""
    monkeypatch.setenv("CHANNELSTATS_SLACK_API", f"{slack.url}/api/")
    monkeypatch.setenv(Purpose.READ.variable, TOKEN)
    return slack
