"""Starts one autopush service, pinned to its core, and reads what it uses.

A measured server is a process of its own, with a fresh data folder on a real disk, configured by
flags only.
"""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bench import machine
from bench.ledger import MismatchError

READY = re.compile(r"autopush ready")
_URL = re.compile(r"\b(wss?|https?)://([^/\s:]+):(\d+)")
_NODE = re.compile(r"\bnode API [^\s:]+:(\d+)")
HIGH_LIMITS = {"AUTOPUSH_ENDPOINT_RATE": "999999999/s"}
"""In effect, so that what a limit costs is measured, and never reached. A version that does not
know one warns of it.
"""
STOP_LIMIT = 30.0


def default_command() -> list[str]:
    """The console script next to this interpreter."""
    return [str(Path(sys.executable).with_name("autopush")), "serve"]


def spawn(
    command: Sequence[str],
    cores: Collection[int],
    *,
    stdout: int = subprocess.PIPE,
    stderr: int | None = None,
    stdin: int = subprocess.PIPE,
    environment: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process pinned to cores from its first instruction on (an affinity is inherited)."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, mine)


class Server:
    """One run of the service. `start`, then `host`, `port`; `stop` or `kill`; the data folder may
    be used again.
    """

    def __init__(
        self,
        command: Sequence[str],
        options: Mapping[str, str],
        folder: Path,
        cores: Collection[int],
    ) -> None:
        self.folder = folder
        self.host = "127.0.0.1"
        self.port = 0
        ports = dict.fromkeys(("--port", "--router-port"), "0")
        own = {"--host": self.host, **ports, "--data": str(folder / "data"), "--workers": "1"}
        own |= {"--log-output": "stderr", "--log-level": "error"}
        self.command = list(command)
        self._options = {**own, **options}
        self._cores = cores
        self._process: subprocess.Popen[bytes] | None = None
        self._group = 0
        self._next_pid = 0

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process.pid

    def start(self, limit: float = 30.0) -> None:
        """Start it and wait for its ready line; raises `MismatchError` when none comes."""
        flags = [part for option in self._options.items() for part in option]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("AUTOPUSH_")
        } | HIGH_LIMITS
        with (self.folder / "stdout").open("wb") as out, (self.folder / "stderr").open("ab") as err:
            self._process = spawn(
                [*self.command, *flags],
                self._cores,
                stdin=subprocess.DEVNULL,
                stdout=out.fileno(),
                stderr=err.fileno(),
                environment=environment,
            )
        self._group = self._process.pid  # it leads a session of its own: see `spawn`
        until = time.monotonic() + limit
        while not (lines := self._ready_lines()):
            if self._process.poll() is not None or time.monotonic() > until:
                raise MismatchError(f"not ready within {limit:g} s: {self.complaints()}")
            time.sleep(0.02)
        own = lines[-1].partition(" · store ")[0]  # whose URL may name a server too
        ports = {scheme.rstrip("s"): int(port) for scheme, _, port in _URL.findall(own)}
        if not ports:
            raise MismatchError(f"the ready line names no URL: {lines[-1]!r}")
        self.port = ports.get("w", 0) or ports["http"]

    def keep_ports(self, endpoint: str) -> None:
        """Start it on the same ports next time; `endpoint` is one that it gave out."""
        url = _URL.search(endpoint)
        if url is None:
            raise MismatchError(f"an endpoint without a port: {endpoint}")
        self._options |= {"--port": str(self.port)}
        if node := _NODE.search(self._ready_lines()[-1]):
            self._options["--router-port"] = node[1]

    def _ready_lines(self) -> list[str]:
        """One of each version that became ready."""
        lines = (self.folder / "stdout").read_text(errors="replace").splitlines(keepends=True)
        return [line for line in lines if READY.match(line) and line.endswith("\n")]

    def cpu_ns(self) -> int:
        return machine.cpu_ns(self.pid)

    async def begin_upgrade(self, limit: float) -> None:
        """Have it start its next version; returns when that is ready. Then `finish_upgrade`."""
        assert self._process is not None
        machine.adopt_orphans()  # else nobody could wait for the next version
        workers, ready = machine.children(self.pid), len(self._ready_lines())
        self._process.send_signal(signal.SIGUSR2)
        until = time.monotonic() + limit
        while len(self._ready_lines()) == ready:
            if time.monotonic() > until or self._process.poll() is not None:
                raise MismatchError(f"the next version did not start: {self.complaints()}")
            await asyncio.sleep(0.02)
        self._next_pid = (machine.children(self.pid) - workers).pop()

    async def finish_upgrade(self, limit: float) -> None:
        """Wait until the old version has ended; the next one takes its place here too."""
        process = self._process
        assert process is not None
        try:
            code = await asyncio.to_thread(process.wait, limit)
        except subprocess.TimeoutExpired:
            raise MismatchError(f"the old version did not end within {limit:g} s") from None
        if code != 0:
            raise MismatchError(f"the old version ended with {code}: {self.complaints()}")
        process.pid, process.returncode = self._next_pid, None

    def memory(self) -> machine.Memory:
        return machine.memory(self.pid)

    def workers(self) -> list[int]:
        """Their process IDs; of a server with several."""
        return [pid for pid in machine.family(self.pid) if pid != self.pid]

    async def wait_until_idle(self, limit: float = 10.0) -> None:
        """Wait until it has nothing more to do: less than 1 ms of CPU time in 60 ms a worker."""
        until = time.monotonic() + limit
        most = 1_000_000 * int(self._options["--workers"])
        before = self.cpu_ns()
        while time.monotonic() < until:
            await asyncio.sleep(0.06)
            now = self.cpu_ns()
            if now - before < most:
                return
            before = now
        raise MismatchError(f"the server is still busy {limit:g} s after the last request")

    def stop(self) -> None:
        """End it with SIGTERM; it must go with 0 and without a traceback."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            raise MismatchError(f"not ended within {STOP_LIMIT:g} s of SIGTERM") from None
        self._process = None
        if code != 0 or "Traceback" in self.complaints():
            raise MismatchError(f"the server ended with {code}: {self.complaints()}")

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, signal.SIGKILL)
            self._process.wait()
            with contextlib.suppress(ChildProcessError):
                while True:  # what an upgrade has left to this process
                    os.waitpid(-self._group, 0)
            self._process = None

    def complaints(self) -> str:
        """The end of what it wrote to stderr."""
        text = (self.folder / "stderr").read_text(errors="replace")
        return text[-2000:].strip() or "(nothing on stderr)"
