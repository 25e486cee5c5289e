"""`channelstats warn`: what is sure before the week is over, once, in Slack too."""

import pytest

from channelstats.commands import DONE, WITH_PROBLEMS
from support.channelstats.called import Capture, called
from support.channelstats.slack_house import Slack

FRIDAY = 1_710_504_000.0
"""2024-03-15: within the second week of the worked example."""

LINE = "Messages: 8 (goal: at most 5, not met)"


def warn(slack: Slack, *flags: str) -> int:
    goals = ("--goals", "volume.messages <= 5, volume.messages >= 100")
    return called("warn", *goals, *flags, now=FRIDAY, waits=slack.waits)


def posted(slack: Slack) -> list[str]:
    return [raw["text"] for raw in slack.messages["CSTATS"] if raw["user"] == "USTATS"]


@pytest.mark.slow
def test_a_goal_that_is_sure_to_be_missed_is_posted_once(there: Slack, capfd: Capture) -> None:
    capfd.readouterr()
    assert warn(there, "--dry-run") == DONE
    assert capfd.readouterr().out == f"{LINE}\n"
    assert posted(there) == []
    assert warn(there) == DONE
    assert capfd.readouterr().err == f"{LINE}: sent\n"
    assert posted(there) == [f"Already sure this week: {LINE}"]
    assert warn(there) == DONE
    assert capfd.readouterr().err == ""
    assert len(posted(there)) == 1


def test_what_keeps_subscribers_from_being_told_keeps_nothing_from_slack(
    there: Slack, capfd: Capture
) -> None:
    capfd.readouterr()
    assert warn(there, "--mail-server", "smtp://localhost") == WITH_PROBLEMS
    assert "nobody is notified: mail_from: expected a value" in capfd.readouterr().err
    assert posted(there) == [f"Already sure this week: {LINE}"]
