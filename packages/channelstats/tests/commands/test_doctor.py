"""`channelstats doctor`: a line for each thing that is looked at; what is wrong decides its end."""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from channelstats.cli import main
from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from channelstats.credentials import Purpose
from channelstats.settings import OPTIONS
from channelstats.tables.items import HASH_KEYS
from support.channelstats.called import DATA, Capture, called
from support.channelstats.fake_slack import TOKEN, Fault
from support.channelstats.house import EXAMPLE, NOW
from support.channelstats.slack_house import Slack
from support.channelstats.small_workspace import workspace
from support.channelstats.workspace import write_linked

EVERY_SCOPE = (
    "users:read,channels:read,channels:history,channels:join,groups:read,groups:history,"
    "chat:write,files:write,channels:manage,"
    "chat:write.public"
)


class Doctor:
    """What the doctor says, by what it is about."""

    def __init__(self, capfd: Capture, *flags: str, now: float = NOW) -> None:
        capfd.readouterr()
        self.code = called("doctor", *flags, now=now)
        found = capfd.readouterr()
        assert found.err == ""
        assert TOKEN not in found.out
        self.lines = found.out.splitlines()

    def of(self, level: str, about: str = "") -> list[str]:
        begin = f"{level:<8} {about}"
        return [line[len(begin) :].lstrip(": ") for line in self.lines if line.startswith(begin)]


def test_with_nothing_there_it_says_what_is_missing_and_makes_nothing(
    capfd: Capture, tmp_path: Path
) -> None:
    found = Doctor(capfd)
    assert found.code == DONE
    assert found.of("problem") == []
    assert found.of("warning", "store") == ["channelstats-data: nothing has been imported yet"]
    assert len(found.of("warning", "token that reads")) == 1
    assert len(found.of("warning", "token that posts")) == 1
    assert re.match(r"channelstats \S+, Python 3\.", found.of("ok", "versions")[0])
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_is_missing_is_a_problem_and_ends_no_other_check(
    capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("jinja2", "not-installed-here", "msgspec", "nor-is-this")
    monkeypatch.setattr("channelstats.commands.doctor._LIBRARIES", names)
    found = Doctor(capfd)
    assert found.code == WITH_PROBLEMS
    assert found.of("problem") == ["versions: missing: not-installed-here, nor-is-this"]
    assert "jinja2" in found.of("ok", "versions")[0]
    assert found.of("warning", "store")


def test_a_store_says_what_it_holds(capfd: Capture) -> None:
    assert main(["import-export", str(EXAMPLE)]) == DONE
    before = sorted(path.name for path in DATA.iterdir())
    found = Doctor(capfd)
    assert found.code == DONE
    [store] = found.of("ok", "store")
    assert store.startswith(
        f"{(DATA / 'channelstats.sqlite').absolute()}: {len(HASH_KEYS)} tables, "
    )
    assert store.endswith(" MB")  # most of it is kept free for a full disk
    assert found.of("ok", "directory") == [
        "4 users, 3 of them active; 2 channels, 0 of them archived"
    ]
    assert found.of("ok", "messages")[0].startswith("10 days, the newest is 2024-03-16")
    assert sorted(path.name for path in DATA.iterdir()) == before
    later = Doctor(capfd, now=NOW + 30 * 86_400)
    assert later.of("warning", "messages")[0].startswith("the newest are of 2024-03-16")
    assert found.of("warning", "store") == []
    DATA.chmod(0o755)
    assert Doctor(capfd).of("warning", "store") == [
        "every user of this machine can read channelstats-data; chmod 700 ends that"
    ]


def test_a_store_that_is_none_or_anothers_is_a_problem_with_its_path(capfd: Capture) -> None:
    DATA.mkdir()
    file = DATA / "channelstats.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE other (x)")
    line = f"{file.absolute()} is a database of another program"
    assert Doctor(capfd).of("problem", "store") == [line]
    file.write_text("this is no database" * 100)
    found = Doctor(capfd)
    assert found.code == WITH_PROBLEMS
    assert found.of("problem", "store") == [f"cannot open {file.absolute()}: it is not a database"]
    assert len(found.of("ok", "versions")) == 1


def test_a_data_folder_that_is_a_file_is_a_problem(capfd: Capture) -> None:
    DATA.write_text("a file")
    line = "channelstats-data is not a folder; name another one with --data"
    assert Doctor(capfd).of("problem", "store") == [line]
    for command in (("report", "global"), ("import-export", str(EXAMPLE))):
        assert called(*command, now=NOW) == NOT_DONE
        assert capfd.readouterr().err == f"channelstats: {line}\n"


def test_a_store_of_another_prefix_has_no_tables(capfd: Capture) -> None:
    assert main(["import-export", str(EXAMPLE)]) == DONE
    found = Doctor(capfd, "--prefix", "other")
    assert found.of("warning", "store")[0].endswith("no tables that begin with 'other' yet")
    with closing(sqlite3.connect(DATA / "channelstats.sqlite")) as store:
        names = store.execute("SELECT * FROM sqlite_master").fetchall()
    assert "other" not in repr(names)


def test_settings_say_where_they_came_from(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    DATA.mkdir()
    (DATA / "channelstats.toml").write_text('slack_name = "example"\ninclude_bots = true\n')
    monkeypatch.setenv("CHANNELSTATS_MIN_GROUP", "5")
    monkeypatch.setenv("CHANNELSTATS_TIMEZONE", "UTC")
    monkeypatch.setenv("CHANNELSTATS_WEEKSTART", "monday")
    found = Doctor(capfd, "--week-start", "monday")
    assert found.of("ok", "settings") == [
        "week_start = monday (--week-start)",
        f"include_bots = yes ({DATA / 'channelstats.toml'}:2)",
        f"slack_name = example ({DATA / 'channelstats.toml'}:1)",
        "min_group = 5 (CHANNELSTATS_MIN_GROUP)",
        f"the {len(OPTIONS) - 4} others have their defaults",
    ]
    assert found.of("warning", "settings") == [
        "CHANNELSTATS_TIMEZONE is not a setting; did you mean CHANNELSTATS_REPORT_TIMEZONE?",
        "CHANNELSTATS_WEEKSTART is not a setting; did you mean CHANNELSTATS_WEEK_START?",
    ]


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────


def test_a_token_says_whose_it_is_and_that_it_serves_for_both(
    connected: Slack, capfd: Capture
) -> None:
    connected.serve(workspace(one=[], two=[]), scopes=EVERY_SCOPE)
    found = Doctor(capfd, "--slack-name", "example")
    assert found.code == DONE
    assert found.of("ok", "token that reads") == [
        "of CHANNELSTATS_READ_TOKEN: user stats of Example",
        "it has every scope that it needs",
    ]
    assert found.of("ok", "token that posts") == [
        "of CHANNELSTATS_READ_TOKEN: user stats of Example, the same as the one that reads",
        "it has every scope that it needs",
    ]
    assert found.of("warning", "links") == []
    assert set(connected.methods()) == {"auth.test", "conversations.list"}


def test_a_missing_scope_is_a_problem_and_called_by_name(
    connected: Slack, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected.serve(workspace(one=[]), scopes="channels:read,users:read")
    found = Doctor(capfd)
    assert found.code == WITH_PROBLEMS
    assert found.of("problem", "token that reads") == [
        "it lacks the scope channels:history, for sync messages"
    ]
    assert found.of("warning", "token that posts") == [
        "it lacks the scope chat:write, for reports that are sent"
    ]
    assert found.of("ok", "token that reads")[-1] == (
        "it could do more with channels:join (sync --join); "
        "groups:read and groups:history (sync --include-private)"
    )
    monkeypatch.setenv(Purpose.POST.variable, TOKEN)  # given for posting, and so needed
    assert "chat:write" in Doctor(capfd).of("problem", "token that posts")[0]
    connected.serve(workspace(one=[]), scopes="channels:write")  # of a token of a user
    lines = Doctor(capfd).lines
    assert not any("channels:join" in line or "channels:manage" in line for line in lines)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault("error", "token_revoked", times=-1), "token_revoked: the token was revoked"),
        (Fault("status", "500", times=-1), "HTTP 500, 6 times"),
    ],
)
def test_a_token_that_does_not_work_is_a_problem(
    connected: Slack, capfd: Capture, fault: Fault, says: str
) -> None:
    connected.serve(workspace(one=[]), fault)
    found = Doctor(capfd)
    assert found.code == WITH_PROBLEMS
    assert found.of("problem", "token that reads") == [
        f"of CHANNELSTATS_READ_TOKEN: auth.test: {says}"
    ]


def test_links_need_the_name_that_the_settings_or_an_export_say(
    connected: Slack, capfd: Capture, tmp_path: Path
) -> None:
    connected.serve(workspace(one=[]), scopes=EVERY_SCOPE)
    assert Doctor(capfd).of("warning", "links") == [
        "slack_name is not set: set slack_name = example"
    ]
    for name, warnings in (
        ("example", []),
        ("acme", ["slack_name is acme, but the token is of example"]),
    ):
        link = f"https://{name}.slack.com/files/UALICE/F1/a"
        export = write_linked(EXAMPLE, tmp_path / name, link)
        assert main(["import-export", str(export), "--prefix", name]) == DONE
        assert Doctor(capfd, "--prefix", name).of("warning", "links") == warnings
        given = Doctor(capfd, "--prefix", name, "--slack-name", "other")
        assert given.of("warning", "links") == ["slack_name is other, but the token is of example"]


def test_it_says_how_long_a_first_sync_takes(connected: Slack, capfd: Capture) -> None:
    many = workspace(**{f"c{n}": [] for n in range(600)})
    connected.serve(many, scopes=EVERY_SCOPE)
    [internal] = Doctor(capfd).of("ok", "app")
    assert internal == (
        "internal: 50 calls a minute for messages, 200 in each: "
        "a first sync of 600 channels takes 18 min or more, and one call for each thread"
    )
    [unlisted] = Doctor(capfd, "--app-kind", "unlisted").of("warning", "app")
    assert unlisted.startswith("unlisted: 1 call a minute for messages, 15 in each")
    assert "10 h or more, and one call for each thread; an app" in unlisted


def test_a_bot_is_told_what_it_cannot_read_and_targets_that_are_not_there(
    connected: Slack, capfd: Capture
) -> None:
    of = workspace(one=[], two=[], old=[])
    of.channels[0]["is_member"] = True
    of.channels[2]["is_archived"] = True
    connected.serve(of, scopes=EVERY_SCOPE, bot=True)
    found = Doctor(capfd, "--report-channel", "#one", "--brief-channel", "none")
    [bot, target] = found.of("warning", "channels")
    assert bot.startswith("the bot is not in 1 of 3 channels")
    assert target == "brief_channel: no public channel is called none"


def test_the_quiet_get_warnings_and_problems_alone(connected: Slack, capfd: Capture) -> None:
    connected.serve(workspace(one=[]), scopes=EVERY_SCOPE)
    found = Doctor(capfd, "--quiet")
    assert found.of("ok") == []
    assert len(found.of("warning")) == len(found.lines) == 2


def test_a_token_of_its_own_is_looked_at_for_posting(
    connected: Slack, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(Purpose.POST.variable, "xoxb-another")
    connected.serve(workspace(one=[]), scopes=EVERY_SCOPE)
    found = Doctor(capfd)
    assert found.of("problem", "token that posts")[0].startswith(
        "of CHANNELSTATS_POST_TOKEN: auth.test: invalid_auth"
    )
    assert "xoxb-another" not in "".join(found.lines)
    assert os.environ[Purpose.READ.variable] == TOKEN
