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
from support.channelstats.called import Capture, stored
from support.channelstats.house import EXAMPLE

WEEK = ["--week", "2024-03-12"]


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


def test_a_misspelt_name_leads_to_the_one_that_was_meant(data: list[str], capfd: Capture) -> None:
    for kind, name, meant in (("channel", "genral", "general"), ("user", "@Bob Burg", "Bob Berg")):
        assert error_of(["report", kind, name, *data], capfd) == (
            f"channelstats: there is no {kind} {name!r}; did you mean {meant!r}?\n"
        )


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


def test_what_is_no_export_is_an_error(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "notes.txt").write_text("no export")
    assert "notes.txt" in error_of(["import-export", "notes.txt"], capfd)
    assert "nowhere" in error_of(["import-export", "nowhere"], capfd)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "required: COMMAND"),
        ("imprt-export", "no command 'imprt-export'; did you mean import-export?"),
        ("import", "did you mean import-export or import-members?"),
        ("weekly", "did you mean send-weekly?"),
        ("--data folder serve", "--data: options come after the command: channelstats COMMAND --d"),
        ("report", "required: global|brief|channel|user"),
        ("report weekly", "invalid choice: 'weekly'"),
        ("report channel", "a channel report needs a name"),
        ("report global dev", "a global report has no name"),
        ("report global --config none.toml", "none.toml: there is no such file"),
        ("report global --format csv", "this makes several files: give --out DIR"),
        ("report global --format json --format text", "give --out DIR"),
        ("report global --week 2024-03-10 --days 3", "--week is a whole week"),
        (
            "report global --week 2024-13-10",
            "--week: expected a date from 2000-01-01 to 2099-12-31",
        ),
        ("notify --week 1999-12-31", "--week: expected a date from 2000-01-01"),
        ("report global --from 2024-03-10 --to 2024-03-09", "2024-03-09 is before --from 2024"),
        ("report global --days 0", "--days: expected a number from 1 to 3,660"),
        ("report global --dat x", "unrecognized arguments: --dat"),
        ("report global --again", "--again belongs to --send"),
        ("report global --destination dev", "--destination belongs to --send"),
        ("sync --include-private yes", "--include-private takes no value, got 'yes'"),
        ("demo --people 0", "--people: expected a number from 1 to"),
        ("demo --messages 5000001", "--messages: expected a number from 1 to 5,000,000"),
        ("demo --store sqlite:///x", "--store: a demo is kept in a folder"),
    ],
)
def test_wrong_usage_is_one_line_that_names_what_is_wrong_and_the_help(
    words: str, message: str, capfd: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == USAGE
    (line,) = capfd.readouterr().err.splitlines()
    assert re.match(r"channelstats[a-z -]*: error: .+; see channelstats[a-z -]* --help$", line)
    assert message in line


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


def test_a_setting_that_cannot_be_used_is_wrong_usage_wherever_it_stands(capfd: Capture) -> None:
    file = Path("channelstats-data/channelstats.toml")
    file.parent.mkdir()
    file.write_text('report_timezone = "Mars"\n')
    with pytest.raises(SystemExit) as ended:
        main(["report", "global"])
    assert ended.value.code == USAGE
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(
        f"channelstats report: error: {file}:1: report_timezone: expected the name of a time zone"
    )


# ── what stands where ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        "user bob DATA WEEK",
        "user WEEK DATA bob",
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


@pytest.mark.parametrize("words", ["-- user -dash", "user DATA -- -dash", "DATA user -- -dash"])
def test_what_follows_two_dashes_is_no_flag(words: str, data: list[str], capfd: Capture) -> None:
    if "DATA" not in words:  # nothing can be given any more
        Path(data[1]).rename("channelstats-data")
    arguments = [part for word in words.split() for part in (data if word == "DATA" else [word])]
    assert error_of(["report", *arguments], capfd).startswith(
        "channelstats: there is no user '-dash'"
    )
    with pytest.raises(SystemExit, match=str(USAGE)):
        main(["report", "user", "-dash", *data])


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
        ("reprot", USAGE, ()),
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
