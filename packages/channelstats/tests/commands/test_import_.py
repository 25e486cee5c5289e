"""import-export and import-members, as from a shell."""

import io
import json
import shutil
import signal
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from channelstats.cli import main
from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from channelstats.ingest import export_reader
from support.channelstats.called import Capture, called, die, error_lines, stored
from support.channelstats.house import EXAMPLE, NOW

# ── import export ─────────────────────────────────────────────────────────────────────────────────


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, *flags: str, path: Path = EXAMPLE) -> str:
    """What an import writes to a terminal."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert called("import-export", str(path), *flags, now=NOW) in (DONE, WITH_PROBLEMS)
    return terminal.getvalue()


def test_a_terminal_sees_share_size_messages_and_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_reader, "ROWS", 4)
    monkeypatch.setattr("tqdm.std.time", partial(next, count(100)))  # so that every line is seen
    lines = [line for line in on_terminal(monkeypatch).split("\r") if line.strip()]
    assert lines[0] == "reading the lists"
    assert [
        (line.partition("|")[0], line.partition("B/s, ")[2].rstrip()) for line in lines[2:-1]
    ] == [
        ("messages:   0%", "#dev]"),
        ("4 messages:  20%", "#dev]"),
        ("6 messages:  30%", "#general]"),
        ("10 messages:  61%", "#general]"),
        ("14 messages:  92%", "#general]"),
    ]
    assert lines[-1].startswith("imported: 2 channels, 15 messages, 15 new or changed\n")


def test_a_problem_is_a_line_of_its_own_beside_the_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    export = shutil.copytree(EXAMPLE, tmp_path / "export")
    (export / "dev" / "2024-03-17.json").write_text("[")
    whole = on_terminal(monkeypatch, path=export).split("\n")
    assert whole[0].rpartition("\r")[2].startswith("channelstats: dev/2024-03-17.json: ")
    assert whole[1].startswith("\rmessages:   0%|")
    assert whole[1].rpartition("\r")[2].startswith("imported: ")


def test_how_many_channels_wait_for_a_flag_is_said(tmp_path: Path, capfd: Capture) -> None:
    lists = {
        "users": [],
        "channels": [{"id": "C1", "name": "one"}],
        "groups": [{"id": "G1", "name": "secret"}],
        "dms": [{"id": "D1", "members": ["UA", "UB"]}],
        "mpims": [{"id": "G2", "name": "mpdm"}],
    }
    for name, listed in lists.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(listed))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "2024-01-01.json").write_text("[]")
    assert called("import-export", str(tmp_path), now=NOW) == 0
    assert capfd.readouterr().err.splitlines()[1:] == [
        "left out: 1 private channel; --include-private imports them too",
        "left out: 2 direct conversations; --include-dms imports them too",
    ]
    assert called("import-export", str(tmp_path), "--include-private", now=NOW) == 0
    assert "private" not in capfd.readouterr().err


def test_without_a_list_of_users_authors_are_known_by_their_ids(
    tmp_path: Path, capfd: Capture
) -> None:
    export = shutil.copytree(EXAMPLE, tmp_path / "export")
    (export / "users.json").unlink()
    assert called("import-export", str(export), now=NOW) == WITH_PROBLEMS
    assert "users.json: missing" in error_lines(capfd)[0]
    week = ["--week", "2024-03-13"]
    assert called("report", "global", *week, now=NOW) == DONE
    report = capfd.readouterr().out
    assert " of 0" not in report
    assert "Members who posted" not in report
    assert called("report", "user", "UBOB", *week, now=NOW) == DONE
    assert "Report for @" in capfd.readouterr().out


def test_sigterm_ends_an_import_in_order(tmp_path: Path) -> None:
    program = tmp_path / "importing.py"
    program.write_text(
        "import asyncio, sys\n"
        "from channelstats.cli import main\n"
        "from channelstats.ingest import export_reader\n"
        "from channelstats.ingest.export_import import ExportImport\n"
        "export_reader.LARGE = 0\n"
        "async def store(*of, **more):\n"
        "    print('storing', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "ExportImport._store = store\n"
        "if __name__ == '__main__':\n"
        "    sys.exit(main(['import-export', *sys.argv[1:], '--quiet']))\n"
    )
    command = [sys.executable, str(program), str(EXAMPLE), "--data", str(tmp_path / "data")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as importing:
        assert importing.stdout is not None
        assert importing.stdout.readline() == "storing\n"
        importing.terminate()
        _, errors = importing.communicate(timeout=60)
    assert errors == "channelstats: terminated; run it again to go on\n"
    assert importing.returncode == -signal.SIGTERM


def test_whoever_is_excluded_is_not_taken_in_and_a_name_that_leaves_nothing_out_is_told(
    capfd: Capture,
) -> None:
    flags = ["--exclude-users", "bobb,ali", "--exclude-channels", "#devv,general,CNONE"]
    assert called("import-export", str(EXAMPLE), *flags, now=NOW) == WITH_PROBLEMS
    people, channel, *_ = error_lines(capfd)
    assert people.endswith("exclude_users: nobody is called 'bobb', so nobody is left out by it")
    assert "exclude_channels: no public channel is called 'devv', so none is left out" in channel
    assert {item["slack_cid"] for item in stored().values()} == {"CDEV"}
    assert "UALICE" not in repr(stored()) + repr(stored("User"))


def test_a_reader_that_dies_is_a_line_and_the_import_can_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: Capture, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(export_reader, "LARGE", 0)
        patch.setattr(export_reader, "_read_channels", die)
        assert called("import-export", str(EXAMPLE), now=NOW) == 3
    assert capfd.readouterr().err == (
        "channelstats: the process that reads the export has ended; import it again to go on\n"
    )
    assert called("import-export", str(EXAMPLE), now=NOW) == 0
    assert len(stored()) == 15
    assert [path.name for path in tmp_path.iterdir()] == ["channelstats-data"]


# ── import members ────────────────────────────────────────────────────────────────────────────────


def test_accounts_are_dated_and_bad_lines_named(tmp_path: Path, capfd: Capture) -> None:
    path = tmp_path / "members.csv"
    path.write_text('User ID,Account created\nU1,"Nov 3, 2017"\nU2,soon\n')
    assert called("import-members", str(path), now=NOW) == WITH_PROBLEMS
    assert capfd.readouterr().err.splitlines() == [
        "channelstats: members.csv line 3: Account created: expected a date like Nov 3, 2017",
        "read: 1 account, 1 new or earlier than known",
    ]
    assert stored("UserCreated") == {"U1": {"slack_uid": "U1", "ts": 1509667200}}
    path.write_text('User ID,Account created\nU1,"Nov 3, 2017"\n')
    assert called("import-members", str(path), now=NOW) == DONE
    assert capfd.readouterr().err == "read: 1 account, 0 new or earlier than known\n"


def test_a_list_without_the_columns_is_an_error_and_makes_nothing(
    tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "members.csv").write_text("Name,Email\nAnn,ann@example.org\n")
    assert main(["import-members", "members.csv"]) == NOT_DONE
    assert capfd.readouterr().err.startswith("channelstats: members.csv: expected the columns 'Us")
    assert main(["import-members", "none.csv"]) == NOT_DONE
    assert "none.csv" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["members.csv"]
