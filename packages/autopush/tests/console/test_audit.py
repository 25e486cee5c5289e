"""The audit log: one line for each change, in a file that only its owner can read."""

from pathlib import Path

import pytest

from autopush.console.audit import AUDIT_FILE, AuditLog
from support.clocks import ManualClock


def test_lines_are_added_in_order_and_a_damaged_one_hides_no_other(tmp_path: Path) -> None:
    audit = AuditLog(tmp_path, ManualClock())
    audit.add("drop-user", by="console, act, 192.0.2.1", user="abc")
    with (tmp_path / AUDIT_FILE).open("a") as file:
        file.write("{torn\n")
    AuditLog(tmp_path, ManualClock()).add("console-token", role="act")
    first, torn, last = audit.lines()
    assert (first["action"], first["by"], first["user"]) == (
        "drop-user",
        "console, act, 192.0.2.1",
        "abc",
    )
    assert torn["action"] == "{torn"
    assert str(last["by"]).startswith("command line, user ")
    assert (tmp_path / AUDIT_FILE).stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        AuditLog(tmp_path / "missing", ManualClock()).add("drop-user")
