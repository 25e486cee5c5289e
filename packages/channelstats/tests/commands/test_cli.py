"""The command line, from an export to reports."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from channelstats.cli import main
from channelstats.commands import COMMANDS, NOT_DONE, USAGE
from support.channelstats.called import Capture, called, stored
from support.channelstats.house import EXAMPLE, NOW

WEEK = ["--week", "2024-03-12"]


UP_TO = (
    "it has every message up to 2024-03-17 00:00: the day of its newest message; if it was taken "
    "later, say so with --until DATE"
)


@pytest.fixture
def data(taken_in: Path, tmp_path: Path) -> list[str]:
    """The flag of a data folder that the worked example is in."""
    return ["--data", str(shutil.copytree(taken_in, tmp_path / "data"))]


def error_of(arguments: list[str], capfd: Capture) -> str:
    assert main(arguments) == NOT_DONE
    found = capfd.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    return found.err


def test_a_report_goes_to_standard_output(data: list[str], capfd: Capture) -> None:
    assert main(["report", "global", *WEEK, *data]) == 0
    found = capfd.readouterr()
    assert found.out.startswith("Workspace report\n")
    assert "8 (+60%)" in found.out
    assert found.err == ""


def test_a_report_goes_to_a_folder_in_every_form(data: list[str], tmp_path: Path) -> None:
    forms = ["text", "html", "json", "slack", "csv", "parquet"]
    flags = [word for form in forms for word in ("--format", form)]
    assert main(["report", "global", *WEEK, *data, *flags, "--out", str(tmp_path / "out")]) == 0
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == sorted(f"global.{form}" for form in forms)
    assert json.loads((out / "global.json").read_text())["statistics"]["words"] == 40
    channels = (out / "global.csv" / "channels.csv").read_text("utf-8-sig")
    assert channels.startswith("channel,channel_name,messages,words,")
    assert (out / "global.parquet" / "people.parquet").read_bytes().startswith(b"PAR1")


@pytest.mark.parametrize(
    ("kind", "name", "title"),
    [
        ("channel", "cdev", "Report on #dev"),
        ("user", "@bob", "Report for @Bob Berg"),
        ("user", "Alice Ames", "Report for @ali"),
    ],
)
def test_channels_and_users_are_found_by_name_and_id(
    data: list[str], capfd: Capture, kind: str, name: str, title: str
) -> None:
    assert main(["report", kind, name, *WEEK, *data]) == 0
    assert capfd.readouterr().out.startswith(f"{title}\n")


def test_a_misspelt_name_leads_to_the_one_that_was_meant(data: list[str], capfd: Capture) -> None:
    for kind, name, meant in (("channel", "genral", "general"), ("user", "@Bob Burg", "Bob Berg")):
        assert error_of(["report", kind, name, *data], capfd) == (
            f"channelstats: there is no {kind} {name!r}; did you mean {meant!r}?\n"
        )


def test_a_report_without_a_kind_names_the_kinds(capfd: Capture) -> None:
    with pytest.raises(SystemExit, match=str(USAGE)):
        main(["report"])
    assert "required: global|brief|channel|user;" in capfd.readouterr().err


def test_days_can_be_given_in_many_ways(data: list[str], capfd: Capture) -> None:
    for days in (
        ["--from", "2024-03-10", "--to", "2024-03-16"],
        ["--from", "2024-03-10"],
        ["--to", "2024-03-16"],
        ["--to", "2024-03-16", "--days", "7"],
    ):
        assert main(["report", "global", "--format", "json", *days, *data]) == 0
        assert json.loads(capfd.readouterr().out)["statistics"]["words"] == 40


def test_first_posts_are_made_anew(data: list[str], capfd: Capture) -> None:
    assert main(["rebuild-firstposts", *data]) == 0
    assert capfd.readouterr().err == "first posts of 3 people\n"
    assert main(["rebuild-firstposts", *data, "--quiet"]) == 0
    assert capfd.readouterr().err == ""


def test_what_is_older_than_it_may_grow_goes_after_an_import(capfd: Capture) -> None:
    flags = ["--retention-days", "11"]  # of which the first is the 10th
    assert called("import-export", str(EXAMPLE), *flags, now=NOW) == 0
    assert capfd.readouterr().err.splitlines() == [
        "imported: 2 channels, 15 messages, 15 new or changed",
        UP_TO,
        "removed: 6 messages older than 11 days",
    ]
    assert {str(item["date"]) for item in stored().values()} >= {"2024-03-10", "2024-03-16"}
    assert len(stored()) == 9


def test_without_an_import_there_is_nothing_to_report(tmp_path: Path, capfd: Capture) -> None:
    assert "channelstats import-export" in error_of(["report", "global"], capfd)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_export_is_an_error(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "notes.txt").write_text("no export")
    assert "notes.txt" in error_of(["import-export", "notes.txt"], capfd)
    assert "nowhere" in error_of(["import-export", "nowhere"], capfd)


def test_an_import_with_problems_says_so_in_its_exit_code(tmp_path: Path, capfd: Capture) -> None:
    export = tmp_path / "export"
    export.mkdir()
    (export / "channels.json").write_text('[{"id": "CGEN", "name": "general"}]')
    assert main(["import-export", str(export)]) == 1
    assert "users.json: missing" in capfd.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["report"],
        ["report", "global", "--config", "none.toml"],
        ["report", "weekly"],
        ["report", "channel"],
        ["report", "global", "dev"],
        ["report", "global", "--format", "csv"],
        ["report", "global", "--format", "json", "--format", "text"],
        ["report", "global", "--week", "2024-03-10", "--days", "3"],
        ["report", "global", "--week", "tomorrow"],
        ["report", "global", "--from", "0001-01-01", "--to", "9999-12-31"],
        ["report", "global", "--from", "2024-03-10", "--to", "2024-03-09"],
        ["send-weekly", "--week", "0001-01-01"],
        ["sync", "all", "--since", "9999-12-31"],
        ["notify", "--week", "1999-12-31"],
        ["report", "global", "--days", "0"],
        ["report", "global", "--dat", "x"],
    ],
)
def test_wrong_usage_has_a_code_of_its_own(arguments: list[str], capfd: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == USAGE
    (line,) = capfd.readouterr().err.splitlines()
    assert re.match(r"channelstats[a-z -]*: error: .+; see channelstats[a-z -]* --help$", line)


def test_a_value_of_a_switch_is_refused_by_the_name_of_the_switch(capfd: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["sync", "--include-private", "yes"])
    assert caught.value.code == USAGE
    assert "error: --include-private takes no value, got 'yes';" in capfd.readouterr().err


def test_a_date_that_is_none_is_told_with_what_was_expected(capfd: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["report", "global", "--week", "2024-13-10"])
    assert "--week: expected a date from 2000-01-01 to 2099-12-31" in capfd.readouterr().err


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_keeps_nothing_from_being_done(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"sys.{stream}", None)
        assert main(["import-export", str(EXAMPLE)]) == 0
        assert main(["doctor"]) == 0
        getattr(sys, stream).close()
    assert len(stored()) == 15


def test_a_data_folder_may_be_called_anything(tmp_path: Path, capfd: Capture) -> None:
    name = "a?b#c%20d ä"
    data = ["--data", str(tmp_path / name)]
    assert main(["import-export", str(EXAMPLE), *data]) == 0
    assert main(["report", "global", *WEEK, *data]) == 0
    assert len(stored(folder=tmp_path / name)) == 15
    assert main(["doctor", *data]) == 0
    assert f"{name}/channelstats.sqlite: 13 tables" in capfd.readouterr().out


@pytest.mark.parametrize("command", ["report global", "forget bob", "doctor"])
def test_nothing_makes_a_store_but_what_takes_something_in(
    command: str, tmp_path: Path, capfd: Capture
) -> None:
    main([*command.split(), "--store", f"sqlite://{tmp_path}/none/store.sqlite"])
    found = capfd.readouterr()
    assert "store.sqlite: nothing has been imported yet" in found.out + found.err
    assert list(tmp_path.iterdir()) == []


# ── who is left out ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("about", "flags"),
    [("user bob", ["--exclude-users", "@bob"]), ("channel dev", ["--exclude-channels", "#dev"])],
)
def test_there_is_no_report_on_what_is_left_out(
    about: str, flags: list[str], data: list[str], capfd: Capture
) -> None:
    name = about.split()[1]
    assert f"{name} is excluded" in error_of(["report", *about.split(), *data, *flags], capfd)


def test_a_report_does_not_name_a_channel_that_is_left_out_as_that_of_a_first_message(
    data: list[str], capfd: Capture
) -> None:
    assert main(["report", "user", "alice", *WEEK, *data]) == 0
    assert "#general" in capfd.readouterr().out
    assert main(["report", "user", "alice", *WEEK, *data, "--exclude-channels", "general"]) == 0
    assert "general" not in capfd.readouterr().out


@pytest.mark.parametrize("place", ["flag", "environment", "file"])
def test_a_setting_that_cannot_be_used_is_wrong_usage_wherever_it_comes_from(
    place: str, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    name, value, message = "report-timezone", "Mars", "expected the name of a time zone"
    flags, shown, variable = [], f"--{name}", name.replace("-", "_")
    if place == "flag":
        flags = [shown, value]
    elif place == "environment":
        shown = f"CHANNELSTATS_{variable.upper()}"
        monkeypatch.setenv(shown, value)
    else:
        shown = f"channelstats-data/channelstats.toml:1: {variable}"
        Path("channelstats-data").mkdir()
        Path("channelstats-data/channelstats.toml").write_text(f"{variable} = {value!r}\n")
    with pytest.raises(SystemExit) as ended:
        main(["report", "global", *flags])
    assert ended.value.code == USAGE
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"channelstats report: error: {shown}: {message}")
    assert line.endswith("; see channelstats report --help")


# ── what stands where ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        "user bob DATA WEEK",
        "user DATA bob WEEK",
        "user WEEK DATA bob",
        "DATA user WEEK bob",
        "DATA WEEK user bob",
    ],
)
def test_settings_stand_anywhere_among_the_words_of_a_command(
    words: str, data: list[str], capfd: Capture
) -> None:
    flags = {"DATA": data, "WEEK": WEEK}
    arguments = [part for word in words.split() for part in flags.get(word, [word])]
    assert main(["report", *arguments]) == 0
    assert capfd.readouterr().out.startswith("Report for @Bob Berg\n")


@pytest.mark.parametrize(
    "words", ["-- user -dash", "user DATA -- -dash", "DATA user -- -dash", "DATA -- user -dash"]
)
def test_what_follows_two_dashes_is_no_flag(words: str, data: list[str], capfd: Capture) -> None:
    if "DATA" not in words:  # nothing can be given any more
        Path(data[1]).rename("channelstats-data")
    arguments = [part for word in words.split() for part in (data if word == "DATA" else [word])]
    assert error_of(["report", *arguments], capfd).startswith(
        "channelstats: there is no user '-dash'"
    )
    with pytest.raises(SystemExit, match=str(USAGE)):
        main(["report", "user", "-dash", *data])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("imprt-export", "import-export"),
        ("import", "import-export or import-members"),
        ("serv", "serve"),
        ("weekly", "send-weekly"),
        ("reports", "report"),
    ],
)
def test_an_unknown_command_names_the_nearest_one(name: str, meant: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "channelstats", name, "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == USAGE
    assert ended.stderr == (
        f"channelstats: error: argument COMMAND: there is no command {name!r}; did you mean "
        f"{meant}?; see channelstats --help\n"
    )


def test_an_option_before_the_command_is_named(capfd: Capture) -> None:
    with pytest.raises(SystemExit, match=str(USAGE)):
        main(["--data", "folder", "serve"])
    assert capfd.readouterr().err == (
        "channelstats: error: --data: options come after the command: channelstats COMMAND --data; "
        "see channelstats --help\n"
    )


def test_help_lists_every_command(capfd: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capfd.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^  {command.name} +{re.escape(command.summary)}$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "code", "used"),
    [
        ("--help", 0, ()),
        ("--version", 0, ()),
        ("reprot", USAGE, ()),
        ("", USAGE, ()),
        ("report global", NOT_DONE, ("polars", "jinja2")),  # nothing is asked of Slack
    ],
)
def test_a_large_library_is_imported_only_where_it_is_used(
    words: str, code: int, used: tuple[str, ...]
) -> None:
    program = (
        "import sys\nfrom channelstats.__main__ import main\n"
        "try:\n    sys.exit(main())\nfinally:\n    print(*sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=False
    )
    assert ended.returncode == code
    loaded = set(ended.stdout.splitlines()[-1].split())
    assert "argparse" in loaded
    large = {"polars", "aiohttp", "slack_sdk", "jinja2", "cryptography"}
    assert loaded & large <= set(used)


# ── where reports are written ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("/proc/none", "No such file or directory"),
        ("channelstats-data.txt/out", "a file is in the place of a folder"),
    ],
)
def test_a_folder_that_cannot_be_written_to_is_named(
    out: str, why: str, data: list[str], capfd: Capture
) -> None:
    Path("channelstats-data.txt").write_text("no folder")
    error = error_of(["report", "global", *WEEK, *data, "--out", out], capfd)
    assert error == (
        f"channelstats: nothing can be written to {out}: {why}; see --out and --out-dir\n"
    )
