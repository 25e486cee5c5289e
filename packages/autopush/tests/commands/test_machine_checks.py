"""The checks of `autopush doctor` that look at the system."""

import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from autopush.commands import machine_checks
from autopush.commands.machine_checks import (
    capacity_limits,
    check_capacity,
    check_disk,
    check_limits,
    file_system,
)
from autopush.settings import Settings
from support.cases import cases
from support.checks import findings

KEY = "Mghht5Ko9NLO4SPnxMb5vKuetGLJc743-6TUfE_je_A="

# ── Disk ──────────────────────────────────────────────────────────────────────────────────────────

MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:40 / /srv rw shared:5 - nfs4 server:/srv rw
23 22 8:2 / /srv/push rw - xfs /dev/sdb rw
24 21 0:41 / /mnt/with\\040space rw - cifs //server/x rw
25 21 0:42 / /var/lib/x rw - overlay overlay rw
broken
"""


@cases(
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


# ── Capacity ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets what the system allows; a machine of 4 GiB otherwise, and 20,000 files a process."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 20_000))

    def sets(**texts: str) -> None:
        default = {
            "MEMORY": "MemTotal: 5000000 kB\nMemAvailable: 4194304 kB\n",
            "FILES": "3000\t0\t2000000",
            "TCP_MEMORY": "280000 380000 570000",
            "TRACKED": "0",
            "MOST_TRACKED": "262144",
        }
        for name, text in (default | texts).items():
            path = tmp_path / name
            path.write_text(text)
            monkeypatch.setattr(machine_checks, name, path)

    return sets


async def test_the_first_limit_says_how_many_user_agents_a_machine_can_hold(
    system: Callable[..., None],
) -> None:
    system()
    [(level, text)] = await findings(check_capacity, Settings(workers=2))
    assert (level, text.partition(":")[0]) == ("OK", "room for 36,000 user agents")
    rooms = {of: number for number, of, _ in capacity_limits(2)}
    assert rooms["open files of the workers"] == 36_000  # a tenth is for other purposes
    assert rooms["open files of the system"] == 1_997_000
    assert rooms["a page of TCP buffers each"] == 380_000
    per_user_agent = machine_checks.PROCESS_BYTES + machine_checks.KERNEL_BYTES
    workers = 2 * machine_checks.WORKER_BYTES
    assert rooms["memory"] == ((4 << 30) - workers) // per_user_agent
    assert not [of for of in rooms if "firewall" in of]  # it tracks none


@pytest.mark.parametrize(
    ("texts", "advice"),
    [
        ({}, "Raise LimitNOFILE, or have more workers"),
        ({"MEMORY": "MemAvailable: 131072 kB"}, "Lower max_connections, or have more memory"),
        ({"FILES": "2000\t0\t30000"}, "Raise sysctl fs.file-max"),
        ({"TCP_MEMORY": "10000 20000 30000"}, "Raise sysctl net.ipv4.tcp_mem"),
        (
            {"TRACKED": "5", "MOST_TRACKED": "16384"},
            "Raise sysctl net.netfilter.nf_conntrack_max, or do not track these ports",
        ),
    ],
)
async def test_more_connections_than_the_machine_can_hold_are_a_warning(
    system: Callable[..., None], texts: dict[str, str], advice: str
) -> None:
    system(**texts)
    wanted = Settings(workers=2, max_connections=20_000)
    [(level, text)] = await findings(check_capacity, wanted)
    assert (level, text.endswith(advice)) == ("WARN", True), text
    assert text.startswith("max_connections of all workers is 40,000")


async def test_a_system_that_tells_no_limit_is_no_failure(
    system: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    system(**dict.fromkeys(("FILES", "TCP_MEMORY", "TRACKED", "MOST_TRACKED", "MEMORY"), "unlike"))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, resource.RLIM_INFINITY))
    unknown = [("OK", "no WebSockets, or no limit is known")]
    assert await findings(check_capacity, Settings()) == unknown
    assert await findings(check_capacity, Settings(command="endpoint")) == unknown
