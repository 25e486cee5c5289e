"""`channelstats create-stats-channel`: channels that reports on channels go to."""

from pathlib import Path

import pytest

from channelstats.commands.call import DONE, WITH_PROBLEMS
from support.channelstats.called import called
from support.channelstats.fake_slack import TOKEN, Fault
from support.channelstats.house import NOW
from support.channelstats.slack_house import Slack
from support.channelstats.town import open_for_business, settle

CREATE = "conversations.create"


@pytest.fixture
def there(connected: Slack, tmp_path: Path) -> Slack:
    settle(tmp_path)
    open_for_business(connected)
    return connected


def create(slack: Slack, *arguments: str) -> int:
    return called("create-stats-channel", *arguments, now=NOW, waits=slack.waits)


def said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    found = capfd.readouterr()
    assert found.out == ""
    assert TOKEN not in found.err
    return found.err.splitlines()


def test_a_channel_is_made_with_a_purpose_and_reports_go_there_at_once(
    there: Slack, capfd: pytest.CaptureFixture[str]
) -> None:
    assert create(there, "help", "#stats") == DONE
    assert said(capfd) == ["#help-stats made", "#stats-stats made"]
    made = {of["name"]: of for of in there.told()["channels"].values()}
    assert made["help-stats"]["purpose"] == {"value": "Weekly reports on the channel help"}
    assert called("send-weekly", "--dry-run", now=NOW) == DONE
    assert "report on #help to #help-stats\n" in capfd.readouterr().out


def test_what_is_there_is_left_alone(there: Slack, capfd: pytest.CaptureFixture[str]) -> None:
    assert create(there, "dev") == DONE
    assert said(capfd) == ["#dev-stats is there already"]
    assert there.methods() == []


def test_a_dry_run_asks_slack_nothing(there: Slack, capfd: pytest.CaptureFixture[str]) -> None:
    assert create(there, "help", "dev", "--dry-run") == DONE
    found = capfd.readouterr()
    assert found.out == "#help-stats would be made\n"
    assert there.methods() == []


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault("error", "name_taken", method=CREATE), "a channel of this name exists already"),
        (
            Fault("error", "missing_scope", method=CREATE, more={"needed": "channels:manage"}),
            "lacks the scope channels:manage",
        ),
        (Fault("error", "restricted_action", method=CREATE), "does not let the token"),
    ],
)
def test_one_that_fails_costs_itself_alone(
    there: Slack, capfd: pytest.CaptureFixture[str], fault: Fault, says: str
) -> None:
    open_for_business(there, fault)
    assert create(there, "help", "none", "stats") == WITH_PROBLEMS
    lines = said(capfd)
    assert lines[0] == "#stats-stats made"
    assert lines[1] == "channelstats: there is no channel 'none'"
    assert lines[2].startswith(f"channelstats: #help-stats: {CREATE}: ")
    assert says in lines[2]


def test_a_lost_answer_is_not_asked_for_twice(
    there: Slack, capfd: pytest.CaptureFixture[str]
) -> None:
    open_for_business(there, Fault("cut", method=CREATE))
    assert create(there, "help") == WITH_PROBLEMS
    assert len(there.calls(CREATE)) == 1
    assert "#help-stats: conversations.create: " in said(capfd)[0]
