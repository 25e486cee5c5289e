"""`channelstats send-weekly`: what goes where, once, each by itself."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from support.channelstats.called import Capture, called, error_lines
from support.channelstats.fake_slack import Fault
from support.channelstats.house import NOW
from support.channelstats.slack_house import Slack, consistent
from support.channelstats.town import WEEK, open_for_business, settle, town

pytestmark = pytest.mark.slow

POST = "chat.postMessage"

EVERYTHING = [
    "global report to #stats",
    "brief report to #brief",
    "report on #dev to #dev-stats",
    "report on #general to #general-stats",
    "report to @ali",
    "report to @Bob Berg",
]
LINKS = "links to reports on channels to #links"


def weekly(slack: Slack, *arguments: str, week: Sequence[str] = WEEK, now: float = NOW) -> int:
    return called("send-weekly", *week, *arguments, now=now, waits=slack.waits)


def places(slack: Slack) -> list[str]:
    """Where messages were posted that Slack took, in the order of IDs."""
    found = slack.messages
    return sorted(cid for cid, raws in found.items() for raw in raws if raw.get("user") == "USTATS")


def test_every_report_goes_to_its_place_with_links_and_topics(there: Slack, capfd: Capture) -> None:
    assert weekly(there) == DONE
    assert error_lines(capfd) == [f"{words}: sent" for words in EVERYTHING]
    everywhere = ["CBRIEF", "CDEVSTATS", "CGENERALSTATS", "CLINKS", "CLINKS", "CSTATS"]
    assert places(there) == [*everywhere, "DALICE", "DBOB"]

    link = there.messages["CDEVSTATS"][0]["ts"].replace(".", "")
    first, second = [raw["blocks"][0]["text"]["text"] for raw in there.messages["CLINKS"]]
    assert first == (
        f"<https://example.slack.com/archives/CDEVSTATS/p{link}|The report> on <#CDEV>, "
        "Sunday 10 March 2024 to Saturday 16 March 2024"
    )
    assert "on <#CGEN>" in second

    # A topic is set where it differs, and nobody stays who was not there.
    assert there.calls("conversations.setTopic") == [
        {"channel": "CDEVSTATS", "topic": "Weekly reports on dev"}
    ]
    moves = [method for method in there.methods() if method.endswith((".join", ".leave"))]
    assert moves == ["conversations.join", "conversations.leave"]


def test_a_week_that_a_sync_could_not_read_is_not_sent_and_the_reason_is_told(
    there: Slack, capfd: Capture
) -> None:
    later = NOW + 7 * 86_400
    cut = Fault("cut", method="conversations.history", channel="CDEV", times=-1)
    there.serve(consistent(town()), cut)
    assert called("sync", "all", now=later, waits=there.waits) == WITH_PROBLEMS
    capfd.readouterr()
    assert weekly(there, week=(), now=later) == NOT_DONE
    [line] = error_lines(capfd)
    assert "; the last sync did not read everything (dev: conversations.history: the ans" in line
    assert "): run channelstats sync all, or import" in line
    assert places(there) == []


def test_without_messages_it_says_where_they_come_from(connected: Slack, capfd: Capture) -> None:
    connected.serve(consistent(town()))
    assert called("sync", "users", "--quiet", now=NOW, waits=connected.waits) == DONE
    assert weekly(connected) == NOT_DONE
    [line] = error_lines(capfd)
    assert line == (
        "channelstats: there are no messages in the store; see channelstats import-export and "
        "channelstats sync"
    )


def test_a_dry_run_touches_nothing_and_a_second_run_sends_nothing(
    there: Slack, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.delenv("CHANNELSTATS_READ_TOKEN")
        assert weekly(there, "--dry-run") == DONE
    assert capfd.readouterr() == ("".join(f"{line}\n" for line in [*EVERYTHING, LINKS]), "")
    assert there.methods() == []

    assert weekly(there) == DONE
    posts = len(there.calls(POST))
    capfd.readouterr()
    assert weekly(there) == DONE
    assert error_lines(capfd) == ["nothing left to send for the week of 2024-03-10"]
    assert weekly(there, "--quiet") == DONE
    assert error_lines(capfd) == []
    assert len(there.calls(POST)) == posts
    assert weekly(there, "--dry-run") == DONE
    already = [f"{words} (sent already)" for words in EVERYTHING]
    assert capfd.readouterr().out.splitlines() == [*already, LINKS]


def test_goals_and_alerts_are_one_message_in_the_channel_of_the_weekly_report(
    there: Slack, capfd: Capture
) -> None:
    bounds = (
        *("--goals", "threads.unanswered_share <= 30, people.posters >= 2"),
        *("--alerts", "people.messages > 5,people.messages > 5000"),
    )
    assert weekly(there, "--dry-run", *bounds) == DONE
    assert "goals and alerts to #stats" in capfd.readouterr().out.splitlines()
    assert weekly(there, *bounds) == DONE
    assert error_lines(capfd)[-1] == "goals and alerts to #stats: sent"
    [block] = there.messages["CSTATS"][-1]["blocks"]
    title, alert, *goals = block["text"]["text"].splitlines()
    assert title.startswith("*Goals and alerts, Sunday 10 March 2024 to Saturday 16 March")
    assert alert.startswith("Messages: ")
    assert alert.endswith(" (alert: more than 5)")
    assert [line.rpartition(", ")[2] for line in goals] == ["not met)", "met)"]
    silent = ("--alerts", "people.messages > 5000")
    for flags in (bounds, silent):
        assert weekly(there, *flags) == DONE
        assert error_lines(capfd) == ["nothing left to send for the week of 2024-03-10"]


def test_a_report_that_fails_costs_itself_alone(there: Slack, capfd: Capture) -> None:
    gone = Fault("error", "channel_not_found", method=POST, channel="CDEVSTATS")
    open_for_business(there, gone)
    assert weekly(there) == WITH_PROBLEMS
    lines = error_lines(capfd)
    [failed] = [line for line in lines if line.startswith("channelstats: ")]
    assert failed.startswith(f"channelstats: report on #dev to #dev-stats: {POST}: channel_not_fo")
    assert len(lines) == len(EVERYTHING)

    assert weekly(there) == DONE
    assert error_lines(capfd) == ["report on #dev to #dev-stats: sent"]
    assert len(there.messages["CLINKS"]) == 2


def test_who_gets_a_report_and_what_the_bot_is_in_is_what_slack_says_now(
    connected: Slack, tmp_path: Path
) -> None:
    settle(tmp_path)
    of = town()
    [optin] = [channel for channel in of.channels if channel["name"] == "optin"]
    optin["members"] = ["UCARA", "UDAVE", "UROBOT", "UNEW"]
    for channel in of.channels:
        channel["is_member"] = True
    connected.serve(of, bot=True)
    assert weekly(connected) == DONE
    assert [cid for cid in places(connected) if cid.startswith("D")] == ["DCARA"]
    assert "conversations.leave" not in connected.methods()  # where it was a member before
    assert "conversations.join" not in connected.methods()


def test_whoever_is_left_out_gets_none(there: Slack, capfd: Capture) -> None:
    flags = ["--exclude-users", "@bob", "--exclude-channels", "dev", "--dry-run"]
    assert weekly(there, *flags) == DONE
    listed = capfd.readouterr().out.splitlines()
    left = [words for words in EVERYTHING if "Bob" not in words and "#dev" not in words]
    assert listed == [*left, LINKS]


def test_where_members_cannot_be_read_no_report_goes_to_people(
    there: Slack, capfd: Capture
) -> None:
    more = {"needed": "channels:read"}
    lacking = Fault("error", "missing_scope", method="conversations.members", more=more)
    open_for_business(there, lacking)
    assert weekly(there) == WITH_PROBLEMS
    assert not [cid for cid in places(there) if cid.startswith("D")]
    assert "who wants one is not known" in (lines := error_lines(capfd))[0]
    assert "lacks the scope channels:read" in lines[0]


def test_a_channel_of_few_is_not_reported_on(there: Slack, capfd: Capture) -> None:
    assert weekly(there, "--min-group", "4") == DONE
    lines = error_lines(capfd)
    assert "report on #dev to #dev-stats: not sent, too few people posted there" in lines
    assert "CDEVSTATS" not in places(there)


def test_what_is_private_goes_to_no_public_place(
    connected: Slack, tmp_path: Path, capfd: Capture
) -> None:
    of = town()
    [dev] = [channel for channel in of.channels if channel["name"] == "dev"]
    settle(tmp_path, of)
    assert weekly(connected, "--dry-run") == DONE
    assert "report on #dev to #dev-stats" in capfd.readouterr().out
    connected.serve(of)
    dev["is_private"] = True
    connected.serve(of)
    assert called("sync", "channels", "--include-private", now=NOW, waits=connected.waits) == DONE
    capfd.readouterr()
    assert weekly(connected, "--dry-run") == DONE
    assert "#dev" not in capfd.readouterr().out


def test_settings_that_mean_nothing_are_named_and_the_rest_goes_out(
    there: Slack, capfd: Capture
) -> None:
    names = ("--report-channel", "--channel-stats", "--optin-channel")
    flags = [word for name in names for word in (name, f"no{name}")]
    assert weekly(there, *flags) == WITH_PROBLEMS
    lines = error_lines(capfd)
    for name in names:
        assert f"there is no channel 'no{name}'" in "\n".join(lines[:3])
    assert "brief report to #brief: sent" in lines


def test_nowhere_to_send_to_is_told(connected: Slack, tmp_path: Path, capfd: Capture) -> None:
    of = town()
    of.channels = [channel for channel in of.channels if not channel["name"].endswith("-stats")]
    settle(tmp_path, of, settings="")
    connected.serve(of)
    assert weekly(connected) == WITH_PROBLEMS
    assert "there is nowhere to send to: set report_channel" in error_lines(capfd)[0]
    assert connected.methods() == []


# ── a week that is not there ────────────────────────────────────────────────────────────────────


def test_a_week_that_was_not_read_to_its_end_is_not_sent(there: Slack, capfd: Capture) -> None:
    week, now = ("--week", "2024-03-18"), NOW + 4 * 86_400
    assert weekly(there, week=week, now=now) == NOT_DONE
    [line] = error_lines(capfd)
    assert line == (
        "channelstats: the week ends on 2024-03-24 00:00 and Slack was read up to 2024-03-21 "
        "00:00: run channelstats sync all, or import an export that was taken later; --anyway "
        "sends all the same"
    )
    assert weekly(there, "--dry-run", week=week, now=now) == WITH_PROBLEMS
    assert "the week ends on 2024-03-24 00:00" in capfd.readouterr().err
    assert weekly(there, "--dry-run", "--week", "2024-03-20", week=()) == WITH_PROBLEMS
    assert "the week is not over before 2024-03-24 00:00" in capfd.readouterr().err
    assert there.methods() == []
    assert weekly(there, "--anyway", week=week, now=now) == DONE
    assert len(error_lines(capfd)) == len(EVERYTHING)


# ── nothing more can be done ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("token_revoked", "the token was revoked"),
        ("missing_scope", "nothing can be sent without the scope chat:write"),
    ],
)
def test_where_nothing_can_be_sent_any_more_it_stops(
    there: Slack, capfd: Capture, code: str, says: str
) -> None:
    more = {"needed": "chat:write"}
    open_for_business(there, Fault("error", code, method=POST, after=2, times=-1, more=more))
    assert weekly(there) == NOT_DONE
    last = error_lines(capfd)[-1]
    assert last.startswith("channelstats: stopped: ")
    assert says in last
    assert len(there.calls(POST)) == 3


def test_a_scope_that_is_beside_the_point_is_missed_once(there: Slack, capfd: Capture) -> None:
    more = {"needed": "channels:read"}
    lacking = [
        Fault("error", "missing_scope", method=method, times=-1, more=more)
        for method in ("conversations.info", "chat.getPermalink")
    ]
    open_for_business(there, *lacking)
    assert weekly(there) == WITH_PROBLEMS
    lines = error_lines(capfd)
    failed = [line for line in lines if line.startswith("channelstats: ")]
    assert [line.split(":")[1] for line in failed] == [
        " link to the report on #dev to #dev-stats",
        " topic for the report on #dev to #dev-stats",
    ]
    assert len(lines) == len(EVERYTHING) + 2


def test_slack_out_of_reach_is_given_up_after_a_few(there: Slack, capfd: Capture) -> None:
    broken = [
        Fault("status", "503", method=method, times=-1)
        for method in (POST, "conversations.history", "conversations.open")
    ]
    open_for_business(there, *broken)
    assert weekly(there) == NOT_DONE
    lines = error_lines(capfd)
    assert lines[-1] == "channelstats: stopped: no answer for 5 reports in a row"
    assert len(lines) == 6
