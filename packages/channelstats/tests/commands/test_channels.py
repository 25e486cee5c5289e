"""create-stats-channel and unarchive: channels are changed in Slack."""

from pathlib import Path

import pytest

from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from support.channelstats.called import Capture, called, error_lines
from support.channelstats.fake_slack import Fault
from support.channelstats.house import NOW
from support.channelstats.slack_house import Slack
from support.channelstats.town import open_for_business, settle, town
from support.channelstats.workspace import Workspace

# ── stats channel ─────────────────────────────────────────────────────────────────────────────────


CREATE = "conversations.create"


def create(slack: Slack, *arguments: str) -> int:
    return called("create-stats-channel", *arguments, now=NOW, waits=slack.waits)


def test_a_channel_is_made_with_a_purpose_and_reports_go_there_at_once(
    there: Slack, capfd: Capture
) -> None:
    assert create(there, "help", "#stats") == DONE
    assert error_lines(capfd) == ["#help-stats made", "#stats-stats made"]
    made = {of["name"]: of for of in there.told()["channels"].values()}
    assert made["help-stats"]["purpose"] == {"value": "Weekly reports on the channel help"}
    assert called("send-weekly", "--dry-run", now=NOW) == DONE
    assert "report on #help to #help-stats\n" in capfd.readouterr().out


def test_what_is_there_is_left_alone(there: Slack, capfd: Capture) -> None:
    assert create(there, "dev") == DONE
    assert error_lines(capfd) == ["#dev-stats exists already"]
    assert there.methods() == []


def test_a_dry_run_asks_slack_nothing(there: Slack, capfd: Capture) -> None:
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
    there: Slack, capfd: Capture, fault: Fault, says: str
) -> None:
    open_for_business(there, fault)
    assert create(there, "help", "nowhere", "stats") == WITH_PROBLEMS
    lines = error_lines(capfd)
    assert lines[0] == "channelstats: there is no channel 'nowhere'"
    assert lines[1].startswith(f"channelstats: #help-stats: {CREATE}: ")
    assert says in lines[1]
    assert lines[2] == "#stats-stats made"


def test_a_lost_answer_is_not_asked_for_twice(there: Slack, capfd: Capture) -> None:
    open_for_business(there, Fault("cut", method=CREATE))
    assert create(there, "help") == WITH_PROBLEMS
    assert len(there.calls(CREATE)) == 1
    assert "#help-stats: conversations.create: " in error_lines(capfd)[0]


# ── unarchive ─────────────────────────────────────────────────────────────────────────────────────


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
def archived(connected: Slack, tmp_path: Path) -> Slack:
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


def test_everybody_who_was_there_is_invited_in_groups(archived: Slack, capfd: Capture) -> None:
    assert unarchive(archived, "#big") == DONE
    assert error_lines(capfd) == [
        "#big: unarchived",
        "#big: invited 900 people",
        "#big: invited 900 people",
        "#big: invited 199 people",
    ]
    told = archived.told()
    assert told["channels"]["CBIG"]["is_archived"] is False
    everybody = {f"UMANY{n}" for n in range(2000)} - {"UMANY7"}
    assert set(told["members"]["CBIG"]) == everybody
    assert [raw["text"] for raw in told["messages"]["CBIG"]] == [
        "This channel is back. Inviting 1,999 people who were here.",
        "1,999 of 1,999 people invited.",
    ]


def test_it_can_be_done_again(archived: Slack, capfd: Capture) -> None:
    assert unarchive(archived, "big") == DONE
    assert unarchive(archived, "big") == DONE
    assert len(archived.told()["members"]["CBIG"]) == 1999


def test_a_dry_run_says_how_many_and_asks_slack_nothing(archived: Slack, capfd: Capture) -> None:
    assert called("sync", "channels", now=NOW + 1, waits=archived.waits) == DONE
    serve(archived, crowd())
    capfd.readouterr()
    assert unarchive(archived, "big", "--dry-run") == DONE
    assert capfd.readouterr().out == "#big would be unarchived and 2,000 people invited\n"
    assert archived.methods() == []


def test_a_dry_run_says_that_a_channel_is_in_use(archived: Slack, capfd: Capture) -> None:
    assert unarchive(archived, "general", "--dry-run") == NOT_DONE
    assert error_lines(capfd) == [
        "channelstats: #general is not archived, or was not when channels were last read"
    ]
    assert archived.methods() == []


def test_a_group_that_is_refused_does_not_keep_the_next_one_out(
    archived: Slack, capfd: Capture
) -> None:
    serve(archived, crowd(), Fault("error", "too_many_members", method=INVITE, after=1))
    assert unarchive(archived, "big") == WITH_PROBLEMS
    lines = error_lines(capfd)
    assert lines[2] == (
        "channelstats: #big: 900 people not invited: conversations.invite: too_many_members"
    )
    assert lines[3] == "#big: invited 199 people"
    assert len(archived.told()["members"]["CBIG"]) == 1099
    assert archived.calls("chat.postMessage")[-1]["text"] == "1,099 of 1,999 people invited."


def test_whom_slack_refuses_does_not_keep_the_others_out(archived: Slack, capfd: Capture) -> None:
    of = crowd()
    of.users[-1]["is_restricted"] = True
    serve(archived, of)
    assert unarchive(archived, "big") == WITH_PROBLEMS
    assert "channelstats: #big: 1 person not invited: Slack refuses them" in error_lines(capfd)
    assert len(archived.told()["members"]["CBIG"]) == 1998


def test_a_bot_is_told_that_slack_does_not_let_it(archived: Slack, capfd: Capture) -> None:
    serve(archived, crowd(), bot=True)
    assert unarchive(archived, "big") == NOT_DONE
    [line] = error_lines(capfd)
    assert "give the token of a user (xoxp-…)" in line
    assert archived.calls(INVITE) == []


def test_an_unknown_channel_is_an_error(archived: Slack, capfd: Capture) -> None:
    assert unarchive(archived, "nowhere") == NOT_DONE
    assert error_lines(capfd) == ["channelstats: there is no channel 'nowhere'"]
