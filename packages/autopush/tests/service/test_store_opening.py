"""What is logged while the store is opened."""

import asyncio
import fcntl
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autopush.service import storage
from autopush.service.storage import (
    lock_holders,
    report_damage,
    report_empty_file,
    with_notice,
)
from autopush.settings import Settings
from keytables.sqlite import StoreCheck
from support.damaged_store import damage_log, leave_unclosed

TIMEOUT = 30


def fields(text: str) -> list[dict[str, Any]]:
    return [json.loads(line)["Fields"] for line in text.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that its last user did not close."""
    path = tmp_path / "autopush.sqlite"
    leave_unclosed(path)
    return path


def test_an_unclosed_store_is_checked_and_said_to_be_whole(
    path: Path, end_logs: Callable[[], str]
) -> None:
    report_damage(Settings(data=path.parent))
    [line] = fields(end_logs())
    assert line["level"] == "info"
    assert line["message"] == "The store was not closed, and is not damaged"


def test_each_damage_is_an_error_line_with_what_to_do(
    path: Path, end_logs: Callable[[], str]
) -> None:
    damage_log(path)
    report_damage(Settings(data=path.parent))
    [line] = fields(end_logs())
    assert (line["level"], line["message"]) == ("error", "The store is damaged")
    assert line["damage"].startswith("the log is damaged: of its ")
    assert line["store"] == str(path)
    # A backup is older than the log without its end.
    assert line["advice"].startswith("nothing is to be done")


def test_an_empty_file_is_said_to_become_a_new_store(
    tmp_path: Path, end_logs: Callable[[], str]
) -> None:
    settings = Settings(data=tmp_path)
    report_empty_file(settings)  # there is none
    file = tmp_path / "autopush.sqlite"
    file.touch()
    report_empty_file(settings)
    [line] = fields(end_logs())
    assert (line["level"], line["store"]) == ("warning", str(file))
    assert line["message"] == "The file of the store is empty: it becomes a new store"
    assert "restore a backup" in line["advice"]


def test_a_file_that_another_process_is_making_a_store_of_is_not_reported(
    tmp_path: Path, end_logs: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "autopush.sqlite").touch()
    monkeypatch.setattr(storage, "lock_holders", lambda _: ["autopush (pid 7)"])
    report_empty_file(Settings(data=tmp_path))
    assert end_logs() == ""


def test_a_damaged_table_is_to_be_restored(
    path: Path, end_logs: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = "table 'router': some of its rows cannot be read (damaged page 57)"
    found = StoreCheck((damage,), is_unclean=True)
    monkeypatch.setattr("keytables.sqlite.check_store", lambda *_, **__: found)
    report_damage(Settings(data=path.parent))
    [line] = fields(end_logs())
    assert line["damage"] == damage
    assert line["advice"].startswith("run autopush check, then restore a backup")


def test_a_store_too_large_for_the_time_is_a_warning(
    path: Path, end_logs: Callable[[], str]
) -> None:
    report_damage(Settings(data=path.parent, store_check_timeout=1e-9))
    [line] = fields(end_logs())
    assert line["level"] == "warning"
    assert "autopush check" in line["advice"]


@pytest.mark.parametrize("case", ["timeout 0", "closed", "missing", "dynamodb"])
def test_otherwise_nothing_is_checked(
    path: Path, end_logs: Callable[[], str], case: str, tmp_path: Path
) -> None:
    settings = Settings(data=tmp_path)
    damage_log(path)
    match case:
        case "timeout 0":
            settings = Settings(data=tmp_path, store_check_timeout=0.0)
        case "closed":
            path.with_name(f"{path.name}-wal").unlink()
        case "missing":
            settings = Settings(data=tmp_path / "other")
        case "dynamodb":
            settings = Settings(data=tmp_path, store="dynamodb://eu-west-1")
    report_damage(settings)
    assert end_logs() == ""


# ── Waiting ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_wait_for_another_process_is_logged_with_its_name(
    path: Path, end_logs: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "NOTICE_AFTER", 0.01)
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, f"{path}-open"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    opened = asyncio.Event()
    waiting = asyncio.ensure_future(with_notice(opened.wait(), Settings(data=path.parent)))
    await asyncio.sleep(0.1)
    opened.set()
    assert await asyncio.wait_for(waiting, TIMEOUT)
    holder.kill()
    await holder.wait()
    [line] = fields(end_logs())
    assert (line["level"], line["store"]) == ("warning", str(path))
    assert line["message"] == "Waiting for another process that has the store locked"
    [name] = line["locked_by"]
    assert name.endswith(f"(pid {holder.pid})")


async def test_a_store_that_opens_at_once_is_not_logged(
    path: Path, end_logs: Callable[[], str]
) -> None:
    async def open_it() -> int:
        return 5

    assert await with_notice(open_it(), Settings(data=path.parent)) == 5
    assert end_logs() == ""


def test_locks_of_this_process_and_on_other_files_are_not_named(path: Path) -> None:
    descriptor = os.open(f"{path}-open", os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert lock_holders(str(path)) == []
    finally:
        os.close(descriptor)
