"""`channelstats sync`: what it says, how it ends, and that the next run completes it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from channelstats.__main__ import INTERRUPTED
from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from support.channelstats.called import Capture, called, error_lines, stored
from support.channelstats.fake_slack import Fault
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import START, at, said, three, ts, workspace
from support.paths import PYTHONPATH

NOW = at(5)
HISTORY = "conversations.history"
ALL_OF_IT = "read: 2 users (2 new), 3 channels, 11 messages of 3 channels, 11 new or changed"


def sync(slack: Slack, *flags: str, what: str = "all", now: float = NOW) -> int:
    one_by_one = ("--concurrency", "1")
    return called("sync", what, *one_by_one, *flags, now=now, waits=slack.waits)


def test_a_run_says_what_it_read(connected: Slack, capfd: Capture) -> None:
    connected.serve(three())
    assert sync(connected) == DONE
    assert error_lines(capfd) == [ALL_OF_IT]
    assert len(stored()) == 11
    assert sync(connected, now=NOW + 60) == DONE
    assert error_lines(capfd) == ["read: 2 users (0 new), 3 channels, 11 messages of 3 channels"]
    assert sync(connected, "--quiet", now=NOW + 120) == DONE
    assert error_lines(capfd) == []


@pytest.mark.parametrize(
    ("what", "expected", "methods"),
    [
        ("users", "read: 2 users (2 new)", {"users.list"}),
        ("channels", "read: 3 channels", {"conversations.list", "conversations.members"}),
        (
            "messages",
            "read: 11 messages of 3 channels, 11 new or changed",
            {"conversations.list", HISTORY, "conversations.replies"},
        ),
    ],
)
def test_a_part_can_be_read_alone(
    connected: Slack, capfd: Capture, what: str, expected: str, methods: set[str]
) -> None:
    connected.serve(three())
    assert sync(connected, what=what) == DONE
    assert error_lines(capfd) == [expected]
    assert set(connected.methods()) == methods


# ── what is chosen ──────────────────────────────────────────────────────────────────────────────


def test_a_date_reads_back_further_than_any_setting(connected: Slack) -> None:
    of = workspace(one=[said(-300), said(-200), said(4)])
    connected.serve(of)
    assert sync(connected) == DONE
    assert list(stored()) == [f"CONE_{ts(4)}"]
    assert sync(connected, "--since", "2023-04-01") == DONE  # day -200 is 2023-04-28
    assert sorted(stored()) == [f"CONE_{ts(-200)}", f"CONE_{ts(4)}"]


def test_a_date_is_not_forestalled_by_what_an_interrupted_run_has_done(
    connected: Slack, capfd: Capture
) -> None:
    of = workspace(one=[said(-200), said(4)], two=[said(4)])
    connected.serve(of, Fault("error", "token_revoked", method=HISTORY, after=1, times=-1))
    assert sync(connected) == NOT_DONE
    assert error_lines(capfd)[-1].endswith("; stopped, run it again to go on")
    connected.serve(of)
    assert sync(connected, "--since", "2023-04-01") == DONE
    assert f"CONE_{ts(-200)}" in stored()


def test_no_more_is_read_than_may_be_kept(connected: Slack) -> None:
    connected.serve(workspace(one=[said(-300), said(-2), said(4)]))
    assert sync(connected, "--since", "2023-01-01", "--retention-days", "3") == DONE
    assert list(stored()) == [f"CONE_{ts(4)}"]


def test_what_grows_too_old_goes(connected: Slack, capfd: Capture) -> None:
    connected.serve(workspace(one=[said(1), said(2), said(4)]))
    assert sync(connected) == DONE
    error_lines(capfd)
    assert sync(connected, "--retention-days", "3", now=at(6)) == DONE
    assert error_lines(capfd)[-1] == "removed: 2 messages older than 3 days"
    assert list(stored()) == [f"CONE_{ts(4)}"]
    assert sync(connected, "--retention-days", "3", now=at(6)) == DONE
    assert not any("removed" in line for line in error_lines(capfd))


def test_a_bot_reads_what_it_is_in_and_joins_the_rest_on_demand(
    connected: Slack, capfd: Capture
) -> None:
    of = three()
    of.channels[0]["is_member"] = True
    of.channels.append({"id": "COLD", "name": "old", "is_archived": True, "created": START})
    connected.serve(of, bot=True)
    assert sync(connected) == WITH_PROBLEMS
    problem, summary = error_lines(capfd)
    assert problem == (
        "channelstats: the bot of the token is not in 2 channels: two, zoo; invite it, or join "
        "them with --join, or use the token of a user"
    )
    assert summary.endswith(", not 1 archived channel that the bot is not in, 2 problems")
    assert sync(connected, "--join") == DONE
    assert [asked["channel"] for asked in connected.calls("conversations.join")] == ["CTWO", "CZOO"]
    assert len(stored()) == 11


def test_without_the_right_to_join_what_can_be_read_is_read(
    connected: Slack, capfd: Capture
) -> None:
    of = three()
    of.channels[2]["is_member"] = True
    more = {"needed": "channels:join"}
    lacking = Fault("error", "missing_scope", "conversations.join", times=-1, more=more)
    connected.serve(of, lacking, bot=True)
    assert sync(connected, "--join", what="messages") == WITH_PROBLEMS
    one, two, summary = error_lines(capfd)
    assert one == ("channelstats: one: conversations.join: the token lacks the scope channels:join")
    assert two.startswith("channelstats: the bot of the token is not in 1 channel: two; invite it")
    assert summary == "read: 1 message of 1 channel, 1 new or changed, 2 problems"
    assert len(connected.calls("conversations.join")) == 1


# ── after a pause ───────────────────────────────────────────────────────────────────────────────


def test_what_was_said_in_a_pause_longer_than_max_age_is_told_as_missing_once(
    connected: Slack, capfd: Capture
) -> None:
    connected.serve(three())
    assert sync(connected) == DONE
    error_lines(capfd)
    of = workspace(one=[said(10)], two=[said(40)], zoo=[], fresh=[said(40)])
    connected.serve(of)
    assert sync(connected, now=at(45)) == WITH_PROBLEMS
    problem, summary = error_lines(capfd)
    assert problem == (
        "channelstats: 3 channels were last read on 2023-11-19 or later (#one, #two, #zoo), and "
        "max_age reads back to 2023-12-08: what was said in between is missing; channelstats sync "
        "messages --since 2023-11-19 fills it"
    )
    assert summary.endswith(", 3 problems")
    assert f"CONE_{ts(10)}" not in stored()
    assert sync(connected, now=at(46)) == DONE
    assert sync(connected, "--since", "2023-11-19", what="messages", now=at(46)) == DONE
    assert f"CONE_{ts(10)}" in stored()


def test_one_channel_is_called_by_its_name(connected: Slack, capfd: Capture) -> None:
    connected.serve(workspace(one=[said(1)]))
    assert sync(connected) == DONE
    error_lines(capfd)
    assert sync(connected, "--since", "2023-12-01", now=at(6)) == WITH_PROBLEMS
    assert error_lines(capfd)[0].startswith(
        "channelstats: #one was last read on 2023-11-19, and --since reads back to 2023-12-01: "
    )


def test_what_would_be_removed_is_not_missing(connected: Slack) -> None:
    connected.serve(three())
    assert sync(connected, "--retention-days", "10") == DONE
    assert sync(connected, "--retention-days", "10", now=at(45)) == DONE


# ── faults ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("flags", "told"), [((), True), (("--quiet",), False)])
def test_a_long_wait_is_told(
    connected: Slack, capfd: Capture, flags: tuple[str, ...], told: bool
) -> None:
    connected.serve(three(), Fault("rate", "300", method=HISTORY), most=3)
    assert sync(connected, *flags) == DONE
    waited = f"Slack asks to wait 300 s before the next {HISTORY}"
    assert error_lines(capfd) == ([waited, ALL_OF_IT] if told else [])


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        pytest.param(
            Fault("cut", method=HISTORY, channel="CTWO", after=1, times=-1),
            "two: conversations.history: the answer was cut, 6 times",
            id="cut in mid-page",
        ),
    ],
)
def test_what_cannot_be_read_is_one_line_and_the_next_run_completes_it(
    connected: Slack, capfd: Capture, fault: Fault, line: str
) -> None:
    connected.serve(three(), fault, most=3)
    assert sync(connected) == WITH_PROBLEMS
    problems = [said for said in error_lines(capfd) if said.startswith("channelstats:")]
    assert problems == [f"channelstats: {line}"]
    connected.serve(three(), most=3)
    assert sync(connected, now=NOW + 60) == DONE
    assert len(stored()) == 11
    assert len(stored("User")) == 2


def test_without_any_scope_nothing_is_done_and_each_is_called_by_name(
    connected: Slack, capfd: Capture
) -> None:
    needed = {"users.list": "users:read", "conversations.list": "channels:read"}
    lacking = [
        Fault("error", "missing_scope", method, times=-1, more={"needed": scope})
        for method, scope in needed.items()
    ]
    connected.serve(three(), *lacking)
    assert sync(connected) == NOT_DONE
    assert [line for line in error_lines(capfd) if "scope" in line] == [
        f"channelstats: {method}: the token lacks the scope {scope}"
        for method, scope in needed.items()
    ]


def test_without_a_token_nothing_is_made(capfd: Capture, tmp_path: Path) -> None:
    assert called("sync", "all", now=NOW) == NOT_DONE
    [line] = error_lines(capfd)
    assert "CHANNELSTATS_READ_TOKEN" in line
    assert "--read-token-file" in line
    assert list(tmp_path.iterdir()) == []


# ── as a process ────────────────────────────────────────────────────────────────────────────────


def test_an_interrupted_process_says_so_and_the_next_one_goes_on(connected: Slack) -> None:
    held = Fault("rate", "60", method=HISTORY, channel="CTWO", times=-1)
    connected.serve(three(), held)
    flags = ("--max-age", "36600", "--concurrency", "1")
    first = subprocess.Popen(
        [sys.executable, "-m", "channelstats", "sync", "all", *flags],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
    )
    connected.wait_for(HISTORY, 2)  # of CTWO
    first.send_signal(signal.SIGINT)
    _, err = first.communicate(timeout=60)
    assert (first.returncode, err) == (
        INTERRUPTED,
        "channelstats: interrupted; run it again to go on\n",
    )
    connected.serve(three())
    assert sync(connected, "--max-age", "36600", now=time.time()) == DONE
    assert sorted(asked["channel"] for asked in connected.calls(HISTORY)) == ["CTWO", "CZOO"]
    assert len(stored()) == 11
