"""The systemd units: accepted by systemd where it is there, and what they promise by rules."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autopush.service import supervisor
from support.paths import ROOT

UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
SERVICES = [path for path in UNITS if path.suffix == ".service"]
DAEMONS = [
    path
    for path in UNITS
    if re.search(r"ExecStart=\S+ (serve|connection|endpoint)", path.read_text())
]
PROGRAM = "/opt/autopush/.venv/bin/autopush"

Section = dict[str, list[str]]


def parse(path: Path) -> dict[str, Section]:
    """Sections of a unit, each with all values of each key."""
    sections: dict[str, Section] = {}
    section: Section = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(match[1], {})
            continue
        key, equals, value = line.partition("=")
        assert equals, f"{path.name}:{number}"
        assert re.fullmatch(r"[A-Za-z]+", key), f"{path.name}:{number}"
        section.setdefault(key, []).append(value)
    return sections


def test_there_are_units_for_one_machine_for_clusters_and_for_the_tools() -> None:
    assert {path.name for path in DAEMONS} == {
        *("autopush.service", "autopush-connection@.service", "autopush-endpoint.service")
    }
    tools = {"autopush-backup", "autopush-maintain"}
    names = {path.name for path in UNITS}
    assert names >= {f"{tool}.{kind}" for tool in tools for kind in ("service", "timer")}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("needs systemd-analyze (apt-get install systemd)")
    for unit in UNITS:
        text = unit.read_text("utf-8").replace(PROGRAM, "/bin/true")
        (tmp_path / unit.name).write_text(text)
    name = path.name.replace("@.", "@8080.")
    if name != path.name:
        (tmp_path / path.name).rename(tmp_path / name)
    verified = subprocess.run(
        [program, "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in verified.stderr.splitlines() if "autopush" in line]
    assert (verified.returncode, complaints) == (0, [])


@pytest.mark.parametrize("path", DAEMONS, ids=lambda path: path.name)
def test_a_daemon_is_started_again_unless_its_command_line_is_wrong(path: Path) -> None:
    unit = parse(path)
    service = unit["Service"]
    assert service["Restart"] == ["on-failure"]
    # Not 3, which a full disk or a locked store gives too.
    assert service["RestartPreventExitStatus"] == ["2"]
    assert 1 <= int(service["RestartSec"][0]) <= 30
    assert unit["Unit"]["StartLimitIntervalSec"] == ["0"]


@pytest.mark.parametrize("path", DAEMONS, ids=lambda path: path.name)
def test_a_daemon_may_take_as_long_to_stop_as_its_supervisor_waits(path: Path) -> None:
    assert int(parse(path)["Service"]["TimeoutStopSec"][0]) > supervisor.GRACE_PERIOD


@pytest.mark.parametrize("path", DAEMONS, ids=lambda path: path.name)
def test_a_daemon_that_stands_still_is_killed_and_one_that_starts_is_not(path: Path) -> None:
    service = parse(path)["Service"]
    assert service["Type"] == ["notify"]
    assert 10 <= int(service["WatchdogSec"][0]) <= 60
    assert service["TimeoutStartSec"] == ["infinity"]


@pytest.mark.parametrize("path", DAEMONS, ids=lambda path: path.name)
def test_a_reload_upgrades_a_daemon(path: Path) -> None:
    service = parse(path)["Service"]
    program = service["ExecStart"][0].split()[0]
    assert service["ExecReload"] == [f"{program} upgrade --pid $MAINPID"]


SANDBOX = {
    "DynamicUser": ["yes"],
    "User": ["autopush"],
    "StateDirectoryMode": ["0700"],
    "UMask": ["0077"],
    "LimitCORE": ["0"],  # keys and messages are in its memory
    "CapabilityBoundingSet": [""],
    "AmbientCapabilities": [""],
    "NoNewPrivileges": ["yes"],
    "ProtectSystem": ["strict"],
    "ProtectHome": ["yes"],
    "PrivateTmp": ["yes"],
    "PrivateDevices": ["yes"],
    "ProtectProc": ["invisible"],
    "ProtectClock": ["yes"],
    "ProtectHostname": ["yes"],
    "ProtectKernelLogs": ["yes"],
    "ProtectKernelModules": ["yes"],
    "ProtectKernelTunables": ["yes"],
    "ProtectControlGroups": ["yes"],
    "RestrictNamespaces": ["yes"],
    "RestrictRealtime": ["yes"],
    "RestrictSUIDSGID": ["yes"],
    "LockPersonality": ["yes"],
    "SystemCallArchitectures": ["native"],
    # The service raises its limit of open files by setrlimit, which is in @resources.
    "SystemCallFilter": ["@system-service", "~@privileged"],
}
FAMILIES = {"AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"}


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_nothing_is_root_and_all_see_little_of_the_machine(path: Path) -> None:
    service = parse(path)["Service"]
    assert {key: service.get(key) for key in SANDBOX} == SANDBOX
    [families] = service["RestrictAddressFamilies"]
    assert set(families.split()) <= FAMILIES


@pytest.mark.parametrize("path", DAEMONS, ids=lambda path: path.name)
def test_a_daemon_has_its_folder_and_a_descriptor_for_each_client(path: Path) -> None:
    service = parse(path)["Service"]
    assert service["StateDirectory"] == ["autopush"]
    assert int(service["LimitNOFILE"][0]) >= 100_000


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_tools_and_daemons_are_one_user_with_one_folder(path: Path) -> None:
    service = parse(path)["Service"]
    assert service["User"] == ["autopush"]
    assert "autopush" in service["StateDirectory"][0].split()
    [line] = service["ExecStart"]
    assert line.startswith(f"{PROGRAM} ")
    assert "--data /var/lib/autopush" in line or "--data ${STATE_DIRECTORY}" in line
    if "${STATE_DIRECTORY}" in line:  # it would be a list of folders
        assert service["StateDirectory"] == ["autopush"]


@pytest.mark.parametrize(
    "path", [path for path in UNITS if path.suffix == ".timer"], ids=lambda path: path.name
)
def test_a_timer_has_its_service_and_catches_up(path: Path) -> None:
    timer = parse(path)
    assert path.with_suffix(".service") in UNITS
    assert timer["Timer"]["Persistent"] == ["yes"]
    assert timer["Install"]["WantedBy"] == ["timers.target"]
    calendar = timer["Timer"]["OnCalendar"][0]
    if program := shutil.which("systemd-analyze"):
        subprocess.run([program, "calendar", calendar], check=True, capture_output=True, timeout=60)


def test_log_files_are_opened_again_after_a_rotation() -> None:
    text = (ROOT / "deploy" / "logrotate").read_text("utf-8")
    body = re.search(r"^/var/log/autopush/\*\.log \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert body is not None
    assert "systemctl kill --signal=HUP autopush.service" in body[1]
    assert "copytruncate" not in body[1]
    service = parse(ROOT / "deploy" / "systemd" / "autopush.service")["Service"]
    assert service["LogsDirectory"] == ["autopush"]
