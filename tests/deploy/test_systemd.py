"""The systemd units: accepted by systemd where it is there."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from autopush.service import supervisor
from support.paths import ROOT
from support.tools import run_captured

UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
DAEMONS = [
    path
    for path in UNITS
    if re.search(r"ExecStart=\S+ (serve|connection|endpoint)", path.read_text())
]
PROGRAM = "/opt/autopush/.venv/bin/autopush"


def value_of(path: Path, key: str) -> str:
    """The one value of a key in a unit."""
    [value] = re.findall(rf"^{key}=(.*)$", path.read_text("utf-8"), re.MULTILINE)
    assert isinstance(value, str)
    return value


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
    verified = run_captured([program, "verify", "--man=no", str(tmp_path / name)])
    complaints = [line for line in verified.stderr.splitlines() if "autopush" in line]
    assert (verified.returncode, complaints) == (0, [])


@pytest.mark.parametrize("path", DAEMONS, ids=lambda path: path.name)
def test_a_daemon_may_take_as_long_to_stop_as_its_supervisor_waits(path: Path) -> None:
    assert int(value_of(path, "TimeoutStopSec")) > supervisor.GRACE_PERIOD


@pytest.mark.parametrize(
    "path", [path for path in UNITS if path.suffix == ".timer"], ids=lambda path: path.name
)
def test_a_timer_has_its_service_and_a_time(path: Path) -> None:
    assert path.with_suffix(".service") in UNITS
    calendar = value_of(path, "OnCalendar")
    if program := shutil.which("systemd-analyze"):
        subprocess.run([program, "calendar", calendar], check=True, capture_output=True, timeout=60)
