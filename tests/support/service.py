"""The service as a user starts it: a process of its own on free ports and a temporary folder.

Rule: nothing here belongs to an event loop, so one service can serve all tests of a module. What
waits has two forms: `launch` and `end` block, `start`, `stop` and `kill` are awaited.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from support.user_agent import UserAgent

READY = re.compile(
    r"autopush ready: start page (?P<page>\S+)/ · WebSocket (?P<ws>\S+) · node API (?P<node>\S+)"
)
START_TIMEOUT = 30
STOP_TIMEOUT = 30


def clean_environment(**variables: str) -> dict[str, str]:
    """Our own environment without any setting of the service, and with these variables."""
    return {k: v for k, v in os.environ.items() if not k.startswith("AUTOPUSH_")} | variables


class Service:
    """A running `autopush serve`."""

    def __init__(
        self, data: Path, options: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self.options = list(options)
        self.variables = dict(variables or {})
        self.ports = ["--port", "0", "--endpoint-port", "0", "--router-port", "0"]
        self.endpoint = ""
        self.websocket = ""
        self.node_api = ""
        self.output: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def workers(self) -> list[int]:
        """The process ids of the workers of a service with several."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    @property
    def websocket_port(self) -> int:
        return int(self.websocket.rstrip("/").rpartition(":")[2])

    @property
    def endpoint_port(self) -> int:
        return int(self.endpoint.rpartition(":")[2])

    @property
    def router_port(self) -> int:
        return int(self.node_api.rpartition(":")[2])

    def launch(self) -> None:
        """Start, or start again on the same ports and folder."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "autopush.cli", "serve", "--data", str(self.data)),
                *self.ports,
                *self.options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=clean_environment(**self.variables),
        )
        ready: Future[re.Match[str]] = Future()
        self._reader = threading.Thread(target=self._read, args=(self._process, ready), daemon=True)
        self._reader.start()
        match = ready.result(START_TIMEOUT)
        self.endpoint, self.websocket = match["page"], match["ws"]
        self.node_api = f"http://{match['node']}"
        self.ports = [
            *("--port", str(self.websocket_port)),
            *("--endpoint-port", str(self.endpoint_port)),
            *("--router-port", str(self.router_port)),
        ]

    async def start(self) -> None:
        """Start, or start again on the same ports and folder."""
        await asyncio.to_thread(self.launch)

    def _read(self, process: subprocess.Popen[bytes], ready: "Future[re.Match[str]]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for raw in process.stdout:
                line = raw.decode()
                self.output.append(line)
                match = READY.search(line)
                if match and not ready.done():
                    ready.set_result(match)
        if not ready.done():
            ready.set_exception(RuntimeError("did not start: " + "".join(self.output)))

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and wait for the end; returns the exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            if self._reader is not None:
                self._reader.join()
        return code

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and wait for the end; returns the exit code."""
        return await asyncio.to_thread(self.end, number)

    async def kill(self) -> None:
        """End the process without warning."""
        await self.stop(signal.SIGKILL)

    async def connect(self, uaid: str | None = None) -> UserAgent:
        """A greeted user agent."""
        agent = await UserAgent.connect(self.websocket)
        await agent.hello(uaid)
        return agent

    @property
    def errors(self) -> list[str]:
        """Log lines that tell of a fault of the service."""
        return [
            line
            for line in self.output
            if "Traceback" in line or '"Severity":3' in line or " ERROR " in line
        ]


@asynccontextmanager
async def service(data: Path, *options: str) -> AsyncIterator[Service]:
    """Run a service; at the end it must stop cleanly."""
    running = Service(data, options)
    try:
        await running.start()
        yield running
    finally:
        code = await running.stop()
    assert code == 0, "".join(running.output[-20:])


@contextmanager
def running_service(data: Path, *options: str, **variables: str) -> Iterator[Service]:
    """Run a service for a fixture without event loop; at the end it must stop cleanly and must
    not have logged an error.
    """
    running = Service(data, options, variables)
    try:
        running.launch()
        yield running
    finally:
        code = running.end()
    assert code == 0, "".join(running.output[-20:])
    assert running.errors == []
