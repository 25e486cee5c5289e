"""The unit under a real systemd: its start, a reload, an upgrade, and its watchdog."""

import asyncio
import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.application_server import application_server
from support.certificates import Authority
from support.paths import ROOT
from support.service import READY, Service, autopush
from support.soak import SOAK
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


UNIT = "autopush.service"
WATCHDOG = 8
"""Seconds; the unit has more, which no test should wait for."""


def of_user(unit: str, output: Path, options: str = "--upgrade-drain 1") -> str:
    """The unit, as the manager of a user can run it: without another user and without a sandbox."""
    command = f"{sys.executable} -m autopush.cli"
    text, _, _ = unit.partition("DynamicUser=yes\n")
    text = text.replace("/opt/autopush/.venv/bin/autopush", command)
    text, changed = re.subn(
        r"(?m)^(ExecStart=.*)$", rf"\1 --port 0 --router-port 0 {options}", text
    )
    assert changed == 1
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text = re.sub(r"(?m)^LimitNOFILE=.*$", f"LimitNOFILE={limit}", text)
    text = re.sub(r"(?m)^WatchdogSec=.*$", f"WatchdogSec={WATCHDOG}", text)
    text = re.sub(r"(?m)^RestartSec=.*$", "RestartSec=0", text)
    return f"{text}StateDirectory=autopush\nStandardOutput=append:{output}\n"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - systemd tells only who asks
            await asyncio.sleep(0.05)


async def upgraded(manager: UserManager, pid: int) -> int:
    """The main process of the next version."""
    await autopush("upgrade", "--pid", str(pid))
    await until(lambda: int(manager.property(UNIT, "MainPID")) != pid)
    return int(manager.property(UNIT, "MainPID"))


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="a systemd of its own is started by make soak alone")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_service_is_reloaded_and_upgraded_and_started_again_when_it_stands_still(
    tmp_path: Path, workers: str
) -> None:
    manager, output = UserManager(tmp_path), tmp_path / "output"
    unit = (ROOT / "deploy" / "systemd" / UNIT).read_text()
    (manager.units / UNIT).write_text(of_user(unit, output) + f"Environment=WORKERS={workers}\n")
    with manager.running():
        manager.systemctl("start", UNIT)  # returns when the service says that it is ready
        match = READY.search(output.read_text())
        assert match
        running = Service(tmp_path, [])
        running.websocket = match["ws"]
        first = int(manager.property(UNIT, "MainPID"))
        agent = await running.connect()
        _, endpoint = await agent.register()

        manager.systemctl("reload", UNIT)
        assert int(manager.property(UNIT, "MainPID")) == first
        second = await upgraded(manager, first)
        await until(lambda: not Path(f"/proc/{first}").exists())
        async with application_server() as sender:
            assert (await sender.push(endpoint, b"x", ttl=60)).status == 201
        await agent.ack([await agent.notification()])
        assert manager.property(UNIT, "ActiveState") == "active"
        assert manager.property(UNIT, "NRestarts") == "0"

        os.kill(second, signal.SIGSTOP)  # the main process of the new version is watched
        await until(lambda: manager.property(UNIT, "NRestarts") == "1")
        await until(lambda: manager.property(UNIT, "ActiveState") == "active")
        assert int(manager.property(UNIT, "MainPID")) not in (first, second)
        await agent.close()
        manager.systemctl("stop", UNIT)
        assert manager.property(UNIT, "Result") == "success"


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="a systemd of its own is started by make soak alone")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_after_a_version_that_fails_the_former_one_is_the_main_process_again(
    tmp_path: Path, workers: str
) -> None:
    manager, output = UserManager(tmp_path), tmp_path / "output"
    authority = Authority(tmp_path)
    tls = " ".join(authority.issue(tmp_path).options)
    unit = (ROOT / "deploy" / "systemd" / UNIT).read_text()
    # Connections over TLS stay, and so does this version.
    text = of_user(unit, output, f"--upgrade-drain 600 {tls}")
    (manager.units / UNIT).write_text(text + f"Environment=WORKERS={workers}\n")
    with manager.running():
        manager.systemctl("start", UNIT)
        match = READY.search(output.read_text())
        assert match
        running = Service(tmp_path, [])
        running.websocket, running.tls = match["ws"], authority.client()
        first = int(manager.property(UNIT, "MainPID"))
        agents = [await running.connect() for _ in range(4)]
        second = await upgraded(manager, first)
        os.kill(second, signal.SIGKILL)
        await until(lambda: int(manager.property(UNIT, "MainPID")) == first)
        again = [await running.connect(agent.uaid) for agent in agents]
        heard = {manager.property(UNIT, "WatchdogTimestampMonotonic")}

        def was_heard_twice() -> bool:
            heard.add(manager.property(UNIT, "WatchdogTimestampMonotonic"))
            return len(heard) > 2

        await until(was_heard_twice)  # it says that it is alive
        assert manager.property(UNIT, "ActiveState") == "active"
        assert manager.property(UNIT, "NRestarts") == "0"
        assert int(manager.property(UNIT, "MainPID")) == first
        for agent in (*agents, *again):
            await agent.close()
        manager.systemctl("stop", UNIT)
        assert manager.property(UNIT, "Result") == "success"
