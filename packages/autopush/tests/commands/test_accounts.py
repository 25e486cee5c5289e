"""`autopush user`, as an operator runs it."""

import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.data_store import Run

TOKEN = re.compile(r"[A-Za-z0-9_-]{43}\n")


def test_a_user_is_added_listed_and_revoked(run: Run) -> None:
    code, token, err = run("user", "add", "ann")
    assert (code, err) == (0, "")
    assert TOKEN.fullmatch(token)
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    assert run("user", "list") == (0, f"ann  since {today}, no quota\n", "")
    assert run("user", "revoke", "ann") == (0, "revoked ann; sessions end within seconds\n", "")
    assert run("user", "list") == (0, "", "")


def test_no_command_but_add_prints_a_token(run: Run) -> None:
    token = run("user", "add", "ann")[1].strip()
    assert token not in str(run("user", "list"))
    assert token not in str(run("user", "quota", "ann", "--connections", "2"))
    assert token not in str(run("user", "revoke", "ann"))


def test_a_quota_is_set_with_the_user_or_later(run: Run) -> None:
    run("user", "add", "ann", "--connections", "2")
    assert run("user", "list")[1].endswith(", 2 connections at once\n")
    assert run("user", "quota", "ann", "--connections", "5")[1] == ("ann: 5 connections at once\n")
    assert run("user", "quota", "ann")[1] == "ann: no quota\n"
    assert run("user", "list")[1].endswith(", no quota\n")


def test_a_quota_without_its_flag_is_refused_with_the_flag(run: Run) -> None:
    code, out, err = run("user", "quota", "ann", "1")
    assert (code, out) == (2, "")
    assert "[NAME] [--connections N]" in err
    assert "there is an argument too many: '1'" in err


@pytest.mark.parametrize("action", ["revoke", "quota"])
def test_a_user_that_is_not_there_is_one_line_and_exit_code_1(run: Run, action: str) -> None:
    run("user", "add", "ann")
    assert run("user", action, "eve") == (1, "", "autopush: there is no user eve\n")


def test_a_name_that_is_taken_or_none_is_refused(run: Run) -> None:
    run("user", "add", "ann")
    assert run("user", "add", "ann")[::2] == (1, "autopush: there is a user ann already\n")
    for name in ([], ["a b"]):
        code, out, err = run("user", "add", *name)
        assert (code, out) == (1, "")
        assert err.startswith("autopush: a name has 1 to 64 of ")


def test_without_a_store_there_is_nothing_to_list(run: Run) -> None:
    code, out, err = run("user", "list")
    assert (code, out) == (3, "")
    assert "there is no store at " in err


def test_the_first_user_makes_a_folder_for_its_owner_alone(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    before = os.umask(0o022)
    try:
        assert run("user", "add", "ann", "--data", str(folder))[0] == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_creates_in_the_folder_of_a_user_belongs_to_that_user(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "of the service"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    assert run("user", "add", "ann", "--data", str(folder))[0] == 0
    assert {each.stat().st_uid for each in folder.iterdir()} == {12345}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("command", [["settings"], ["user", "list"], ["maintain", "--dry-run"]])
@pytest.mark.parametrize("name", [".autopush.toml", ".autopush_shared.ini"])
def test_as_root_a_command_ends_with_a_line_about_a_file_of_somebody_else(
    run: Run, tmp_path: Path, command: list[str], name: str
) -> None:
    (tmp_path / name).write_text("port = 9000\n")
    os.chown(tmp_path / name, 12345, 12345)
    code, out, err = run(*command)
    assert (code, out) == (3, "")
    assert f"{name} belongs to the user 12345, and this runs as root" in err
