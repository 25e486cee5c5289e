import os
import stat
from pathlib import Path

import pytest

from autopush.service.data_folder import prepare_data_folder
from autopush.settings import StartupError


def refused_folder(folder: Path) -> str:
    with pytest.raises(StartupError) as caught:
        prepare_data_folder(folder)
    text = str(caught.value)
    assert str(folder) in text
    assert "\n" not in text
    return text


def test_a_missing_data_folder_is_created_for_its_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    prepare_data_folder(folder)
    assert folder.is_dir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_existing_folder_is_not_changed(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    (tmp_path / "kept").write_text("kept")
    prepare_data_folder(tmp_path)
    prepare_data_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_link_to_a_folder_is_a_folder(tmp_path: Path) -> None:
    link = tmp_path / "link"
    (tmp_path / "there").mkdir()
    link.symlink_to(tmp_path / "there")
    prepare_data_folder(link)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("file", "is not a folder"),
        ("file/folder", "cannot make"),
        ("dangling", ""),
        ("x" * 300, "cannot make"),
    ],
)
def test_what_is_no_folder_and_cannot_become_one_is_refused(
    tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert words in refused_folder(tmp_path / name)
    assert (tmp_path / "file").read_text() == "kept"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("missing", [os.R_OK, os.W_OK, os.X_OK])
def test_a_folder_without_all_permissions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    # With a substitute: nothing is forbidden to root, who may be running this.
    monkeypatch.setattr(os, "access", lambda path, wanted: not wanted & missing)
    assert "may not be written" in refused_folder(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_of_another_user_is_refused_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        refused_folder(tmp_path)
        refused_folder(tmp_path / "folder")
    finally:
        tmp_path.chmod(0o700)
