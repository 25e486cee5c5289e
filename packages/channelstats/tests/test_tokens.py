"""Tokens: where they may come from, who may read them, and that nobody is told."""

from pathlib import Path

import pytest

from channelstats.settings import SettingError, load
from channelstats.tokens import Purpose, find, post_token, read_token

READ, POST = "xoxp-1-secret", "xoxb-2-secret"


def file(path: Path, text: str = READ + "\n", mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", "xoxp-other")}, {})
    assert read_token(settings, {"CHANNELSTATS_READ_TOKEN": READ}) == READ
    assert read_token(settings, {"CHANNELSTATS_READ_TOKEN": ""}) == "xoxp-other"


def test_a_file_holds_a_token_alone(tmp_path: Path) -> None:
    settings = load({"post_token_file": file(tmp_path / "token", f"\n {POST} \n")}, {})
    assert post_token(settings, {}) == POST


def test_one_of_the_two_serves_for_both(tmp_path: Path) -> None:
    settings = load({}, {})
    for variable in ("CHANNELSTATS_READ_TOKEN", "CHANNELSTATS_POST_TOKEN"):
        assert read_token(settings, {variable: READ}) == READ
        assert post_token(settings, {variable: READ}) == READ
    both = {"CHANNELSTATS_READ_TOKEN": READ, "CHANNELSTATS_POST_TOKEN": POST}
    assert (read_token(settings, both), post_token(settings, both)) == (READ, POST)
    given = load({"read_token_file": file(tmp_path / "token")}, {})
    assert post_token(given, {}) == READ


def test_without_any_it_says_where_to_put_one() -> None:
    settings = load({}, {})
    assert find(Purpose.READ, settings, {}) is None
    with pytest.raises(SettingError, match=r"CHANNELSTATS_POST_TOKEN.*--post-token-file"):
        post_token(settings, {})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", mode=mode)}, {})
    with pytest.raises(SettingError, match="chmod 600"):
        read_token(settings, {})


def test_a_file_that_is_bad_is_no_reason_to_take_the_other_token(tmp_path: Path) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", mode=0o644)}, {})
    with pytest.raises(SettingError):
        read_token(settings, {"CHANNELSTATS_POST_TOKEN": POST})


@pytest.mark.parametrize(
    "text", ["", "two words", f"{READ}\n{POST}", "tökên", "x" * 5000, "\x00", "token = 'x'"]
)
def test_what_is_no_token_is_refused_and_not_told(tmp_path: Path, text: str) -> None:
    settings = load({"read_token_file": file(tmp_path / "token", text)}, {})
    with pytest.raises(SettingError, match="expected a token alone") as error:
        read_token(settings, {})
    assert not text or text not in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        settings = load({"read_token_file": str(path)}, {})
        with pytest.raises(SettingError, match=str(path)):
            read_token(settings, {})


def test_a_token_is_in_no_repr() -> None:
    found = find(Purpose.POST, load({}, {}), {"CHANNELSTATS_READ_TOKEN": READ})
    assert repr(found) == "<token that reads, of CHANNELSTATS_READ_TOKEN>"
