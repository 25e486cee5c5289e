"""The data folder: made for its owner only, or refused in one line."""

import os
import stat
from pathlib import Path

import pytest

from autopush.service.data_folder import prepare
from autopush.settings import StartupError


def refused(folder: Path) -> str:
    with pytest.raises(StartupError) as caught:
        prepare(folder)
    text = str(caught.value)
    assert str(folder) in text
    assert "\n" not in text
    return text


def test_a_missing_folder_is_made_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    prepare(folder)
    assert folder.is_dir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    (tmp_path / "kept").write_text("kept")
    prepare(tmp_path)
    prepare(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_link_to_a_folder_is_a_folder(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "there").mkdir()
    link.symlink_to(tmp_path / "there")
    prepare(link)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert "is not a folder" in refused(file)
    assert file.read_text() == "kept"


def test_a_folder_cannot_be_made_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot make" in refused(tmp_path / "file" / "folder")


def test_a_link_to_nowhere_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    refused(link)
    assert not (tmp_path / "nowhere").exists()


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / ("x" * 300))


@pytest.mark.parametrize("missing", [os.R_OK, os.W_OK, os.X_OK])
def test_a_folder_without_all_permissions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    # Asked of a stand-in: nothing is forbidden to root, who may be running this.
    monkeypatch.setattr(os, "access", lambda path, wanted: not wanted & missing)
    assert "may not be written" in refused(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        refused(tmp_path)
        refused(tmp_path / "folder")
    finally:
        tmp_path.chmod(0o700)
