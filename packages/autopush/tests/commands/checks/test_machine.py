"""Data folder, keys, disk and limits of the system."""

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from autopush.commands.checks import machine
from autopush.commands.checks.machine import (
    check_data_folder,
    check_disk,
    check_keys,
    check_limits,
    check_logs,
    file_system,
)
from autopush.keys import save_keys, service_keys
from autopush.settings import Settings
from support.checks import findings, given

KEY = "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a path one that this user may not write, which also root may otherwise."""
    access = os.access

    def forbid(path: Path) -> None:
        def refuse(asked: Path, mode: int) -> bool:
            return asked != path and access(asked, mode)

        monkeypatch.setattr(os, "access", refuse)

    return forbid


# ── Data folder ───────────────────────────────────────────────────────────────────────────────────


async def test_a_data_folder_for_its_owner_alone_is_well(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    settings = Settings(data=tmp_path)
    assert await findings(check_data_folder, settings) == [("OK", f"{tmp_path}, mode 700")]


async def test_a_data_folder_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    [(level, text)] = await findings(check_data_folder, Settings(data=tmp_path))
    assert (level, text.endswith(f"chmod 700 {tmp_path}")) == ("WARN", True)


async def test_a_data_folder_that_cannot_be_made_or_written_is_a_failure(
    tmp_path: Path, forbid: Callable[[Path], None]
) -> None:
    new = Settings(data=tmp_path / "a" / "b")
    [(level, text)] = await findings(check_data_folder, new)
    assert (level, text) == ("OK", f"{new.data} will be created at the first start")
    forbid(tmp_path)
    for settings in (new, Settings(data=tmp_path)):
        [(level, text)] = await findings(check_data_folder, settings)
        assert level == "FAIL"
        assert str(settings.data) in text
    file = tmp_path / "file"
    file.touch()
    [(level, text)] = await findings(check_data_folder, Settings(data=file))
    assert (level, "is not a folder" in text) == ("FAIL", True)


async def test_a_data_folder_that_nothing_is_kept_in_is_not_looked_at() -> None:
    settings = Settings(command="connection", store="dynamodb://", crypto_key=(KEY,))
    [(level, text)] = await findings(check_data_folder, settings)
    assert (level, text.startswith("not needed")) == ("OK", True)


# ── Keys ──────────────────────────────────────────────────────────────────────────────────────────


async def test_keys_of_files_and_settings_are_counted_and_never_shown(tmp_path: Path) -> None:
    keys = save_keys(service_keys((), (), tmp_path))
    settings = Settings(data=tmp_path)
    found = await findings(check_keys, settings)
    assert found == [
        ("OK", f"crypto_key: 1 in {tmp_path}/keys/crypto_key"),
        ("OK", f"auth_key: 1 in {tmp_path}/keys/auth_key"),
    ]
    settings = Settings(crypto_key=(KEY, KEY), command="connection", sources=given("crypto_key"))
    assert await findings(check_keys, settings) == [("OK", "crypto_key: 2 from --crypto-key")]
    assert not any(key in str(found) for key in (KEY, *keys.crypto, *keys.auth))


async def test_a_key_that_does_not_exist_is_a_warning_in_a_cluster_only(tmp_path: Path) -> None:
    alone = await findings(check_keys, Settings(data=tmp_path))
    assert [level for level, _ in alone] == ["OK", "OK"]
    cluster = await findings(check_keys, Settings(data=tmp_path, store="dynamodb://"))
    assert [level for level, _ in cluster] == ["WARN", "WARN"]
    assert not (tmp_path / "keys").exists()


async def test_a_key_file_that_others_can_read_is_a_warning_and_a_broken_one_a_failure(
    tmp_path: Path,
) -> None:
    save_keys(service_keys((), (), tmp_path))
    (tmp_path / "keys" / "crypto_key").chmod(0o644)
    (tmp_path / "keys" / "auth_key").write_text("two words\n")
    (crypto, first), (auth, second) = await findings(check_keys, Settings(data=tmp_path))
    assert (crypto, "chmod 600" in first) == ("WARN", True)
    assert (auth, "auth_key:1: not a key" in second) == ("FAIL", True)
    assert "two words" not in second


async def test_a_data_folder_that_is_a_link_to_nothing_is_a_failure(tmp_path: Path) -> None:
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "not mounted")
    [(level, text)] = await findings(check_data_folder, Settings(data=link))
    assert level == "FAIL"
    assert f"{link} is a link to {tmp_path}/not mounted, which there is not" in text


# ── Logs ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("output", ["stdout", "stderr", "none"])
async def test_logs_that_go_to_no_file_are_well(output: str) -> None:
    assert await findings(check_logs, Settings(log_output=output)) == [
        ("OK", f"log_output {output}")
    ]


async def test_a_log_file_that_can_be_appended_to_or_created_is_well(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for _ in range(2):
        assert await findings(check_logs, Settings(log_output=str(path))) == [("OK", str(path))]
        path.touch()


async def test_a_log_file_that_cannot_be_opened_is_a_failure(
    tmp_path: Path, forbid: Callable[[Path], None]
) -> None:
    for output in (tmp_path, tmp_path / "missing" / "log"):
        [(level, text)] = await findings(check_logs, Settings(log_output=str(output)))
        assert (level, str(output) in text) == ("FAIL", True)
    path = tmp_path / "log"
    path.touch()
    forbid(path)
    [(level, text)] = await findings(check_logs, Settings(log_output=str(path)))
    assert (level, "may not be written by this user" in text) == ("FAIL", True)


# ── Disk ──────────────────────────────────────────────────────────────────────────────────────────

MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:40 / /srv rw shared:5 - nfs4 server:/srv rw
23 22 8:2 / /srv/push rw - xfs /dev/sdb rw
24 21 0:41 / /mnt/with\\040space rw - cifs //server/x rw
25 21 0:42 / /var/lib/x rw - overlay overlay rw
broken
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        *(("/etc", "ext4"), ("/srv", "nfs4"), ("/srv/other", "nfs4"), ("/srv/push/a", "xfs")),
        *(("/mnt/with space", "cifs"), ("/srvother", "ext4")),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system(Path(folder), MOUNTS) == kind
    assert file_system(Path(folder), "") == ""


@pytest.mark.parametrize(
    ("kind", "level"), [("nfs4", "FAIL"), ("tmpfs", "WARN"), ("overlay", "WARN"), ("xfs", "OK")]
)
async def test_a_store_on_a_file_system_that_loses_it_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: str
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / / rw - {kind} x rw\n")
    monkeypatch.setattr(machine, "MOUNTS", mounts)
    _, (found, text) = await findings(check_disk, Settings(data=tmp_path))
    assert (found, kind in text) == (level, True)


class Usage(NamedTuple):
    free: int


@pytest.mark.parametrize(("free", "level"), [(99, "FAIL"), (101, "WARN"), (1025, "OK")])
async def test_little_space_is_a_warning_and_none_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free << 20))
    (found, _), *_ = await findings(check_disk, Settings(data=tmp_path / "not there yet"))
    assert found == level


async def test_where_nothing_is_kept_no_disk_is_looked_at() -> None:
    settings = Settings(command="connection", store="dynamodb://", crypto_key=(KEY,))
    assert await findings(check_disk, settings) == [("OK", "nothing is kept on this machine")]


# ── Limits ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "files", "level"),
    [
        (Settings(), 1024, "WARN"),
        (Settings(), 200_000, "OK"),
        (Settings(), resource.RLIM_INFINITY, "OK"),
        (Settings(command="endpoint"), 1024, "OK"),
        (Settings(max_connections=900), 1024, "FAIL"),
        (Settings(max_connections=700), 1024, "OK"),
    ],
)
async def test_open_files_must_suffice_for_the_connections(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, files: int, level: str
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, files))
    (found, _), *_ = await findings(check_limits, settings)
    assert found == level


async def test_a_short_queue_and_few_local_ports_are_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, ports = tmp_path / "somaxconn", tmp_path / "ports"
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 1_000_000))
    monkeypatch.setattr(machine, "SOMAXCONN", queue)
    monkeypatch.setattr(machine, "LOCAL_PORTS", ports)
    settings = Settings(max_connections=20_000, workers=2)
    for length, range_, level in (("128", "32768\t60999", "WARN"), ("4096", "1024 65535", "OK")):
        queue.write_text(f"{length}\n")
        ports.write_text(f"{range_}\n")
        _, (first, _), (second, _) = await findings(check_limits, settings)
        assert first == second == level
    queue.unlink()
    ports.write_text("unlike Linux")
    assert len(await findings(check_limits, settings)) == 1
