"""Files that are made once."""

import asyncio
import os
from pathlib import Path

import pytest

from channelstats.cli import NOT_DONE, main
from channelstats.settings.kept_files import kept_file


def fresh() -> bytes:
    return os.urandom(32)


def test_a_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    made = kept_file(folder, "secret", fresh)
    assert kept_file(folder, "secret", fresh) == made == (folder / "secret").read_bytes()
    assert (folder / "secret").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["secret"]


async def test_of_several_makers_all_get_the_whole_of_one(tmp_path: Path) -> None:
    makers = (asyncio.to_thread(kept_file, tmp_path, "secret", fresh) for _ in range(8))
    (found,) = set(await asyncio.gather(*makers))
    assert len(found) == 32


def test_a_file_that_is_being_made_is_not_there_yet(tmp_path: Path) -> None:
    def looking() -> bytes:
        assert not (tmp_path / "secret").exists()
        return b"made"

    assert kept_file(tmp_path, "secret", looking) == b"made"


def test_half_a_secret_makes_no_pseudonyms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    example = Path(__file__).parent / "example"
    assert main(["import-export", str(example), "--quiet"]) == 0
    (tmp_path / "channelstats-data" / "anonymize.secret").write_bytes(b"")
    assert main(["report", "global", "--anonymize"]) == NOT_DONE
    found = capfd.readouterr()
    assert found.out == ""
    assert "anonymize.secret: the secret of pseudonyms: expected 16 bytes" in found.err
