"""`channelstats import-export`: what is seen of it while it runs, and when somebody is left out."""

import io
from pathlib import Path

import pytest

from channelstats import progress
from channelstats.ingest import export_reader
from support.channelstats.called import called, die, stored
from support.channelstats.house import EXAMPLE, NOW


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, *flags: str) -> str:
    """What an import writes to a terminal."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert called("import-export", str(EXAMPLE), *flags, now=NOW) == 0
    return terminal.getvalue()


def test_a_terminal_sees_share_size_messages_and_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(export_reader, "ROWS", 4)
    monkeypatch.setattr(progress, "_PAUSE", 0)  # the clock stands still, and every line is seen
    lines = [line for line in on_terminal(monkeypatch).split("\r\x1b[K") if line]
    assert lines[0] == "reading the lists"
    assert [line.partition("░ ")[2] for line in lines[1:-1]] == [
        "0% of 0.0 MB   0 messages  #dev",
        "20% of 0.0 MB 0 s left  4 messages  #dev",
        "30% of 0.0 MB 0 s left  6 messages  #general",
        "61% of 0.0 MB 0 s left  10 messages  #general",
        "92% of 0.0 MB 0 s left  14 messages  #general",
    ]
    assert lines[-1] == "imported: 2 channels, 15 messages, 15 new or changed\n"


def test_for_cron_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert on_terminal(monkeypatch, "--quiet") == ""


def test_whoever_is_excluded_is_not_taken_in() -> None:
    flags = ["--exclude-users", "bob", "--exclude-channels", "dev"]
    assert called("import-export", str(EXAMPLE), *flags, now=NOW) == 0
    messages = stored()
    assert {item["slack_cid"] for item in messages.values()} == {"CGEN"}
    assert "UBOB" not in repr(messages)
    assert "UBOB" not in stored("User")


def test_a_name_that_leaves_nobody_out_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert called("import-export", str(EXAMPLE), "--exclude-users", "bobb,ali", now=NOW) == 1
    assert capfd.readouterr().err.splitlines()[0] == (
        "channelstats: exclude_users: nobody is called 'bobb', so nobody is left out by it"
    )
    assert "UALICE" not in stored("User")


def test_a_name_that_leaves_no_channel_out_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    flags = ["--exclude-channels", "#devv,general,CNONE"]
    assert called("import-export", str(EXAMPLE), *flags, now=NOW) == 1
    assert capfd.readouterr().err.splitlines()[0] == (
        "channelstats: exclude_channels: no public channel is called 'devv', so none is left out "
        "by it"
    )
    assert {item["slack_cid"] for item in stored().values()} == {"CDEV"}


def test_a_reader_that_dies_is_a_line_and_the_import_can_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(export_reader, "LARGE", 0)
        patch.setattr(export_reader, "_read_here", die)
        assert called("import-export", str(EXAMPLE), now=NOW) == 3
    assert capfd.readouterr().err == (
        "channelstats: the process that reads the export has ended; import it again to go on\n"
    )
    assert called("import-export", str(EXAMPLE), now=NOW) == 0
    assert len(stored()) == 15
    assert [path.name for path in tmp_path.iterdir()] == ["channelstats-data"]
