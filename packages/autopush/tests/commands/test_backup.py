"""`autopush backup`, `restore`, and `check` of the embedded store."""

import argparse
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from autopush import cli
from autopush.commands.backup import restore
from autopush.keys import save_keys, service_keys
from autopush.settings import Settings
from autopush.webpush.tokens import new_key
from keytables.sqlite import copies
from support.damaged_store import damage_log, damage_table, leave_unclosed
from support.data_store import DataStore, Run, uaid
from support.tools import run_captured

MADE = re.compile(
    r"wrote (?P<backup>\S+): store [\d.]+ MB, auth_key and crypto_key; checked; [\d.]+ s\n"
)


@pytest.fixture
def filled(store: DataStore) -> DataStore:
    """A data folder with keys, and three user agents in its store."""
    save_keys(service_keys((), (), store.data))
    store.add_users(range(3))
    return store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def back_up(run: Run, folder: Path) -> Path:
    code, out, err = run("backup", str(folder))
    assert (code, err) == (0, "")
    match = MADE.fullmatch(out)
    assert match, out
    return Path(match["backup"])


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if not path.name.endswith(("-shm", "-wal"))
    }


# ── Backup ────────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_has_the_store_the_keys_and_a_list_of_them(
    filled: DataStore, run: Run, folder: Path
) -> None:
    backup = back_up(run, folder)
    assert backup.parent == folder
    assert re.fullmatch(r"autopush-\d{8}T\d{6}Z", backup.name)
    assert set(tree(backup)) == {
        *("autopush.sqlite", "backup.json", "keys", "keys/auth_key", "keys/crypto_key")
    }
    for name in ("auth_key", "crypto_key"):
        assert (backup / "keys" / name).read_bytes() == (filled.data / "keys" / name).read_bytes()
    listed = json.loads((backup / "backup.json").read_text())["files"]
    assert {name: entry["size"] for name, entry in listed.items()} == {
        name: (backup / name).stat().st_size
        for name in ("autopush.sqlite", "keys/auth_key", "keys/crypto_key")
    }


def test_a_backup_is_for_its_owner_only(filled: DataStore, run: Run, folder: Path) -> None:
    before = os.umask(0)
    try:
        backup = back_up(run, folder)
    finally:
        os.umask(before)
    for path in (folder, backup, *backup.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_old_backups_are_removed_on_request_and_nothing_else(
    filled: DataStore, run: Run, folder: Path
) -> None:
    oldest, newer = folder / "autopush-20200101T000000Z", folder / "autopush-20210101T000000Z"
    for old in (oldest, newer):
        back_up(run, folder).rename(old)
    foreign = folder / "autopush-20190101T000000Z"
    foreign.mkdir()
    (folder / "mine.txt").write_text("mine")
    code, out, _ = run("backup", str(folder), "--keep", "2")
    assert code == 0
    assert out.splitlines()[1:] == [f"removed {oldest}"]
    [made] = MADE.findall(out)
    assert {*folder.iterdir()} == {newer, Path(made), foreign, folder / "mine.txt"}


def test_the_backup_just_made_is_kept_also_if_the_clock_was_ahead_before(
    filled: DataStore, run: Run, folder: Path
) -> None:
    ahead = folder / "autopush-29990101T000000Z"
    back_up(run, folder).rename(ahead)
    code, out, _ = run("backup", str(folder), "--keep", "1")
    assert code == 0
    [made] = MADE.findall(out)
    assert {*folder.iterdir()} == {ahead, Path(made)}


def test_quiet_prints_nothing(filled: DataStore, run: Run, folder: Path) -> None:
    assert run("backup", str(folder), "--quiet") == (0, "", "")
    assert len([*folder.iterdir()]) == 1


def test_a_key_that_is_not_in_the_data_folder_is_named(
    filled: DataStore, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    monkeypatch.setenv("CRYPTO_KEY", key)
    code, out, err = run("backup", str(folder))
    assert code == 0
    assert err == (
        "autopush: the backup has no crypto_key: it is given by environment variable CRYPTO_KEY; "
        "keep a copy of it\n"
    )
    assert key not in out
    assert not [*folder.glob("*/keys/crypto_key")]


def test_a_store_without_keys_is_backed_up_with_a_warning(
    store: DataStore, run: Run, folder: Path
) -> None:
    store.add_users(range(1))
    code, out, err = run("backup", str(folder))
    assert code == 0
    assert ", no keys; checked;" in out
    assert err.startswith(f"autopush: the backup has no crypto_key: there is no {store.data}/keys/")


@pytest.mark.parametrize("url", ["dynamodb://eu-west-1", "postgresql://u:secret@host/d"])
def test_of_a_store_in_a_database_the_backups_of_the_database_are_named(
    store: DataStore, run: Run, folder: Path, url: str
) -> None:
    for words in (("backup", str(folder)), ("restore", str(folder))):
        code, out, err = run(*words, "--store", url)
        assert (code, out) == (3, "")
        assert "(DynamoDB: point-in-time recovery; PostgreSQL: pg_dump)" in err
        assert "secret" not in err
        assert err.count("\n") == 1
    assert not folder.exists()


def test_without_a_store_nothing_is_written(store: DataStore, run: Run, folder: Path) -> None:
    code, out, err = run("backup", str(folder))
    assert (code, out) == (3, "")
    assert err == (
        f"autopush: cannot back up to {folder}: there is no store at {store.data}/autopush.sqlite\n"
    )
    assert [*folder.iterdir()] == []


def test_a_file_in_place_of_the_folder_is_an_error(
    filled: DataStore, run: Run, folder: Path
) -> None:
    folder.write_text("mine")
    assert run("backup", str(folder)) == (3, "", f"autopush: {folder} is not a folder\n")
    assert folder.read_text() == "mine"


def test_a_key_that_cannot_be_read_is_named_and_nothing_is_left(
    filled: DataStore, run: Run, folder: Path
) -> None:
    path = filled.data / "keys/crypto_key"
    path.unlink()
    path.mkdir()
    code, _, err = run("backup", str(folder))
    assert code == 3
    assert err == f"autopush: cannot back up to {folder}: {path}: Is a directory\n"
    assert [*folder.iterdir()] == []


def test_an_old_backup_that_cannot_be_removed_is_named_and_the_new_one_stays(
    filled: DataStore, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = folder / "autopush-20200101T000000Z"
    back_up(run, folder).rename(old)
    remove = shutil.rmtree

    def refuse(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(1, "Operation not permitted", str(path))
        remove(path, ignore_errors=True)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    code, out, err = run("backup", str(folder), "--keep", "1")
    assert code == 1
    assert MADE.match(out)
    assert err.startswith("autopush: cannot remove an old backup: ")
    assert err.endswith(": Operation not permitted\n")


def test_one_backup_at_a_time_is_written_to_a_folder(
    filled: DataStore, run: Run, folder: Path
) -> None:
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        code, _, err = run("backup", str(folder))
    finally:
        os.close(descriptor)
    assert (code, err) == (3, f"autopush: another backup is being written to {folder}\n")
    back_up(run, folder)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_ends_it_and_leaves_nothing(
    filled: DataStore,
    run: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    code: int,
) -> None:
    copied = copies.check_copy

    def signal_self(path: Path) -> tuple[str, ...]:
        assert [*folder.iterdir()]
        os.kill(os.getpid(), number)
        return copied(path)

    monkeypatch.setattr("autopush.commands.backup.check_copy", signal_self)
    try:
        assert run("backup", str(folder))[0] == code
    except SystemExit as leaving:
        assert leaving.code == code  # noqa: PT017 - SIGINT comes as another exception
    assert [*folder.iterdir()] == []


def test_what_a_killed_backup_left_is_removed_by_the_next(
    filled: DataStore, run: Run, folder: Path
) -> None:
    left = folder / ".autopush-0123456789abcdef"
    left.mkdir(parents=True)
    (left / "autopush.sqlite").write_bytes(b"half")
    backup = back_up(run, folder)
    assert [*folder.iterdir()] == [backup]


# ── Restore ───────────────────────────────────────────────────────────────────────────────────────


def test_a_backup_is_restored_to_an_empty_data_folder(
    filled: DataStore, run: Run, folder: Path
) -> None:
    keys = tree(filled.data / "keys")
    backup = back_up(run, folder)
    shutil.rmtree(filled.data)
    code, out, err = run("restore", str(backup))
    assert (code, err) == (0, "")
    assert out.startswith(f"restored {filled.data}/autopush.sqlite from {backup}, made 20")
    assert "kept" not in out
    assert filled.users() == {uaid(number) for number in range(3)}
    assert tree(filled.data / "keys") == keys
    for path in (filled.data, *filled.data.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_store_is_replaced_only_by_force_and_is_kept(
    filled: DataStore, run: Run, folder: Path
) -> None:
    backup = back_up(run, folder)
    filled.add_users(range(3, 5))
    before = tree(filled.data)
    code, out, err = run("restore", str(backup))
    assert (code, out) == (3, "")
    assert "with --force it is replaced, and kept" in err
    assert tree(filled.data) == before
    code, out, err = run("restore", str(backup), "--force")
    assert (code, err) == (0, "")
    assert filled.users() == {uaid(number) for number in range(3)}
    [kept] = filled.data.glob("before-restore-*")
    assert f"kept the store that was there in {kept}" in out
    assert DataStore(kept).users() == {uaid(number) for number in range(5)}


def test_two_restores_within_a_second_keep_a_store_each(
    filled: DataStore, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["backup", str(folder)]) == 0
    [backup] = folder.iterdir()
    settings = Settings(data=filled.data)
    arguments = argparse.Namespace(backup=str(backup), force=True)
    for _ in range(3):
        assert restore(settings, arguments, lambda: 1_795_364_100.25) == 0
    kept = sorted(name.name for name in filled.data.glob("before-restore-*"))
    assert kept == [f"before-restore-20261122T161500Z{number}" for number in ("", "-1", "-2")]


def test_a_key_that_was_rotated_since_stays_the_first(
    filled: DataStore, run: Run, folder: Path
) -> None:
    backup = back_up(run, folder)
    run("keys", "rotate")
    rotated = (filled.data / "keys/crypto_key").read_text()
    code, out, _ = run("restore", str(backup), "--force")
    assert code == 0
    assert f"{filled.data}/keys/crypto_key has all keys of the backup already" in out
    assert (filled.data / "keys/crypto_key").read_text() == rotated


def test_the_keys_of_the_backup_come_first_and_others_stay_accepted(
    filled: DataStore, run: Run, folder: Path
) -> None:
    path = filled.data / "keys/crypto_key"
    backup = back_up(run, folder)
    [saved] = service_keys((), (), filled.data).crypto
    path.unlink()
    [other] = save_keys(service_keys((), (), filled.data)).crypto
    assert other != saved
    code, out, _ = run("restore", str(backup), "--force")
    assert code == 0
    assert f"restored {path}\n" in out
    assert service_keys((), (), filled.data).crypto == (saved, other)
    assert saved not in out


def test_the_newest_backup_is_named_where_their_folder_is_given(
    filled: DataStore, run: Run, folder: Path
) -> None:
    back_up(run, folder).rename(folder / "autopush-20200101T000000Z")
    newest = back_up(run, folder)
    code, _, err = run("restore", str(folder), "--force")
    assert code == 3
    assert err == (
        f"autopush: {folder} is no backup: it has no backup.json; the newest in it is "
        f"{newest.name}\n"
    )


LISTS = {
    "{}": "backup.json is damaged",
    "nonsense": "backup.json is damaged",
    '{"format":2,"made":"","version":"9.0","files":{}}': "made by autopush 9.0, in format 2",
    '{"format":1,"made":"","version":"2.0","files":{}}': "lists no autopush.sqlite",
    '{"format":1,"made":"","version":"2.0","files":{"../x":{"size":1,"sha256":""}}}': "'../x'",
}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "spoil", "words"),
    [
        *(
            (name, Path.unlink, name)
            for name in ("autopush.sqlite", "keys/crypto_key", "backup.json")
        ),
        *(
            (name, flip, "is damaged: it is not the file that was written")
            for name in ("autopush.sqlite", "keys/crypto_key")
        ),
        *(
            ("backup.json", partial(Path.write_text, data=text), words)
            for text, words in LISTS.items()
        ),
    ],
)
def test_a_backup_that_is_not_as_it_was_written_changes_nothing(
    filled: DataStore, run: Run, folder: Path, name: str, spoil: Callable[[Path], None], words: str
) -> None:
    backup = back_up(run, folder)
    spoil(backup / name)
    assert_refused(filled, run, backup, words)


def test_another_router_table_or_a_key_file_that_cannot_be_read_changes_nothing(
    filled: DataStore, run: Run, folder: Path
) -> None:
    backup = back_up(run, folder)
    assert_refused(filled, run, backup, "has no table users", "--router-tablename", "users")
    (filled.data / "keys/crypto_key").write_text("no key\n")
    assert_refused(filled, run, backup, "keys/crypto_key:1: not a key")


def assert_refused(store: DataStore, run: Run, backup: Path, words: str, *options: str) -> None:
    store.add_users(range(7, 8))
    before = tree(store.data)
    code, out, err = run("restore", str(backup), "--force", *options)
    assert (code, out) == (3, "")
    assert words in err
    assert err.count("\n") == 1
    assert tree(store.data) == before


def test_a_whole_store_is_not_damaged(store: DataStore, run: Run) -> None:
    store.add_users(range(3))
    code, out, err = run("check")
    assert (code, err) == (0, "")
    assert out.startswith(f"{store.data}/autopush.sqlite: not damaged; ")
    assert out.count("\n") == 1


def test_a_damaged_table_is_named_with_what_to_do(store: DataStore, run: Run) -> None:
    store.add_users(range(3))
    damage_table(store.data / "autopush.sqlite", "router")
    code, out, err = run("check")
    assert (code, err) == (1, "")
    verdict, damage, advice = out.splitlines()
    assert ": damaged; " in verdict
    assert damage.startswith("damaged: table 'router': some of its rows cannot be read")
    assert "autopush restore --force BACKUP" in advice


def test_json_has_all_of_it(store: DataStore, run: Run) -> None:
    path = store.data / "autopush.sqlite"
    leave_unclosed(path)
    code, out, _ = run("check", "--json")
    assert code == 0
    assert json.loads(out) == {
        "store": str(path),
        "ok": True,
        "damage": [],
        "complete": True,
        "unclean": True,
        "in_use": False,
        "advice": [],
    }
    damage_log(path)
    code, out, _ = run("check", "--json")
    document = json.loads(out)
    assert (code, document["ok"], len(document["damage"])) == (1, False, 1)
    assert document["advice"]


def on_a_full_disk(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run the command where no file can grow beyond 40 kB. It must not cache bytecode: Python would
    leave files of that length, which no later process can read.
    """
    return run_captured(
        [sys.executable, "-B", Path(sysconfig.get_path("scripts"), "autopush"), *words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
    )


def test_a_restore_to_a_full_disk_changes_nothing(
    filled: DataStore, run: Run, folder: Path
) -> None:
    backup = back_up(run, folder)
    filled.add_users(range(7, 8))
    before = tree(filled.data)
    ended = on_a_full_disk("restore", backup, "--force")
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.startswith("autopush: cannot restore: ")
    assert tree(filled.data) == before


def test_two_backups_of_one_second_have_names_of_their_own(
    filled: DataStore, run: Run, folder: Path
) -> None:
    made = {back_up(run, folder) for _ in range(3)}
    assert len(made) == 3
    assert {*folder.iterdir()} == made


def test_a_damaged_store_gives_no_backup(filled: DataStore, run: Run, folder: Path) -> None:
    path = filled.data / "autopush.sqlite"
    content = bytearray(path.read_bytes())
    content[9_000:] = bytes(len(content) - 9_000)
    path.write_bytes(content)
    code, _, err = run("backup", str(folder))
    assert code == 3
    assert "damaged" in err
    assert [*folder.iterdir()] == []


def test_it_changes_nothing(store: DataStore, run: Run) -> None:
    path = store.data / "autopush.sqlite"
    leave_unclosed(path)
    damage_log(path)
    before = {name.name: name.read_bytes() for name in store.data.glob("autopush.sqlite*")}
    began = time.monotonic()
    run("check", "--timeout", "5")
    assert time.monotonic() - began < 30
    after = {name.name: name.read_bytes() for name in store.data.glob("autopush.sqlite*")}
    for name in ("autopush.sqlite", "autopush.sqlite-wal"):
        assert after[name] == before[name]
