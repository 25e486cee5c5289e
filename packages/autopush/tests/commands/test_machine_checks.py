"""The checks of `autopush doctor` that look at the system."""

import resource
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from autopush.commands import machine_checks
from autopush.commands.machine_checks import (
    check_disk,
    check_limits,
    file_system,
)
from autopush.settings import Settings
from support.checks import findings

KEY = "HJVPy4ZwF4Yz_JdvXTL8hRcwIhv742vC60Tg5Ycrvw8="

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
    monkeypatch.setattr(machine_checks, "MOUNTS", mounts)
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
    monkeypatch.setattr(machine_checks, "SOMAXCONN", queue)
    monkeypatch.setattr(machine_checks, "LOCAL_PORTS", ports)
    settings = Settings(max_connections=20_000, workers=2)
    for length, range_, level in (("128", "32768\t60999", "WARN"), ("4096", "1024 65535", "OK")):
        queue.write_text(f"{length}\n")
        ports.write_text(f"{range_}\n")
        _, (first, _), (second, _) = await findings(check_limits, settings)
        assert first == second == level
    queue.unlink()
    ports.write_text("unlike Linux")
    assert len(await findings(check_limits, settings)) == 1
