import os
import subprocess
import sys
from pathlib import Path

import pytest

from autopush.keys import ServiceKeys, service_keys
from autopush.settings import StartupError
from autopush.settings.value_types import is_fernet_key

KEY = "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="
OTHER_KEY = "u5YfTbTTG8xyAtVLTxAUo4ReHgOLUGCh0vJGqZ5ZcIA="


def load_keys(data: Path) -> ServiceKeys:
    return service_keys((), (), data)


def refusal(data: Path) -> str:
    with pytest.raises(StartupError) as caught:
        load_keys(data)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return text


def write_key(data: Path, text: str, name: str = "crypto_key", mode: int = 0o600) -> Path:
    path = data / "keys" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="latin-1")
    path.chmod(mode)
    return path


def test_the_first_start_creates_keys_and_later_starts_use_them(tmp_path: Path) -> None:
    data = tmp_path / "new" / "data"
    first = load_keys(data)
    assert len(first.crypto) == len(first.auth) == 1
    assert first.crypto != first.auth
    assert is_fernet_key(first.crypto[0])
    assert first.made == (data / "keys" / "crypto_key", data / "keys" / "auth_key")
    second = load_keys(data)
    assert (second.crypto, second.auth) == (first.crypto, first.auth)
    assert second.made == ()
    assert second.warnings == ()


def test_created_keys_are_for_this_user_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = load_keys(tmp_path / "data").made
    finally:
        os.umask(before)
    for path in made:
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in made[0].parent.iterdir()) == ["auth_key", "crypto_key"]


def test_configured_keys_are_used_and_none_is_created(tmp_path: Path) -> None:
    keys = service_keys((KEY, OTHER_KEY), ("auth",), tmp_path / "data")
    assert (keys.crypto, keys.auth, keys.made) == ((KEY, OTHER_KEY), ("auth",), ())
    assert not (tmp_path / "data").exists()


def test_a_process_without_registration_api_creates_no_key_for_it(tmp_path: Path) -> None:
    keys = service_keys((), (), tmp_path, auth_needed=False)
    assert keys.auth == ()
    assert keys.made == (tmp_path / "keys" / "crypto_key",)
    assert service_keys((KEY,), ("given",), tmp_path / "x", auth_needed=False).auth == ("given",)


def test_only_the_kind_that_is_not_configured_is_created(tmp_path: Path) -> None:
    keys = service_keys((KEY,), (), tmp_path)
    assert keys.crypto == (KEY,)
    assert keys.made == (tmp_path / "keys" / "auth_key",)


def test_a_file_holds_several_keys_newest_first_with_comments(tmp_path: Path) -> None:
    write_key(tmp_path, f"# of 2026\n{KEY}\n\n  # older\n  {OTHER_KEY}  \r\n")
    assert load_keys(tmp_path).crypto == (KEY, OTHER_KEY)


@pytest.mark.parametrize("broken", [KEY[:-1], f"{KEY} {KEY}", "geheim", KEY + "\0", "\xff" + KEY])
def test_a_broken_key_names_file_and_line_but_not_its_content(tmp_path: Path, broken: str) -> None:
    path = write_key(tmp_path, f"# fine\n{OTHER_KEY}\n{broken}\n")
    text = refusal(tmp_path)
    assert text == f"{path}:3: not a key such as `autokey` makes"
    assert path.read_text(encoding="latin-1").endswith(f"{broken}\n")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n \n"])
def test_a_file_without_keys_is_not_replaced(tmp_path: Path, text: str) -> None:
    path = write_key(tmp_path, text)
    assert refusal(tmp_path).startswith(f"{path} holds no key")
    assert path.read_text() == text


def test_a_key_file_open_to_others_is_a_warning(tmp_path: Path) -> None:
    path = write_key(tmp_path, KEY, mode=0o640)
    keys = load_keys(tmp_path)
    assert keys.crypto == (KEY,)
    assert keys.warnings == (f"{path} is open to other users (mode 640): chmod 600 {path}",)


def test_a_key_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "crypto_key"
    path.mkdir(parents=True)
    assert refusal(tmp_path) == f"cannot keep keys in {path}: {path}: Is a directory"


def test_a_data_folder_that_cannot_be_created_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "Not a directory" in refusal(tmp_path / "file" / "data")


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in refusal(tmp_path)
    assert list((tmp_path / "keys").iterdir()) == []


def test_the_repr_hides_the_keys() -> None:
    assert KEY not in repr(ServiceKeys((KEY,), (KEY,)))


STARTER = """
import sys
from pathlib import Path
from autopush.keys import service_keys
print("up", flush=True)
sys.stdin.readline()
keys = service_keys((), (), Path(sys.argv[1]))
print(keys.crypto, keys.auth, flush=True)
"""


def test_processes_that_start_together_use_the_same_keys(tmp_path: Path) -> None:
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(tmp_path / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    try:
        for starter in starters:
            assert starter.stdout
            assert starter.stdout.readline() == "up\n"
        for starter in starters:
            assert starter.stdin
            starter.stdin.write("\n")
            starter.stdin.flush()
        printed = {starter.communicate(timeout=30)[0] for starter in starters}
    finally:
        for starter in starters:
            starter.kill()
            starter.wait()
    assert len(printed) == 1
    assert printed != {""}


def test_a_key_that_another_process_wrote_first_is_used(tmp_path: Path) -> None:
    def make_late() -> str:
        # Another process finishes after this one has read, before it writes.
        write_key(tmp_path, OTHER_KEY)
        return KEY

    keys = service_keys((), ("auth",), tmp_path, make=make_late)
    assert keys.crypto == (OTHER_KEY,)
    assert keys.made == ()
