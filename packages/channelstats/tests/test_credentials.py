"""Secrets: where they may come from, who may read them, and that nobody else sees them."""

import asyncio
import os
from pathlib import Path

import pytest

from channelstats.credentials import Purpose, find_token, read_or_create, slack_token
from channelstats.settings import SettingError, load

# ── credentials ───────────────────────────────────────────────────────────────────────────────────


READ, POST = "xoxp-1-secret", "xoxb-2-secret"


def file(path: Path, text: str = READ + "\n", mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", "xoxp-other")}, {})
    assert slack_token(Purpose.READ, settings, {"CHANNELSTATS_READ_TOKEN": READ}) == READ
    assert slack_token(Purpose.READ, settings, {"CHANNELSTATS_READ_TOKEN": ""}) == "xoxp-other"


def test_a_file_holds_a_token_alone(tmp_path: Path) -> None:
    settings = load({"post_token_file": file(tmp_path / "token", f"\n {POST} \n")}, {})
    assert slack_token(Purpose.POST, settings, {}) == POST


def test_one_of_the_two_serves_for_both(tmp_path: Path) -> None:
    settings = load({}, {})
    for variable in ("CHANNELSTATS_READ_TOKEN", "CHANNELSTATS_POST_TOKEN"):
        assert slack_token(Purpose.READ, settings, {variable: READ}) == READ
        assert slack_token(Purpose.POST, settings, {variable: READ}) == READ
    both = {"CHANNELSTATS_READ_TOKEN": READ, "CHANNELSTATS_POST_TOKEN": POST}
    assert (
        slack_token(Purpose.READ, settings, both),
        slack_token(Purpose.POST, settings, both),
    ) == (READ, POST)
    given = load({"read_token_file": file(tmp_path / "token")}, {})
    assert slack_token(Purpose.POST, given, {}) == READ


def test_without_any_it_says_where_to_put_one() -> None:
    settings = load({}, {})
    assert find_token(Purpose.READ, settings, {}) is None
    with pytest.raises(SettingError, match=r"CHANNELSTATS_POST_TOKEN.*--post-token-file"):
        slack_token(Purpose.POST, settings, {})


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", mode=mode)}, {})
    with pytest.raises(SettingError, match="chmod 600"):
        slack_token(Purpose.READ, settings, {})


def test_a_file_that_is_bad_is_no_reason_to_take_the_other_token(tmp_path: Path) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", mode=0o644)}, {})
    with pytest.raises(SettingError):
        slack_token(Purpose.READ, settings, {"CHANNELSTATS_POST_TOKEN": POST})


@pytest.mark.parametrize(
    "text", ["", "two words", f"{READ}\n{POST}", "tökên", "x" * 5000, "\x00", "token = 'x'"]
)
def test_what_is_no_token_is_refused_and_not_told(tmp_path: Path, text: str) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", text)}, {})
    with pytest.raises(SettingError, match="expected a token alone") as error:
        slack_token(Purpose.READ, settings, {})
    assert not text or text not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        settings = load({"read_token_file": str(path)}, {})
        with pytest.raises(SettingError, match=str(path)):
            slack_token(Purpose.READ, settings, {})


def test_a_token_is_in_no_repr() -> None:
    found = find_token(Purpose.POST, load({}, {}), {"CHANNELSTATS_READ_TOKEN": READ})
    assert repr(found) == "<token that reads, of CHANNELSTATS_READ_TOKEN>"


# ── kept files ────────────────────────────────────────────────────────────────────────────────────


def fresh() -> bytes:
    return os.urandom(32)


def test_a_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    made = read_or_create(folder / "secret", fresh)
    assert read_or_create(folder / "secret", fresh) == made == (folder / "secret").read_bytes()
    assert (folder / "secret").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["secret"]


async def test_of_several_makers_all_get_the_whole_of_one(tmp_path: Path) -> None:
    makers = (asyncio.to_thread(read_or_create, tmp_path / "secret", fresh) for _ in range(8))
    (found,) = set(await asyncio.gather(*makers))
    assert len(found) == 32


def test_a_file_that_is_being_made_is_not_there_yet(tmp_path: Path) -> None:
    def looking() -> bytes:
        assert not (tmp_path / "secret").exists()
        return b"made"

    assert read_or_create(tmp_path / "secret", looking) == b"made"
