"""Files kept for speed: for their owner alone, overwritten before they are removed. Pages in them:
whole or none, bounded, and gone with what they were made of.
"""

import os
from pathlib import Path

import pytest

from channelstats.tables.kept_files import PageFiles, erase, write_file
from support.channelstats.house import EXAMPLE, House

CONTENT = bytes(range(256)) * 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "days" / "pages"


@pytest.fixture
def pages(folder: Path) -> PageFiles:
    return PageFiles(folder)


def there(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_only_their_owner_can_read_files_and_new_folders(folder: Path) -> None:
    path = write_file(folder, "name", CONTENT)
    assert (path, path.read_bytes(), there(folder)) == (folder / "name", CONTENT, [path])
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


async def test_a_page_is_there_for_the_state_and_the_key_it_was_made_for(pages: PageFiles) -> None:
    await pages.put("state", "key", CONTENT)
    assert await pages.get("state", "key") == CONTENT
    assert await pages.has("state", "key")
    for other in (("state", "other"), ("other", "key")):
        assert await pages.get(*other) is None
        assert not await pages.has(*other)


@pytest.mark.parametrize("where", [0, 31, 32, 1000, -1])
async def test_a_damaged_page_is_none(pages: PageFiles, folder: Path, where: int) -> None:
    await pages.put("state", "key", CONTENT)
    [path] = there(folder)
    whole = path.read_bytes()
    place = where % len(whole)
    for damaged in (
        whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :],
        whole[:place],
        b"",
    ):
        path.write_bytes(damaged)
        assert await pages.get("state", "key") is None
    await pages.put("state", "key", CONTENT)
    assert await pages.get("state", "key") == CONTENT


async def test_a_page_that_was_renamed_is_none(pages: PageFiles, folder: Path) -> None:
    await pages.put("state", "key", CONTENT)
    [path] = there(folder)
    path.rename(folder / path.name.replace("key", "other"))
    assert await pages.has("state", "other")
    assert await pages.get("state", "other") is None


async def test_the_oldest_pages_make_room(folder: Path) -> None:
    pages = PageFiles(folder, most=3 * len(CONTENT))
    for at, key in enumerate("abc"):
        await pages.put("state", key, CONTENT)
        os.utime(folder / f"state-{key}.page", (at, at))
    assert [await pages.has("state", key) for key in "abc"] == [False, True, True]
    assert sum(path.stat().st_size for path in there(folder)) <= 3 * len(CONTENT)


async def test_pages_of_other_states_and_unfinished_ones_are_removed(
    pages: PageFiles, folder: Path
) -> None:
    for state in ("old", "new"):
        await pages.put(state, "key", CONTENT)
    (folder / ".part-1234").write_text("what a process that died left")
    (folder / "notes.txt").write_text("somebody else's")
    assert await pages.keep_only("new") == []
    assert [path.name for path in there(folder)] == ["new-key.page", "notes.txt"]


async def test_pages_that_can_neither_be_overwritten_nor_removed_are_reported(
    pages: PageFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pages.put("state", "key", CONTENT)
    monkeypatch.setattr(Path, "unlink", refused)
    monkeypatch.setattr(Path, "open", refused)  # modes do not bind every user that tests run as
    assert await pages.clear() == [folder / "state-key.page"]


async def test_without_a_folder_that_can_be_written_no_page_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for pages in (PageFiles(None), PageFiles(tmp_path / "file" / "pages")):
        await pages.put("state", "key", CONTENT)
        assert await pages.get("state", "key") is None
        assert not await pages.has("state", "key")
        assert await pages.clear() == []


async def test_every_run_that_writes_messages_removes_them_at_its_end(example: House) -> None:
    await example.tables.pages.put("state", "key", CONTENT)
    await example.take_in(EXAMPLE)
    assert not await example.tables.pages.has("state", "key")
