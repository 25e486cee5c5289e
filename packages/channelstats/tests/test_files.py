"""Files that are whole or not there, for their owner alone."""

import os
from pathlib import Path

import pytest

from channelstats.files import erase, write_file

CONTENT = bytes(range(256)) * 8


def test_only_their_owner_can_read_files_and_new_folders(tmp_path: Path) -> None:
    folder = tmp_path / "days" / "channelstats"
    path = write_file(folder, "name", CONTENT)
    assert (path, path.read_bytes(), [*folder.iterdir()]) == (folder / "name", CONTENT, [path])
    modes = [os.stat(one).st_mode & 0o777 for one in (path, folder, folder.parent)]
    assert modes == [0o600, 0o700, 0o700]


def refused(path: Path, *_: object, **__: object) -> None:
    raise PermissionError(path)


@pytest.mark.parametrize("refusing", [(), ("open",), ("unlink",), ("open", "unlink")])
def test_a_file_is_overwritten_and_removed_as_far_as_that_can_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusing: tuple[str, ...]
) -> None:
    path, linked = tmp_path / "name", tmp_path / "the same"
    path.write_bytes(b"secret")
    linked.hardlink_to(path)
    with monkeypatch.context() as patch:
        for name in refusing:  # modes do not bind every user that tests run as
            patch.setattr(Path, name, refused)
        assert erase(path) is (len(refusing) < 2)
    assert path.exists() is ("unlink" in refusing)
    assert linked.read_bytes() == (b"secret" if "open" in refusing else bytes(6))
