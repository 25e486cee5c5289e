"""Importing an Enterprise Grid, and folders that no list of channels knows."""

import json
from pathlib import Path

import pytest

from channelstats.commands import DONE, NOT_DONE, WITH_PROBLEMS
from support.channelstats.called import Capture, called, error_lines, stored
from support.channelstats.house import NOW
from support.channelstats.workspace import write_zip

WEEK = ["--week", "2024-03-13"]


def said(day: int, user: str) -> dict[str, str]:
    return {"type": "message", "user": user, "ts": f"17103{day:02}000.000100", "text": "a b"}


def channels(**names: str) -> list[object]:
    return [{"id": cid, "name": name, "members": ["UA"]} for name, cid in names.items()]


@pytest.fixture
def grid(tmp_path: Path) -> str:
    """Two workspaces with a channel #general each, and a channel that they share."""
    files = {
        "channels.json": channels(lobby="CLOBBY"),
        "org_users.json": [{"id": "UA", "name": "ann"}, {"id": "UB", "name": "ben"}],
        "lobby/2024-03-13.json": [said(1, "UA")],
        "teams/alpha/channels.json": channels(general="CALPHA"),
        "teams/alpha/general/2024-03-13.json": [said(day, "UA") for day in range(2, 5)],
        "teams/beta/channels.json": channels(general="CBETA", lost="CLOST"),
        "teams/beta/general/2024-03-13.json": [said(day, "UB") for day in range(5, 7)],
    }
    dumped = {name: json.dumps(content).encode() for name, content in files.items()}
    return str(write_zip(dumped, tmp_path / "grid.zip"))


def test_a_grid_is_imported_whole_and_its_channels_are_told_apart(
    grid: str, capfd: Capture
) -> None:
    assert called("import-export", grid, now=NOW) == DONE
    lines = error_lines(capfd)
    assert lines[0] == "imported: 4 channels, 6 messages, 6 new or changed"
    assert lines[-1] == (
        "Enterprise Grid: all of its workspaces (alpha, beta); --workspace NAME imports one"
    )
    assert called("report", "global", *WEEK, now=NOW) == DONE
    report = capfd.readouterr().out
    assert "#general (alpha)" in report
    assert "#general (beta)" in report
    assert called("report", "channel", "general (beta)", *WEEK, now=NOW) == DONE
    assert "Report on #general (beta)" in capfd.readouterr().out
    assert called("report", "channel", "#general", *WEEK, now=NOW) == NOT_DONE
    [line] = error_lines(capfd)
    assert line == (
        "channelstats: '#general' may be any of 'general (alpha)' (CALPHA), 'general (beta)' "
        "(CBETA): give the ID"
    )
    assert called("report", "channel", "CBETA", *WEEK, now=NOW) == DONE


def test_one_workspace_may_be_chosen_and_keeps_the_names(grid: str, capfd: Capture) -> None:
    assert called("import-export", grid, "--workspace", "beta", now=NOW) == DONE
    lines = error_lines(capfd)
    assert lines[0] == "imported: 2 channels, 2 messages, 2 new or changed"
    assert lines[-1] == (
        "Enterprise Grid: beta alone; 2 channels of other workspaces or shared left out"
    )
    assert {item["slack_cid"] for item in stored().values()} == {"CBETA"}
    assert "general (beta)" in stored("Channel")
    assert called("import-export", grid, "--workspace", "alpha", now=NOW) == DONE
    assert {"general (alpha)", "general (beta)"} <= stored("Channel").keys()


def test_a_workspace_that_is_not_there_is_named(grid: str, capfd: Capture, tmp_path: Path) -> None:
    assert called("import-export", grid, "--workspace", "gamma", now=NOW) == NOT_DONE
    assert error_lines(capfd) == ["channelstats: --workspace: expected one of alpha, beta"]
    single = write_zip({"channels.json": b"[]"}, tmp_path / "one.zip")
    assert called("import-export", str(single), "--workspace", "alpha", now=NOW) == NOT_DONE
    assert "of no Enterprise Grid" in error_lines(capfd)[0]


# ── folders in no list ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def unlisted(tmp_path: Path) -> str:
    files = {
        "channels.json": channels(dev="CDEV"),
        "users.json": [{"id": "UA", "name": "ann"}],
        "dev/2024-03-13.json": [said(1, "UA")],
        "old/2024-03-13.json": [said(2, "UA"), said(3, "UA")],
    }
    dumped = {name: json.dumps(content).encode() for name, content in files.items()}
    return str(write_zip(dumped, tmp_path / "export.zip"))


def test_folders_in_no_list_are_named_and_imported_on_demand(unlisted: str, capfd: Capture) -> None:
    assert called("import-export", unlisted, now=NOW) == WITH_PROBLEMS
    assert error_lines(capfd)[0] == (
        "channelstats: old: in no list of channels; 1 file left out, which --unlisted imports"
    )
    assert called("import-export", unlisted, "--unlisted", now=NOW) == DONE
    assert error_lines(capfd)[0] == "imported: 2 channels, 3 messages, 2 new or changed"
    assert called("report", "channel", "old", *WEEK, "--slack-name", "acme", now=NOW) == DONE
    assert "Report on #old" in capfd.readouterr().out


def test_messages_of_such_folders_are_linked_to_nowhere(
    unlisted: str, capfd: Capture, tmp_path: Path
) -> None:
    assert called("import-export", unlisted, "--unlisted", now=NOW) == DONE
    flags = ["--format", "html", "--out", "out", "--slack-name", "acme"]
    assert called("report", "channel", "old", *WEEK, *flags, now=NOW) == DONE
    (page,) = (tmp_path / "out").iterdir()
    assert "archives/CUNLISTED" not in page.read_text()
