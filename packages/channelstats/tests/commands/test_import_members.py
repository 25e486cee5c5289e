"""`channelstats import-members` and what it says."""

from pathlib import Path

import pytest

from channelstats.cli import NOT_DONE, main
from channelstats.commands.call import DONE, WITH_PROBLEMS
from support.channelstats.called import called, stored
from support.channelstats.house import NOW


def test_accounts_are_dated_and_bad_lines_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
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
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "members.csv").write_text("Name,Email\nAnn,ann@example.org\n")
    assert main(["import-members", "members.csv"]) == NOT_DONE
    assert capfd.readouterr().err.startswith("channelstats: members.csv: expected the columns 'Us")
    assert main(["import-members", "none.csv"]) == NOT_DONE
    assert "none.csv" in capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["members.csv"]
