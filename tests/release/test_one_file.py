"""The one file: what it unpacks, and the whole service from it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from autopush.commands import COMMANDS
from support.packaged import MODULE_WORDS, packaged, run, upgraded
from support.service import clean_environment

OTHER_HASH = "0123456789abcdef"
EXTRAS = "import acme.client, asyncpg, botocore.session, google.auth, h2, OpenSSL, sentry_sdk"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("file")
    return Path(shutil.copy(packaged("file"), folder / "autopush"))


@pytest.fixture(scope="module")
def cache(file: Path) -> Path:
    """A cache folder in which it is unpacked."""
    folder = file.parent / "cache"
    run([file, "--version"], variables=at(folder))
    return folder


def at(cache: Path) -> dict[str, str]:
    """Variables that name the cache folder, for root too."""
    return {"CACHE_DIRECTORY": str(cache)}


def test_every_command_and_every_extra_works_from_it(file: Path, cache: Path) -> None:
    [unpacked] = cache.iterdir()
    for command in COMMANDS:
        assert f"usage: autopush {command.name}" in run(
            [file, command.name, "--help"], variables=at(cache)
        )
    (link := file.parent / "autokey").symlink_to(file)
    assert run([link], variables=at(cache)).startswith("Key = ")
    run([unpacked / "bin/python3", "-I", "-c", EXTRAS])


def test_starts_at_the_same_time_unpack_it_once_for_its_user_alone(
    file: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    environment = clean_environment(**at(cache))
    starts = [
        subprocess.Popen([file, "--version"], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert {start.communicate(timeout=60)[0] for start in starts} == {
        run([file, "--version"], variables=at(cache))
    }
    [unpacked] = cache.iterdir()
    assert (cache.stat().st_mode & 0o777, unpacked.stat().st_mode & 0o777) == (0o700, 0o700)


def test_a_cache_that_others_may_write_is_refused(file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o770)
    refused = run([file, "--version"], code=3, variables=at(cache))
    assert (
        refused == f"autopush: {cache} may be written by others: remove it, or set XDG_CACHE_HOME\n"
    )
    assert not [*cache.iterdir()]


@pytest.mark.parametrize(
    ("variables", "refusal"),
    [
        ({"CACHE_DIRECTORY": "/proc/autopush"}, "cannot unpack 140 MB into /proc/autopush"),
        ({"CACHE_DIRECTORY": "cache"}, "no folder to unpack into"),
    ],
)
def test_what_cannot_be_unpacked_is_refused_in_one_line(
    file: Path, tmp_path: Path, variables: dict[str, str], refusal: str
) -> None:
    refused = run([file, "--version"], code=3, cwd=tmp_path, variables=variables)
    assert refused.startswith(f"autopush: {refusal}")
    assert refused.count("\n") == 1
    assert not [*tmp_path.iterdir()]


def test_a_truncated_file_unpacks_nothing(file: Path, tmp_path: Path) -> None:
    short = tmp_path / "autopush"
    shutil.copy(file, short)
    os.truncate(short, short.stat().st_size // 2)
    cache = tmp_path / "cache"
    assert "cannot unpack" in run([short, "--version"], code=3, variables=at(cache))
    assert not [*cache.iterdir()]


@pytest.fixture
def own_cache(cache: Path, tmp_path: Path) -> Path:
    """A copy for a test that changes it."""
    run(["cp", "-a", str(cache), str(tmp_path / "cache")])
    return tmp_path / "cache"


def like_another_version(file: Path, its_hash: str, to: Path) -> Path:
    to.write_bytes(file.read_bytes().replace(its_hash.encode(), OTHER_HASH.encode(), 1))
    to.chmod(0o755)
    return to


def test_a_version_that_does_not_run_any_more_is_removed_by_the_next(
    file: Path, own_cache: Path, tmp_path: Path
) -> None:
    [former] = os.listdir(own_cache)
    (own_cache / ".0123.999999999").mkdir()  # of a start that was killed
    newer = like_another_version(file, former, tmp_path / "newer")
    run([newer, "--version"], variables=at(own_cache))
    assert os.listdir(own_cache) == [OTHER_HASH]


async def test_an_upgrade_starts_the_file_that_is_there_now_and_keeps_every_connection(
    file: Path, own_cache: Path, tmp_path: Path
) -> None:
    installed, data = tmp_path / "autopush", tmp_path / "data"
    shutil.copy(file, installed)
    [former] = os.listdir(own_cache)
    newer = like_another_version(file, former, tmp_path / "newer")
    script = f"mv {newer} {installed}; exec {installed} upgrade --data {data}"
    async with upgraded(
        data,
        lambda command: [str(installed), *command[MODULE_WORDS:]],
        ["/bin/sh", "-c", script],
        "--workers=2",
        variables=at(own_cache),
    ):
        assert set(os.listdir(own_cache)) == {former, OTHER_HASH}
