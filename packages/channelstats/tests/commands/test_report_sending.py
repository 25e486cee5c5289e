"""`channelstats report --send`: where to, once, and what is said."""

from pathlib import Path

import pytest

from channelstats.commands import DONE, NOT_DONE
from support.channelstats.called import Capture, called
from support.channelstats.fake_slack import Fault
from support.channelstats.house import NOW
from support.channelstats.slack_house import Slack
from support.channelstats.town import WEEK, open_for_business

pytestmark = pytest.mark.slow

POST = "chat.postMessage"


def send(slack: Slack, *arguments: str, now: float = NOW) -> int:
    return called("report", *arguments, *WEEK, "--send", now=now, waits=slack.waits)


@pytest.mark.parametrize(
    ("asked", "cid", "place"),
    [
        ("global", "CSTATS", "#stats"),
        ("brief", "CBRIEF", "#brief"),
        ("channel dev", "CDEVSTATS", "#dev-stats"),
        ("user @bob", "DBOB", "@Bob Berg"),
        ("global --destination #general", "CGEN", "#general"),
        ("channel dev --destination @ali", "DALICE", "@ali"),
        ("brief --destination CDEV", "CDEV", "#dev"),
    ],
)
def test_a_report_goes_to_its_place_or_where_it_is_told_to(
    there: Slack, capfd: Capture, asked: str, cid: str, place: str
) -> None:
    assert send(there, *asked.split()) == DONE
    assert capfd.readouterr() == ("", f"to {place}: sent\n")
    assert [raw for raw in there.messages[cid] if "blocks" in raw]
    assert len(there.calls(POST)) == 1


def test_a_dry_run_says_what_would_go_where_and_asks_slack_nothing(
    there: Slack, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called("report", "global", *WEEK, now=NOW, waits=there.waits) == DONE
    assert capfd.readouterr().out.startswith("Workspace report\n")
    monkeypatch.delenv("CHANNELSTATS_READ_TOKEN")
    assert send(there, "channel", "dev", "--dry-run", "--attach", "html") == DONE
    assert capfd.readouterr().out == (
        "Report on #dev: Sunday 10 March 2024 to Saturday 16 March 2024: "
        "1 message and channel-CDEV.html to #dev-stats\n"
    )
    assert send(there, "global") == NOT_DONE
    assert "CHANNELSTATS_POST_TOKEN" in capfd.readouterr().err
    assert there.methods() == []


def test_a_second_run_sends_nothing_but_on_purpose(there: Slack, capfd: Capture) -> None:
    assert send(there, "global") == DONE
    assert send(there, "global", now=NOW + 9000) == DONE
    assert capfd.readouterr().err.splitlines()[1] == (
        "to #stats: sent already on 2024-03-21 05:46; --again sends it once more"
    )
    assert len(there.calls(POST)) == 1
    assert send(there, "global", "--dry-run") == DONE
    assert capfd.readouterr().out.endswith("; sent already on 2024-03-21 05:46\n")
    assert send(there, "global", "--again") == DONE
    assert len(there.calls(POST)) == 2


def test_the_page_goes_into_the_thread(there: Slack) -> None:
    assert send(there, "global", "--attach", "html") == DONE
    [file], [message] = there.server.files.values(), there.messages["CSTATS"]
    assert file["name"] == "global.html"
    assert file["title"] == ("Workspace report: Sunday 10 March 2024 to Saturday 16 March 2024")
    assert "<!doctype html>" in file["text"].lower()
    assert (file["channel"], file["thread_ts"]) == ("CSTATS", message["ts"])


def test_what_is_sent_or_not_may_be_kept_as_files(
    there: Slack, tmp_path: Path, capfd: Capture
) -> None:
    out = tmp_path / "out"
    assert send(there, "global", "--out-dir", str(out)) == DONE
    assert not out.exists()
    flags = ["--out-dir", str(out), "--format", "slack", "--format", "json", "--again"]
    assert send(there, "global", *flags) == DONE
    assert sorted(path.name for path in out.iterdir()) == ["global.json", "global.slack"]
    assert called("report", "global", *WEEK, "--out-dir", str(out), now=NOW) == DONE
    assert capfd.readouterr().out == ""
    assert (out / "global.text").read_text().startswith("Workspace report\n")


def test_the_reports_say_where_to_ask_and_how_to_stop(there: Slack) -> None:
    assert send(there, "user", "@bob") == DONE
    assert send(there, "channel", "dev") == DONE
    user, channel = (str(asked["blocks"]) for asked in there.calls(POST))
    assert "You get this because you are in <#COPTIN|optin>. Leave it" in user
    assert "Questions about this report? Ask in <#CHELP|help>." in user
    assert "Questions about this report? Ask in <#CHELP|help>." in channel


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("channel stats", "there is no channel #stats-stats for the report on #stats"),
        ("channel lonely", "#lonely-stats is archived"),
        ("brief --brief-channel=", "where to? Give --destination, or set brief_channel"),
        ("global --report-channel nowhere", "there is no channel 'nowhere'"),
        ("global --destination #nowhere", "there is no channel '#nowhere'"),
        ("global --destination @nobody", "there is no user '@nobody'"),
    ],
)
def test_without_a_place_to_go_to_it_says_so_and_sends_nothing(
    there: Slack, capfd: Capture, asked: str, says: str
) -> None:
    assert send(there, *asked.split()) == NOT_DONE
    error = capfd.readouterr().err
    assert (error.count("\n"), says in error) == (1, True)
    assert there.methods() == []


def test_what_slack_refuses_is_one_line(there: Slack, capfd: Capture) -> None:
    open_for_business(there, Fault("error", "token_revoked", method=POST))
    assert send(there, "global") == NOT_DONE
    assert capfd.readouterr().err == (
        f"channelstats: not sent to #stats: {POST}: token_revoked: the token was revoked\n"
    )
