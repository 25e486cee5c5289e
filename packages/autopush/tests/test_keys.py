import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autopush.keys import ServiceKeys, existing_crypto_keys, rotate_key, save_keys, service_keys
from autopush.settings import StartupError
from autopush.settings.value_types import PUBLISHED_KEYS, is_fernet_key

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="
OTHER_KEY = "u5YfTbTTG8xyAtVLTxAUo4ReHgOLUGCh0vJGqZ5ZcIA="


def load_keys(data: Path) -> ServiceKeys:
    return save_keys(service_keys((), (), data))


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


def test_a_start_that_is_refused_before_its_keys_are_saved_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert service_keys((), (), data).made == (data / "keys/crypto_key", data / "keys/auth_key")
    assert not data.exists()


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


def test_a_file_may_hold_the_output_of_autokey(tmp_path: Path) -> None:
    path = write_key(tmp_path, f"Key = {KEY}\n")
    assert load_keys(tmp_path).crypto == (KEY,)
    rotate_key(tmp_path, "crypto_key", make=lambda: NEW_KEY)
    assert load_keys(tmp_path).crypto == (NEW_KEY, KEY)
    assert f"Key = {KEY}" in path.read_text()


@pytest.mark.parametrize("broken", [KEY[:-1], f"{KEY} {KEY}", "geheim", KEY + "\0", "\xff" + KEY])
def test_a_broken_key_names_file_and_line_but_not_its_content(tmp_path: Path, broken: str) -> None:
    path = write_key(tmp_path, f"# fine\n{OTHER_KEY}\n{broken}\n")
    text = refusal(tmp_path)
    assert text == f"{path}:3: not a key such as `autokey` makes, or a published one"
    assert path.read_text(encoding="latin-1").endswith(f"{broken}\n")


@pytest.mark.parametrize("published", sorted(PUBLISHED_KEYS))
def test_a_published_key_in_a_file_is_refused(tmp_path: Path, published: str) -> None:
    write_key(tmp_path, f"{OTHER_KEY}\n{published}\n")
    assert refusal(tmp_path).endswith(":2: not a key such as `autokey` makes, or a published one")


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n \n"])
def test_a_file_without_keys_is_not_replaced(tmp_path: Path, text: str) -> None:
    path = write_key(tmp_path, text)
    assert refusal(tmp_path).startswith(f"{path} holds no key")
    assert path.read_text() == text


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
from autopush.keys import save_keys, service_keys
print("up", flush=True)
sys.stdin.readline()
keys = save_keys(service_keys((), (), Path(sys.argv[1])))
print(keys.crypto, keys.auth, flush=True)
"""


@contextmanager
def begin_together(
    script: str, folder: Path, number: int
) -> "Iterator[list[subprocess.Popen[str]]]":
    """So many processes that run the script at the same moment: each waits where it prints `up`."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(number)
    ]
    try:
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == "up\n"
        for process in processes:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_processes_that_start_together_use_the_same_keys(tmp_path: Path) -> None:
    with begin_together(STARTER, tmp_path / "data", 3) as starters:
        printed = {starter.communicate(timeout=30)[0] for starter in starters}
    assert len(printed) == 1
    assert printed != {""}


def test_a_key_that_another_process_wrote_first_is_used(tmp_path: Path) -> None:
    keys = service_keys((), ("auth",), tmp_path)
    write_key(tmp_path, OTHER_KEY)
    keys = save_keys(keys)
    assert keys.crypto == (OTHER_KEY,)
    assert keys.made == ()


# ── Without creating any ─────────────────────────────────────────────────────────────────────────


def test_a_tool_uses_the_keys_that_are_there_and_creates_none(tmp_path: Path) -> None:
    assert existing_crypto_keys((KEY,), tmp_path) == (KEY,)
    with pytest.raises(StartupError, match=r"there is no .*/crypto_key: name the data folder"):
        existing_crypto_keys((), tmp_path)
    assert list(tmp_path.iterdir()) == []
    write_key(tmp_path, f"{KEY}\n{OTHER_KEY}\n")
    assert existing_crypto_keys((), tmp_path) == (KEY, OTHER_KEY)


# ── Rotation ─────────────────────────────────────────────────────────────────────────────────────

NEW_KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def rotate(data: Path, name: str = "crypto_key", **options: bool) -> None:
    rotate_key(data, name, make=lambda: NEW_KEY, **options)


def test_a_rotation_puts_a_new_key_first_and_keeps_all_others(tmp_path: Path) -> None:
    path = write_key(tmp_path, f"# of 2026\n{KEY}\n\n  # older\n  {OTHER_KEY}  \r\n")
    rotation = rotate_key(tmp_path, "crypto_key", make=lambda: NEW_KEY)
    assert (rotation.path, rotation.before, rotation.was_prepared) == (path, 2, False)
    assert load_keys(tmp_path).crypto == (NEW_KEY, KEY, OTHER_KEY)
    assert path.read_text().splitlines()[:3] == ["# of 2026", NEW_KEY, KEY]
    assert "  # older" in path.read_text()
    assert [entry.name for entry in path.parent.iterdir() if entry.name[0] == "."] == []


def test_a_rotation_of_one_kind_leaves_the_other(tmp_path: Path) -> None:
    before = load_keys(tmp_path)
    rotate_key(tmp_path, "auth_key")
    after = load_keys(tmp_path)
    assert after.crypto == before.crypto
    assert after.auth[1:] == before.auth
    assert after.auth[0] not in (*before.auth, *before.crypto)


def test_a_prepared_key_is_last_until_the_next_rotation_puts_it_first(tmp_path: Path) -> None:
    path = write_key(tmp_path, f"# of 2026\n{KEY}\n{OTHER_KEY}")
    rotate(tmp_path, prepare=True)
    assert load_keys(tmp_path).crypto == (KEY, OTHER_KEY, NEW_KEY)
    with pytest.raises(StartupError, match="has a prepared key already"):
        rotate(tmp_path, prepare=True)
    rotation = rotate_key(tmp_path, "crypto_key", make=lambda: "not used")
    assert (rotation.before, rotation.was_prepared) == (3, True)
    assert load_keys(tmp_path).crypto == (NEW_KEY, KEY, OTHER_KEY)
    assert path.read_text() == f"# of 2026\n{NEW_KEY}\n{KEY}\n{OTHER_KEY}\n"
    # The next one is a new key again.
    assert rotate_key(tmp_path, "crypto_key").was_prepared is False
    assert load_keys(tmp_path).crypto[1:] == (NEW_KEY, KEY, OTHER_KEY)


@pytest.mark.parametrize("prepare", [False, True])
def test_a_dry_run_of_a_rotation_changes_nothing(tmp_path: Path, prepare: bool) -> None:
    path = write_key(tmp_path, f"{KEY}\n")
    before = path.stat()
    rotate(tmp_path, dry_run=True, prepare=prepare)
    assert path.read_text() == f"{KEY}\n"
    assert path.stat().st_ino == before.st_ino


def test_a_rotated_file_keeps_its_mode(tmp_path: Path) -> None:
    path = write_key(tmp_path, f"{KEY}\n", mode=0o640)
    rotate(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to other users")
def test_a_rotated_file_keeps_its_owner(tmp_path: Path) -> None:
    path = write_key(tmp_path, f"{KEY}\n")
    os.chown(path, 12345, 12346)
    rotate(tmp_path)
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)


def test_a_link_to_a_key_file_stays_a_link(tmp_path: Path) -> None:
    elsewhere = write_key(tmp_path / "elsewhere", f"{KEY}\n")
    path = tmp_path / "keys" / "crypto_key"
    path.parent.mkdir()
    path.symlink_to(elsewhere)
    rotate(tmp_path)
    assert path.is_symlink()
    assert elsewhere.read_text() == f"{NEW_KEY}\n{KEY}\n"


@pytest.mark.parametrize("text", ["", "# nothing\n", f"{KEY}\nsecret\n"])
def test_a_file_that_no_service_would_start_with_is_not_rotated(tmp_path: Path, text: str) -> None:
    path = write_key(tmp_path, text)
    with pytest.raises(StartupError) as caught:
        rotate(tmp_path)
    assert "secret" not in str(caught.value)
    assert path.read_text() == text


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_rotation_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = write_key(tmp_path, f"{KEY}\n")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if call == "fsync" else Path, call, fail)
    with pytest.raises(StartupError, match="No space left"):
        rotate(tmp_path)
    assert path.read_text() == f"{KEY}\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["crypto_key"]


ROTATOR = """
import sys
from pathlib import Path
from autopush.keys import rotate_key
print("up", flush=True)
sys.stdin.readline()
for _ in range(10):
    rotate_key(Path(sys.argv[1]), "crypto_key")
"""


def test_rotations_at_the_same_time_lose_no_key(tmp_path: Path) -> None:
    write_key(tmp_path, f"{KEY}\n")
    with begin_together(ROTATOR, tmp_path, 3) as rotators:
        while any(rotator.poll() is None for rotator in rotators):
            # A service that starts meanwhile finds a whole file.
            assert load_keys(tmp_path).crypto[-1] == KEY
        assert [rotator.returncode for rotator in rotators] == [0, 0, 0]
    keys = load_keys(tmp_path).crypto
    assert len(set(keys)) == len(keys) == 31
