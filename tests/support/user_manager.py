"""A systemd that runs units for one user, beside the one of this machine or without it."""

import fcntl
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.tools import run_captured

PATIENCE = 180.0
_BOOTED = Path("/run/systemd/system")
"""What the manager of a user looks for; on other machines it gets one that only it sees."""
_PRETEND = f"mount -t tmpfs tmpfs /run/systemd && mkdir {_BOOTED} && exec "
_PROGRAM = "/usr/lib/systemd/systemd"


class UserManager:
    """`folder`: for its units and sockets."""

    def __init__(self, folder: Path) -> None:
        self.units = folder / "config" / "systemd" / "user"
        self.state = folder / "state"
        self._runtime = folder / "run"
        self.units.mkdir(parents=True)
        self._runtime.mkdir(mode=0o700)
        (self.units / "default.target").write_text("[Unit]\nDescription=Nothing\n")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(self.state),
            "XDG_RUNTIME_DIR": str(self._runtime),
        }

    def systemctl(self, *words: str) -> str:
        done = run_captured(["systemctl", "--user", *words], env=self.environment, timeout=PATIENCE)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def property(self, unit: str, name: str) -> str:
        return self.systemctl("show", unit, "--property", name, "--value").strip()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Skips the test where it cannot run: it needs a cgroup that it may write to.

        One runs at a time: managers in one cgroup would end each other's units of one name.
        """
        command = [_PROGRAM, "--user", "--log-target=console"]
        if not _BOOTED.is_dir():
            command = ["unshare", "--mount", "sh", "-c", _PRETEND + " ".join(command)]
        if not (Path(_PROGRAM).exists() and shutil.which("unshare")):
            pytest.skip("needs systemd (apt-get install systemd)")
        output = self._runtime / "output"
        with open(_PROGRAM) as lock, output.open("wb") as file:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = subprocess.Popen(command, env=self.environment, stdout=file, stderr=file)
            try:
                end = time.monotonic() + PATIENCE
                while not (self._runtime / "systemd" / "private").exists():
                    if process.poll() is not None or time.monotonic() > end:
                        last = output.read_text("utf-8").strip().rpartition("\n")[2]
                        pytest.skip(f"no systemd can be started here: {last}")
                    time.sleep(0.02)
                yield
            finally:
                process.terminate()  # it stops its units
                process.wait(PATIENCE)
