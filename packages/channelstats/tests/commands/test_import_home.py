"""One store is of one workspace."""

import json
from pathlib import Path

import pytest

from channelstats.commands import DONE, NOT_DONE
from channelstats.ingest.home import WorkspaceIds, is_other
from support.channelstats.called import Capture, called, error_lines, stored
from support.channelstats.house import NOW
from support.channelstats.workspace import Raw, write_zip


def ids(teams: str = "", users: str = "", channels: str = "") -> WorkspaceIds:
    return WorkspaceIds(*(frozenset(text.split()) for text in (teams, users, channels)))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ids("T1", "U1", "C1"), ids(), False),
        (ids("T1", "U1", "C1"), ids("T1", "U2", "C2"), False),
        (ids("T1", "U1 U3", "C1"), ids("T2", "U2 U3", "C1"), True),
        (ids("T1", "U1 U2 U3"), ids("T2", "U2 U3"), False),
        (ids("", "U1", "C1"), ids("T2", "U2", "C2"), True),
        (ids("", "U1", "C1"), ids("", "U2", "C2"), True),
        (ids("", "U1", "C1"), ids("", "U1", "C2"), False),
        (ids("", "U1", "C1"), ids("", "U2", "C1"), False),
        (ids("", "", "C1"), ids("", "U2", "C2"), False),
    ],
)
def test_another_workspace_is_told_by_its_teams_or_by_nothing_in_common(
    first: WorkspaceIds, second: WorkspaceIds, expected: bool
) -> None:
    assert is_other(first, second) is expected
    assert is_other(second, first) is expected


def exported(folder: Path, name: str, n: int, team: str, link: str = "") -> str:
    said: Raw = {"type": "message", "user": f"U{n}", "ts": "1710300000.000100", "text": "a b"}
    if link:
        said["files"] = [{"id": "F1", "permalink": f"https://{link}.slack.com/files/a"}]
    files = {
        "users.json": [{"id": f"U{n}", "name": f"u{n}", **({"team_id": team} if team else {})}],
        "channels.json": [{"id": f"C{n}", "name": "general"}],
        "general/2024-03-13.json": [said],
    }
    dumped = {name: json.dumps(of).encode() for name, of in files.items()}
    return str(write_zip(dumped, folder / f"{name}.zip"))


@pytest.mark.parametrize(
    ("teams", "link", "expected"),
    [
        (("T1", "T2"), "", "of the workspace beta (T2), what is stored is of alpha (T1)"),
        (("", ""), "acme", "of the workspace beta, what is stored is of acme.slack.com"),
    ],
)
def test_an_export_of_another_workspace_is_refused_before_anything_is_stored(
    tmp_path: Path, capfd: Capture, teams: tuple[str, str], link: str, expected: str
) -> None:
    alpha = exported(tmp_path, "alpha", 1, teams[0], link)
    beta = exported(tmp_path, "beta", 2, teams[1])
    assert called("import-export", alpha, now=NOW) == DONE
    before = {table: stored(table) for table in ("User", "Channel", "Message", "Configuration")}
    capfd.readouterr()
    assert called("import-export", beta, now=NOW) == NOT_DONE
    [line] = error_lines(capfd)
    assert expected in line
    assert "--prefix NAME" in line
    assert {table: stored(table) for table in before} == before
    assert called("import-export", beta, "--prefix", "beta", now=NOW) == DONE
    assert called("import-export", alpha, now=NOW) == DONE
