"""`channelstats unarchive`: a channel comes back, and who was in it."""

from pathlib import Path

import pytest

from channelstats.commands.call import DONE, NOT_DONE, WITH_PROBLEMS
from support.channelstats.called import called
from support.channelstats.fake_slack import TOKEN, Fault
from support.channelstats.house import NOW
from support.channelstats.slack_house import Slack
from support.channelstats.town import settle, town
from support.channelstats.workspace import Workspace

INVITE = "conversations.invite"


def crowd(people: int = 2000) -> Workspace:
    """A channel of many, which is archived: those, one who has left, and whoever asks."""
    made = town()
    uids = [f"UMANY{n}" for n in range(people)]
    made.users += [{"id": uid, "name": uid.lower(), "deleted": uid == "UMANY7"} for uid in uids]
    made.channels.append({"id": "CBIG", "name": "big", "members": [*uids, "USTATS"]})
    made.messages["CBIG"] = []
    return made


@pytest.fixture
def there(connected: Slack, tmp_path: Path) -> Slack:
    of = crowd()
    settle(tmp_path, of)
    serve(connected, of)
    return connected


def serve(slack: Slack, of: Workspace, *faults: Fault, **options: object) -> None:
    """The same, archived, which has emptied it."""
    of.channels[-1] |= {"is_archived": True, "members": []}
    slack.serve(of, *faults, **options)


def unarchive(slack: Slack, *arguments: str) -> int:
    return called("unarchive", *arguments, now=NOW, waits=slack.waits)


def said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    found = capfd.readouterr()
    assert found.out == ""
    assert TOKEN not in found.err
    return found.err.splitlines()


def test_everybody_who_was_there_is_invited_in_groups(
    there: Slack, capfd: pytest.CaptureFixture[str]
) -> None:
    assert unarchive(there, "#big") == DONE
    assert said(capfd) == [
        "#big: unarchived",
        "#big: invited 900 people",
        "#big: invited 900 people",
        "#big: invited 199 people",
    ]
    told = there.told()
    assert told["channels"]["CBIG"]["is_archived"] is False
    everybody = {f"UMANY{n}" for n in range(2000)} - {"UMANY7"}
    assert set(told["members"]["CBIG"]) == everybody
    assert [raw["text"] for raw in told["messages"]["CBIG"]] == [
        "This channel is back. Inviting 1,999 people who were here.",
        "1,999 of 1,999 people invited.",
    ]


def test_it_can_be_done_again(there: Slack, capfd: pytest.CaptureFixture[str]) -> None:
    assert unarchive(there, "big") == DONE
    assert unarchive(there, "big") == DONE
    assert len(there.told()["members"]["CBIG"]) == 1999


def test_a_dry_run_asks_slack_nothing(there: Slack, capfd: pytest.CaptureFixture[str]) -> None:
    assert called("sync", "channels", now=NOW + 1, waits=there.waits) == DONE
    serve(there, crowd())
    capfd.readouterr()
    assert unarchive(there, "big", "--dry-run") == DONE
    assert capfd.readouterr().out == "#big would be unarchived and 2,000 people invited\n"
    assert there.methods() == []


def test_a_dry_run_says_that_a_channel_is_in_use(
    there: Slack, capfd: pytest.CaptureFixture[str]
) -> None:
    assert unarchive(there, "general", "--dry-run") == NOT_DONE
    assert said(capfd) == [
        "channelstats: #general is not archived, or was not when channels were read last"
    ]
    assert there.methods() == []


def test_a_group_that_is_refused_does_not_keep_the_next_one_out(
    there: Slack, capfd: pytest.CaptureFixture[str]
) -> None:
    serve(there, crowd(), Fault("error", "too_many_members", method=INVITE, after=1))
    assert unarchive(there, "big") == WITH_PROBLEMS
    lines = said(capfd)
    assert lines[2] == (
        "channelstats: #big: 900 people not invited: conversations.invite: too_many_members"
    )
    assert lines[3] == "#big: invited 199 people"
    assert len(there.told()["members"]["CBIG"]) == 1099
    assert there.calls("chat.postMessage")[-1]["text"] == "1,099 of 1,999 people invited."


def test_whom_slack_refuses_does_not_keep_the_others_out(
    there: Slack, capfd: pytest.CaptureFixture[str]
) -> None:
    of = crowd()
    of.users[-1]["is_restricted"] = True
    serve(there, of)
    assert unarchive(there, "big") == WITH_PROBLEMS
    assert "channelstats: #big: 1 person not invited: Slack refuses them" in said(capfd)
    assert len(there.told()["members"]["CBIG"]) == 1998


def test_a_bot_is_told_that_slack_does_not_let_it(
    there: Slack, capfd: pytest.CaptureFixture[str]
) -> None:
    serve(there, crowd(), bot=True)
    assert unarchive(there, "big") == NOT_DONE
    [line] = said(capfd)
    assert "give the token of a user (xoxp-…)" in line
    assert there.calls(INVITE) == []


def test_an_unknown_channel_is_an_error(there: Slack, capfd: pytest.CaptureFixture[str]) -> None:
    assert unarchive(there, "none") == NOT_DONE
    assert said(capfd) == ["channelstats: there is no channel 'none'"]
